"""The segments of a file log, as far as a query reads them with its marks."""

from __future__ import annotations

import dataclasses
import logging
import time as clocks
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from noted_time import Rejected, Unreachable
from noted_time.extending import (
    PATIENCE_S,
    WHOLE_LOG,
    Json,
    LogPath,
    WholeFrom,
    choose_domain,
    parse_root,
    position_to_wire,
)
from noted_time_extensions.files.layout import ForeignFile
from noted_time_extensions.files.spark.admission import (
    Slice,
    Unread,
    check_there,
    compute_shares,
    divide_into_tasks,
    find_slices,
    select_unread,
)
from noted_time_extensions.files.spark.forms import ColumnForms, is_doubtful, warn_of_utc
from noted_time_extensions.files.spark.log_files import (
    FilesBySegment,
    LogFile,
    LogFiles,
    find_first_offsets,
)
from noted_time_extensions.files.spark.log_rows import LogTask
from noted_time_extensions.files.spark.query import NEW_LOG, LogQuery
from spark_integration.extending import (
    ControllerFeed,
    NotedOffset,
    Planner,
    Releaser,
    StreamOffset,
    Watermark,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

log = logging.getLogger("noted_time.spark")

MISSING_ROWS = (
    "%s: the last mark needs segment %d up to offset %d, and the log under %s has it up to %d: the "
    "watermark does not advance past the marks before"
)


NO_FIELDS = "none of zone, unit and format"


class LogPlanner(Planner):
    """Plans batches of rows of a file log."""

    monotonic = staticmethod(clocks.monotonic)

    def __init__(self, query: LogQuery, columns: Iterable[str], token: str | None) -> None:
        feed = ControllerFeed(query.controller_url, query.stream, query.domain, token=token)
        self._marks = Releaser(feed, query.policy.on_seal)
        backlog = query.catch_up.policy if query.catch_up else None
        super().__init__(query.beginning, query.policy, {query.stream: self._marks}, backlog)
        self._query = query
        self._files = LogFiles(
            parse_root(query.root),
            query.stream,
            frozenset(columns),
            ignore=query.ignore,
            event_time=query.event_time,
        )
        self._feed = feed
        self._forms: ColumnForms | None = None
        self._foreign: dict[LogPath, float] = {}
        self._target: FilesBySegment | None = None
        self._missing: set[int] = set()
        self._last: tuple[NotedOffset, Watermark] | None = None

    def freeze(self) -> None:
        super().freeze()
        self._target = self._files.refresh()

    def find_ends(self, start_offset: NotedOffset, limit: ReadLimit) -> NotedOffset | None:
        """Find no ends while the log has a foreign file, which may be removed soon."""
        try:
            start_offset = self._set_times(start_offset)
            self._check_own_form(start_offset)
            end_offset = start_offset
            if not start_offset.is_read:
                end_offset = self._find_ends(start_offset, limit)
        except ForeignFile as refusal:
            now_s = self.monotonic()
            since_s = self._foreign.setdefault(refusal.path, now_s)
            if now_s - since_s >= PATIENCE_S and not refusal.is_being_written:
                raise
            if since_s == now_s:
                log.warning("%s: no batch: %s", self._query.stream, refusal)
            return None
        self._explain(end_offset)
        return end_offset

    def _check_own_form(self, start_offset: NotedOffset) -> None:
        """Raise `Rejected` if the checkpoint was begun with another zone, unit or format."""
        checkpoint_form = start_offset.streams[self._query.stream].facts.own_form
        query_form = self._query.columns.own_form
        if checkpoint_form is None and not query_form.reads_utc_or_ms:
            raise Rejected(
                f"the checkpoint is of an earlier version, which has read UTC or Unix ms, and the "
                f"query has {query_form}: start a query with a new checkpoint"
            )
        if checkpoint_form is not None and checkpoint_form != query_form:
            raise Rejected(
                f"the checkpoint was begun with {str(checkpoint_form) or NO_FIELDS}, and the query "
                f"has {str(query_form) or NO_FIELDS}: use the former, or start a query with a new "
                "checkpoint"
            )

    def _find_forms(self, start_offset: NotedOffset, files: Iterable[LogFile]) -> ColumnForms:
        """Return how the event times of files are read. Raises `Rejected` if it is not known.

        The stream states it. A file with instants needs no statement.
        """
        query = self._query
        facts = start_offset.streams[query.stream].facts
        known_forms = self._forms or ColumnForms(
            query.stream,
            query.event_time,
            query.columns.own_form,
            is_utc=facts.own_form is None and not query.columns.own_form,
        )
        doubtful_types: set[tuple[pa.DataType, bool]] = set()
        for file in files:
            if file.time_type is not None and is_doubtful(file.time_type):
                doubtful_types.add((file.time_type, file.is_ours))
        if not doubtful_types:
            return known_forms
        try:
            stream = self._feed.ask_stream()
        except Unreachable:
            if self._forms is None:
                raise
            return self._forms
        domain = query.domain or choose_domain(stream.domains)
        stated_forms = known_forms.take_stated(stream.event_time_forms, domain)
        forms = dataclasses.replace(known_forms, stated=stated_forms)
        for time_type, is_ours in doubtful_types:
            forms.check_known(time_type, is_ours=is_ours)
        if self._forms is None:
            warn_of_utc(forms)
        self._forms = forms
        return forms

    def _set_times(self, start_offset: NotedOffset) -> NotedOffset:
        wanted_range = self._query.range.times
        if start_offset == self.beginning:
            first_offsets = self._find_first_offsets()
            stream_offset = start_offset.streams[self._query.stream]
            stream_offset = replace(stream_offset, segments=first_offsets)
            start_offset = replace(
                start_offset,
                streams={self._query.stream: stream_offset},
                times=wanted_range,
                begin=first_offsets,
            )
        return replace(start_offset, times=start_offset.times.continue_as(wanted_range))

    def _find_first_offsets(self) -> dict[int, int]:
        start_at = self._query.range.times.start_at
        if start_at is None:
            return {}
        marks = self._marks.history
        mark = marks.bounded_below(start_at, marks.last_seq)
        from_cut: Mapping[int, int] = {}
        if mark is not None:
            from_cut = mark.cut.offsets
        files = self._find_files()
        event_time = self._query.event_time
        return find_first_offsets(files, event_time, start_at, from_cut, self._marks.final)

    def _find_files(self) -> FilesBySegment:
        """Return the files of the log, or of its start under `availableNow`."""
        if self._target is None:
            return self._files.refresh()
        return self._target

    def _find_ends(self, start_offset: NotedOffset, limit: ReadLimit) -> NotedOffset:
        files = self._find_files()
        stream_offset = start_offset.streams[self._query.stream]
        self._foreign.clear()
        deleted_ends = self._find_deleted(files, stream_offset.segments)
        unread = Unread(files, stream_offset.segments)
        end_at = start_offset.times.end_at
        if end_at is not None:
            unread = unread.limit_to_cut(self._marks.find_cut(end_at, stream_offset.mark))
        rows = unread.count_rows()
        limit = self._choose_limit(start_offset, limit, is_read=not any(rows.values()))
        if isinstance(limit, ReadMaxRows):
            rows = compute_shares(rows, limit.max_rows)
        ends = {**stream_offset.segments, **unread.find_ends(rows)}
        mark = self._marks.release(stream_offset.mark, {**deleted_ends, **ends})
        start_at = start_offset.times.start_at
        whole_from = self._find_whole(stream_offset, files, deleted_ends, start_at)
        facts = replace(stream_offset.facts, whole=whole_from)
        next_offset = replace(stream_offset, mark=mark, segments=ends, facts=facts)
        return replace(start_offset, streams={self._query.stream: next_offset})

    def _choose_limit(
        self, start_offset: NotedOffset, usual_limit: ReadLimit, *, is_read: bool
    ) -> ReadLimit:
        stream = self._query.stream
        catch_up = self._query.catch_up
        position = start_offset.streams[stream].segments
        is_behind = self.backlog.look(start_offset, stream, self._marks, position, idle=is_read)
        if catch_up is None or not is_behind:
            return usual_limit
        larger_limit = catch_up.max_rows_per_trigger
        if larger_limit is None:
            return ReadAllAvailable()
        return ReadMaxRows(larger_limit)

    def _find_whole(
        self,
        stream_offset: StreamOffset,
        files: FilesBySegment,
        deleted_ends: Mapping[int, int],
        start_at: int | None,
    ) -> WholeFrom | None:
        """Return the first time whose rows the query has, all of them.

        It is `None` if rows of a new segment, or of a new query, were deleted before they were
        read.
        """
        known_whole = stream_offset.facts.whole
        is_new = known_whole == NEW_LOG
        for segment, run in files.items():
            is_begun = not is_new and segment in stream_offset.segments
            if not is_begun and run and run[0].start:
                return None
        for segment, end in deleted_ends.items():
            if segment not in stream_offset.segments and end:
                return None
        if not is_new:
            return known_whole
        if start_at is None:
            return WHOLE_LOG
        return WholeFrom(time=start_at)

    def _find_deleted(self, files: FilesBySegment, read_to: Mapping[int, int]) -> dict[int, int]:
        """Return the ends of the sealed segments without files. Raises if unread rows are gone.

        Warns once of each segment whose rows the last mark needs, and the log does not have yet.
        """
        sealed_ends = self._marks.final.items()
        deleted_ends = {segment: end for segment, end in sealed_ends if not files.get(segment)}
        self._files.check_kept(read_to)
        for segment, offset in read_to.items():
            check_there(files.get(segment, []), offset, deleted_ends.get(segment, 0))
        last_mark = self._marks.history.last
        if last_mark is None or self._target is not None:
            return deleted_ends
        query = self._query
        missing_segments: set[int] = set()
        for segment, needed_end in sorted(last_mark.cut.offsets.items()):
            segment_files = files.get(segment, [])
            log_end = segment_files[-1].end if segment_files else 0
            if segment in deleted_ends or needed_end <= log_end:
                continue
            missing_segments.add(segment)
            if segment not in self._missing:
                log.warning(MISSING_ROWS, query.stream, segment, needed_end, query.root, log_end)
        self._missing = missing_segments
        return deleted_ends

    def _explain(self, end_offset: NotedOffset) -> None:
        stream_offset = end_offset.streams[self._query.stream]
        last_report = self._last
        following = self._marks.history.after(stream_offset.mark.seq, 1)
        watermark = self._find_watermark(end_offset).explain_wait(following, stream_offset.segments)
        if last_report is None or watermark != last_report[1]:
            stream = self._query.stream
            log.debug("%s: watermark %s, as %s", stream, watermark.ms, watermark.because)
        self._last = (end_offset, watermark)

    def report_latest(self) -> Json | None:
        if self._last is None:
            return None
        end_offset, watermark = self._last
        files = Unread(self._files.refresh(is_checked=False), {})
        times = end_offset.times
        stream_offset = end_offset.streams[self._query.stream]
        if end_offset.is_read:
            files = files.limit_to_cut(stream_offset.segments)
        elif times.end_at is not None:
            files = files.limit_to_cut(self._marks.find_cut(times.end_at, stream_offset.mark))
        ends = {segment: run[-1].end for segment, run in files.files.items() if run}
        return {
            "stream": self._query.stream,
            "segments": position_to_wire(ends),
            "domain": self._marks.stream.domain or self._query.domain,
            "last_lower": times.cap(self._marks.last_lower),
            "watermark": watermark.ms,
            "because": watermark.because,
        }

    def _find_watermark(self, offset: NotedOffset, *, strict: bool | None = None) -> Watermark:
        """Return the watermark of an offset, by default as the policy says."""
        if strict is None:
            strict = self._query.policy.strict
        return offset.find_watermark(strict=strict, lag_ms=self._query.lag_ms)

    def list_ranges(self, start_offset: NotedOffset, end_offset: NotedOffset) -> Sequence[LogTask]:
        if start_offset == end_offset:
            return []
        slices = list(self._find_work(start_offset, end_offset))
        first_work, *other_works = divide_into_tasks(slices, self._query.batches.cores or 1) or [[]]
        mark_ms = self._find_watermark(end_offset).ms
        late_below = self._find_watermark(start_offset, strict=False).ms
        tasks = [LogTask(tuple(first_work), end_offset.times, mark_ms, late_below)]
        for work in other_works:
            tasks.append(LogTask(tuple(work), end_offset.times, None, late_below))
        return tasks

    def _find_work(self, start_offset: NotedOffset, end_offset: NotedOffset) -> Iterator[Slice]:
        files = self._files.refresh(is_checked=False)  # the batch is planned already
        stream = self._query.stream
        starts = {**end_offset.begin, **start_offset.streams[stream].segments}
        ends = end_offset.streams[stream].segments
        self._files.check_kept(ends)
        unread_files: list[LogFile] = []
        for segment in ends:
            unread_files += select_unread(files.get(segment, ()), starts.get(segment, 0))
        forms = self._find_forms(end_offset, unread_files)
        for segment, end in ends.items():
            run = files.get(segment, [])
            start = starts.get(segment, 0)
            if start < end:
                check_there(run, start, end)
                yield from find_slices(run, start, end, segment, forms)
