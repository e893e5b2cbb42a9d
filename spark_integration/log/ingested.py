"""Stamps each row with its ingestion time.

The stamp is T - 1, where T is the lower of the first ingestion mark whose cut lies above the row.
Rows above the last cut wait. A micro-batch's offset names its marks, so a repeated batch has the
same stamps. Rows below the first kept mark may belong to a dropped one: their stamp is unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from noted_time import Mark, Rejected, Unreachable
from noted_time.values import format_time
from spark_integration.log.offset import LogOffset
from spark_integration.log.options import Unstamped
from spark_integration.log.plan import Plan
from spark_integration.marks.arguments import INGESTED_COLUMN
from spark_integration.marks.feed import FeedMarks, MarksFeed
from spark_integration.marks.released import Released
from spark_integration.marks.watermark import is_watermark
from spark_integration.scan.admission import Slice, find_slices
from spark_integration.scan.files import FilesBySegment, LogFile

FIRST_STAMP, LAST_STAMP = "ingestion/first", "ingestion/last"  # not domains
UNSTAMPED_MARK = "ingestion/unstamped"


class IngestionMarks:
    """A feed that keeps the marks for unread rows."""

    def __init__(self, feed_of: Callable[[], MarksFeed], unstamped: Unstamped = "fail") -> None:
        self._feed_of = feed_of
        self._feed = feed_of()
        self._unstamped = unstamped
        self._stream_id = ""
        self._admitted = Released()
        self._last_seq = 0
        self._marks: list[Mark] = []
        self._after_gap = 0

    @property
    def subject(self) -> str:
        return self._feed.subject

    def begin(self, released: Released) -> None:
        self._admitted = released
        self._feed.begin(released)

    def take(self) -> FeedMarks:
        new = self._feed.take()
        if new.stream_id != self._stream_id:
            self._stream_id, self._marks = new.stream_id, []
            is_continued = new.stream_id == self._admitted.stream_id
            self._last_seq = self._admitted.seq if is_continued else 0
        if new.marks and new.marks[0].seq <= self._last_seq:
            self._marks = []
        elif new.marks and new.marks[0].seq != self._last_seq + 1:
            self._after_gap, self._marks = new.marks[0].seq, []
        self._last_seq = new.marks[-1].seq if new.marks else self._last_seq
        self._marks.extend(_select_stamps(new))
        return new

    def explain(self, position: Mapping[int, int]) -> str:
        return self._feed.explain(position)

    def close(self) -> None:
        self._feed.close()

    @property
    def cut(self) -> Mapping[int, int]:
        """The last cut."""
        return self._marks[-1].cut.offsets if self._marks else {}

    def limit_plan(self, plan: Plan) -> Plan:
        return plan.limit_to_cut(self.cut)

    def stamp(
        self, start_offset: LogOffset, end_offset: LogOffset, files: FilesBySegment
    ) -> LogOffset:
        self._forget_below(start_offset.segments)
        grown = [
            (s, max(start_offset.segments.get(s, 0), files[s][0].start), end)
            for s, end in end_offset.segments.items()
            if files.get(s)
        ]
        grown = [(s, start, end) for s, start, end in grown if start < end]
        if not grown:
            return end_offset
        first = min(_find_mark_above(self._marks, segment, start) for segment, start, _ in grown)
        last = max(_find_mark_above(self._marks, segment, end - 1) for segment, _, end in grown)
        stamping = {FIRST_STAMP: self._marks[first], LAST_STAMP: self._marks[last]}
        if self._marks[first].seq == self._after_gap:
            self._check_unstamped(self._marks[first], grown)
            stamping[UNSTAMPED_MARK] = self._marks[first]
        for name, mark in stamping.items():
            end_offset = end_offset.admit(name, Released(self._stream_id, mark.seq))
        return end_offset

    def _check_unstamped(self, mark: Mark, grown: Iterable[tuple[int, int, int]]) -> None:
        if self._unstamped == "null":
            return
        below = mark.cut.offsets
        segment, start = next((s, start) for s, start, _ in grown if start < below.get(s, 0))
        raise Rejected(
            f"{self.subject}: rows {start} to {below[segment]} of segment {segment} came in before "
            f"mark {mark.seq} (lower {format_time(mark.lower)}), the first one still kept, so "
            f"their {INGESTED_COLUMN} is not known: to read it as null, pass "
            'Ingestion(unstamped="null")'
        )

    def split_by_stamp(
        self, end_offset: LogOffset, work: Iterable[tuple[int, Sequence[LogFile], int, int]]
    ) -> Iterator[Slice]:
        marks: Sequence[Mark] | None = None
        for segment, files, start, end in work:
            begin = max(start, files[0].start) if files else end
            while begin < end:
                marks = self._find_marks(end_offset) if marks is None else marks
                mark = marks[_find_mark_above(marks, segment, begin)]
                upto = min(end, mark.cut.offsets[segment])
                is_known = Released(
                    end_offset.get_released(LAST_STAMP).stream_id, mark.seq
                ) != end_offset.get_released(UNSTAMPED_MARK)
                for each in find_slices(files, begin, upto):
                    yield replace(each, stamp_ms=mark.lower - 1 if is_known else None)
                begin = upto

    def _forget_below(self, position: Mapping[int, int]) -> None:

        def is_read(mark: Mark) -> bool:
            return all(position.get(s, 0) >= end for s, end in mark.cut.offsets.items())

        read = sum(1 for _ in takewhile(is_read, self._marks[:-1]))
        del self._marks[:read]

    def _find_marks(self, end_offset: LogOffset) -> list[Mark]:
        first, last = end_offset.get_released(FIRST_STAMP), end_offset.get_released(LAST_STAMP)
        marks = self._marks if last.stream_id == self._stream_id else []
        if not _has_all(marks, first, last):
            marks = self._fetch_marks(first, last)
        return [mark for mark in marks if first.seq <= mark.seq <= last.seq]

    def _fetch_marks(self, first: Released, last: Released) -> list[Mark]:
        feed = self._feed_of()
        try:
            feed.begin(replace(first, seq=first.seq - 1))
            new_marks = feed.take()
        finally:
            feed.close()
        which = (
            f"{feed.subject}: marks {first.seq} to {last.seq}, which stamp rows to be read again"
        )
        if not new_marks.stream_id:
            raise Unreachable(f"{which}, cannot be fetched now")
        marks = _select_stamps(new_marks)
        if new_marks.stream_id != last.stream_id or not _has_all(marks, first, last):
            raise Rejected(f"{which}, are no longer kept")
        return marks


def _find_mark_above(marks: Sequence[Mark], segment: int, offset: int) -> int:
    return bisect_right(marks, offset, key=lambda mark: mark.cut.offsets.get(segment, 0))


def _select_stamps(new: FeedMarks) -> list[Mark]:
    return [mark for mark in new.marks if is_watermark(mark.lower)]


def _has_all(marks: Sequence[Mark], first: Released, last: Released) -> bool:
    return bool(marks) and marks[0].seq <= first.seq and last.seq <= marks[-1].seq
