"""Converts positions to times and times to cuts, by the marks of one domain.

The marks are one monotone relation from time to cut (Materialize's reclocking), so each question is
a binary search.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from noted_time.reading.cuts import INT64_CODE, Cuts
from noted_time.reading.trend import Trend
from noted_time.values import MIN_INT64, Mark, NotCompleteYet, StreamCut, TimeWindow, reaches


class Stretch(NamedTuple):
    """A segment's offsets at the first and the last mark that include it."""

    first_offset: int
    last_offset: int


class MarkHistory:
    """A gapless run of marks: new marks are appended, the oldest dropped.

    `first_seq` is of the first kept mark. `final_cut` is `None` while the stream is not sealed. One
    thread may append while others search. The count, written last, makes a new mark visible.

    >>> history = MarkHistory()
    >>> history.append(Mark(1, lower=10, upper=14, cut=StreamCut({0: 100})))
    >>> history.append(Mark(2, lower=20, upper=29, cut=StreamCut({0: 200, 1: 50})))
    >>> history.window({0: 150})
    TimeWindow(lower=10, upper=29, lower_seq=1, upper_seq=2, sealed=False)

    A mark that the position crosses bounds nothing:

    >>> history.window({0: 99, 1: 60})
    TimeWindow(lower=None, upper=None, lower_seq=None, upper_seq=None, sealed=False)
    """

    __slots__ = (
        "__weakref__",
        "_bounds",
        "_count",
        "_cuts",
        "_excluded",
        "_excluded_counts",
        "_excluding",
        "_final_seq",
        "_last_writers",
        "_lowers",
        "_stepped_back",
        "_uppers",
        "_written",
        "final_cut",
        "first_seq",
    )

    def __init__(self, marks: Iterable[Mark] = ()) -> None:
        self.first_seq = 1
        self._count = 0
        self._lowers = array(INT64_CODE)
        self._uppers = array(INT64_CODE)
        self._written = array(INT64_CODE)
        self._bounds = bytearray()
        self._last_writers: list[str | None] = []
        self._excluded: dict[int, tuple[str, ...]] = {}
        self._excluded_counts: dict[int, int] = {}
        self._excluding = array(INT64_CODE)
        self._stepped_back = array(INT64_CODE)
        self._cuts = Cuts()
        self._final_seq = 0
        self.final_cut: Mapping[int, int] | None = None
        for mark in marks:
            self.append(mark)

    def __len__(self) -> int:
        return self._count

    @property
    def last_seq(self) -> int:
        """The seq of the last mark, 0 if there is none."""
        return self.first_seq + self._count - 1

    @property
    def last(self) -> Mark | None:
        """The last mark."""
        if not self._count:
            return None
        return self._mark(self._count - 1)

    @property
    def first(self) -> Mark | None:
        """The first kept mark."""
        return self._mark(0) if self._count else None

    @property
    def last_lower(self) -> int | None:
        """The lower of the last mark."""
        if not self._count:
            return None
        return self._lowers[self._count - 1]

    def append(self, mark: Mark, last_writer: str | None = None) -> None:
        """Append the next mark, for which the watermark waited for `last_writer` last.

        Raises `ValueError` if the mark does not follow the last one.
        """
        count = self._count
        if not count:
            self.first_seq = mark.seq
        elif (
            mark.seq != self.last_seq + 1
            or mark.lower <= self._lowers[count - 1]
            or self.final_cut is not None
        ):
            message = f"mark {mark.seq} at {mark.lower} does not follow mark {self.last_seq}"
            raise ValueError(message)
        self._cuts.append(count, mark.cut.offsets)
        if count and mark.written_at < self._written[count - 1]:
            self._stepped_back.append(mark.seq)
        self._lowers.append(mark.lower)
        self._uppers.append(mark.upper)
        self._written.append(mark.written_at)
        self._bounds.append(mark.upper_is_bound)
        self._last_writers.append(last_writer)
        if mark.excluded:
            self._excluded[mark.seq] = mark.excluded
            self._excluding.append(mark.seq)
        if isinstance(mark.excluded_count, int):
            self._excluded_counts[mark.seq] = mark.excluded_count
        if mark.final:
            self._final_seq = mark.seq
        self._count = count + 1

    def seal(self, final_cut: Mapping[int, int]) -> None:
        """End the history at the final cut; no mark may follow.

        >>> history = MarkHistory([Mark(1, lower=10, upper=9, cut=StreamCut({0: 5}), final=True)])
        >>> history.seal({0: 5})
        >>> history.window({0: 5}).sealed, history.complete_to(99).seq
        (True, 1)
        """
        self.final_cut = final_cut

    def window(self, position: Mapping[int, int]) -> TimeWindow:
        """Return the time window of a normalised position.

        The lower is from the last mark whose cut it reaches, the upper from the first mark whose
        cut reaches and differs from it.
        """
        count = self._count
        last, beyond = self._cuts.locate(position, count)
        lower = lower_seq = upper = upper_seq = None
        if last >= 0:
            lower = self._lowers[last]
            lower_seq = self.first_seq + last
        if beyond < count:
            upper = self._uppers[beyond]
            upper_seq = self.first_seq + beyond
        final_cut = self.final_cut
        is_sealed = final_cut is not None and reaches(position, final_cut)
        return TimeWindow(lower, upper, lower_seq, upper_seq, is_sealed)

    def times(self, position: Mapping[int, int]) -> dict[int, int | None]:
        """Return the time of a normalised position in each segment (PDP-28), if any.

        All events of the segment below it were read. The least of the times is the window's lower:

        >>> cuts = [{0: 100}, {0: 200, 1: 50}, {0: 200, 1: 90}]
        >>> history = MarkHistory(Mark(n, n * 10, 99, StreamCut(cut)) for n, cut in enumerate(cuts))
        >>> history.times({0: 150, 1: 60}), history.window({0: 150, 1: 60}).lower
        ({0: 0, 1: 10}, 0)
        """
        count = self._count
        if not count:
            return dict.fromkeys(position)
        times: dict[int, int | None] = {}
        for segment, index in self._cuts.find_reached(position, count).items():
            times[segment] = self._lowers[index] if index >= 0 else None
        for segment in position.keys() - times.keys():
            times[segment] = self._lowers[count - 1]
        return times

    def complete_to(self, time: int) -> Mark:
        """Return the first mark with lower >= `time`, or raise `NotCompleteYet`.

        In a sealed stream, the mark with the final cut is complete to any time.
        """
        index = bisect_left(self._lowers, time, 0, self._count)
        if index < self._count:
            return self._mark(index)
        if self.is_whole:
            return self._mark(index - 1)
        raise NotCompleteYet(time, self._lowers[index - 1] if index else None)

    @property
    def is_whole(self) -> bool:
        """Whether the stream is sealed and the last mark's cut has all of it."""
        last = self.last
        final = self.final_cut
        return last is not None and final is not None and reaches(last.cut.offsets, final)

    @property
    def whole_from(self) -> int | None:
        """The time above which the mark with all rows of a sealed stream answers, or `None`."""
        if not self.is_whole:
            return None
        if self._count > 1:
            return self._lowers[self._count - 2]
        return MIN_INT64

    def has_all_rows(self, seq: int) -> bool:
        """Whether the stream is sealed and this mark's cut has all of it."""
        return self.is_whole and seq == self.last_seq

    def bounded_below(self, time: int, seq: int) -> Mark | None:
        """Return the last mark up to `seq` whose upper is a bound and below `time`.

        An upper is a bound if no row below the cut is later. Only such uppers never fall.
        """
        uppers = self._uppers
        bounds = self._bounds
        end = min(self._count, seq - self.first_seq + 1)

        def upper(index: int) -> int:
            bound_index = bounds.rfind(1, 0, index + 1)
            if bound_index >= 0:
                return uppers[bound_index]
            return MIN_INT64

        bounded_range = range(bounds.rfind(1, 0, max(0, end)) + 1)
        index = bounds.rfind(1, 0, bisect_left(bounded_range, time, key=upper))
        return self._mark(index) if index >= 0 else None

    def first_reaching(self, position: Mapping[int, int]) -> Mark | None:
        """Return the first mark whose cut reaches a position, or `None`."""
        get_cut = self._cuts.at
        index = bisect_left(
            range(self._count), 1, key=lambda mark_index: reaches(get_cut(mark_index), position)
        )
        if index >= self._count:
            return None
        return self._mark(index)

    def excluded_in(self, first_seq: int, last_seq: int) -> tuple[str, ...]:
        """Return the writers first excluded by the marks from `first_seq` to `last_seq`."""
        start = bisect_left(self._excluding, first_seq)
        stop = bisect_right(self._excluding, last_seq)
        names: dict[str, None] = {}
        for seq in self._excluding[start:stop]:
            names.update(dict.fromkeys(self._excluded[seq]))
        return tuple(names)

    def after(self, seq: int, limit: int) -> list[Mark]:
        """Return at most `limit` marks with a seq above `seq`, in order."""
        start = max(0, seq + 1 - self.first_seq)
        return [self._mark(index) for index in range(start, min(start + limit, self._count))]

    def following(self, seq: int) -> Iterator[Mark]:
        """Yield the marks with a seq above `seq`, while others may be appended or dropped."""
        last = self.last_seq
        while seq < last:
            seq = max(seq + 1, self.first_seq)
            yield self.mark(seq)

    def mark(self, seq: int) -> Mark:
        """Return the mark with this seq, or raise `KeyError`."""
        if not self.first_seq <= seq <= self.last_seq:
            raise KeyError(seq)
        return self._mark(seq - self.first_seq)

    def last_writer(self, seq: int) -> str | None:
        """Return the writer that the watermark waited for last before a kept mark, if known."""
        return self._last_writers[seq - self.first_seq]

    def latest_written_at(self, count: int) -> Sequence[int]:
        """Return when the last `count` marks were written (Unix ms)."""
        return self._written[max(0, self._count - count) : self._count]

    def forget_through(self, seq: int) -> None:
        """Drop the marks up to `seq`, except the last, while no other thread searches."""
        drop = min(seq, self.last_seq - 1) - self.first_seq + 1
        if drop <= 0:
            return
        self._cuts.drop(drop, self._count)
        # another thread may read a trend's arrays
        self._lowers = self._lowers[drop:]
        self._uppers = self._uppers[drop:]
        self._written = self._written[drop:]
        self._bounds = self._bounds[drop:]
        self._last_writers = self._last_writers[drop:]
        self.first_seq += drop
        self._count -= drop
        self._keep_exclusions(self)

    def latest(self, count: int) -> MarkHistory:
        """Return a copy with the last `count` marks, while others may search."""
        start = max(0, self._count - count)
        kept_history = MarkHistory()
        kept_history.first_seq = self.first_seq + start
        kept_history._count = self._count - start
        kept_history._lowers = self._lowers[start:]
        kept_history._uppers = self._uppers[start:]
        kept_history._written = self._written[start:]
        kept_history._bounds = self._bounds[start:]
        kept_history._last_writers = self._last_writers[start:]
        kept_history._final_seq = self._final_seq
        kept_history.final_cut = self.final_cut
        kept_history._cuts = self._cuts.since(start, self._count)
        kept_history._keep_exclusions(self)
        return kept_history

    def trend(self) -> Trend:
        """Return the current marks over wall time, unaffected by later changes."""
        return Trend(
            self.first_seq,
            self._count,
            self._lowers,
            self._uppers,
            self._written,
            self._bounds,
            self._excluded,
            self._excluding,
            self._stepped_back,
        )

    def segments(self) -> Iterable[int]:
        """Return the segments that the marks include."""
        return self._cuts.segments()

    def stretch(self, segment: int) -> Stretch | None:
        """Return the begin and end of the marks in a segment, if any.

        >>> history = MarkHistory(Mark(n, n * 10, 99, StreamCut({0: n - 1})) for n in (1, 2, 3))
        >>> history.stretch(0)
        Stretch(first_offset=1, last_offset=2)
        """
        count = self._count
        offset = self._cuts.offset
        first = self._cuts.find_start(segment, count)
        if first is None:
            return None
        return Stretch(offset(segment, first), offset(segment, count - 1))

    def moved_at(self, segment: int) -> int | None:
        """Return when the last kept mark that moved a segment was written (Unix ms), or `None`."""
        index = None
        if self._count:
            index = self._cuts.find_last_move(segment, self._count)
        if index is None:
            return None
        return self._written[index]

    def _keep_exclusions(self, whole_history: MarkHistory) -> None:
        first = self.first_seq
        self._excluded = {
            seq: names for seq, names in whole_history._excluded.items() if seq >= first
        }
        counts = whole_history._excluded_counts
        self._excluded_counts = {seq: count for seq, count in counts.items() if seq >= first}
        self._excluding = whole_history._excluding[bisect_left(whole_history._excluding, first) :]
        self._stepped_back = whole_history._stepped_back[
            bisect_right(whole_history._stepped_back, first) :
        ]

    def _mark(self, index: int) -> Mark:
        seq = self.first_seq + index
        return Mark(
            seq=seq,
            lower=self._lowers[index],
            upper=self._uppers[index],
            cut=StreamCut(self._cuts.at(index)),
            written_at=self._written[index],
            excluded=self._excluded.get(seq, ()),
            upper_is_bound=bool(self._bounds[index]),
            final=seq == self._final_seq,
            excluded_count=self._excluded_counts.get(seq, UNSET),
        )
