"""The segments of a file log, as far as a query reads them with its marks."""

from __future__ import annotations

import dataclasses
import logging
import time as clocks
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
    from pyspark.sql.streaming.datasource import ReadLimit

log = logging.getLogger("noted_time.spark")

MISSING_ROWS = (
    "%s: the last mark needs segment %d up to offset %d, and the log under %s has it up to %d: the "
    "watermark does not advance past the marks before"
)


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

    def find_ends(self, begun: NotedOffset, limit: ReadLimit) -> NotedOffset | None:
        """Find no ends while the log has a foreign file, which may be removed soon."""
        try:
            begun = self._set_times(begun)
            self._check_own_form(begun)
            ended = begun if begun.is_read else self._find_ends(begun, limit)
        except ForeignFile as refusal:
            now_s = self.monotonic()
            since_s = self._foreign.setdefault(refusal.path, now_s)
            if now_s - since_s >= PATIENCE_S and not refusal.is_being_written:
                raise
            if since_s == now_s:
                log.warning("%s: no batch: %s", self._query.stream, refusal)
            return None
        self._explain(ended)
        return ended

    def _check_own_form(self, begun: NotedOffset) -> None:
        """Raise `Rejected` if the checkpoint was begun with another zone, unit or format."""
        known = begun.streams[self._query.stream].facts.own_form
        own = self._query.columns.own_form
        if known is None and not own.reads_utc_or_ms:
            raise Rejected(
                f"the checkpoint is of an earlier version, which has read UTC or Unix ms, and the "
                f"query has {own}: start a query with a new checkpoint"
            )
        if known is not None and known != own:
            before, now = (str(each) or "none of zone, unit and format" for each in (known, own))
            raise Rejected(
                f"the checkpoint was begun with {before}, and the query has {now}: use the former, "
                "or start a query with a new checkpoint"
            )

    def _find_forms(self, begun: NotedOffset, files: Iterable[LogFile]) -> ColumnForms:
        """Return how the event times of files are read. Raises `Rejected` if it is not known.

        The stream states it. A file with instants needs no statement.
        """
        query = self._query
        facts = begun.streams[query.stream].facts
        known = self._forms or ColumnForms(
            query.stream,
            query.event_time,
            query.columns.own_form,
            is_utc=facts.own_form is None and not query.columns.own_form,
        )
        types = {
            (each.time_type, each.is_ours)
            for each in files
            if each.time_type is not None and is_doubtful(each.time_type)
        }
        if not types:
            return known
        try:
            stream = self._feed.ask_stream()
        except Unreachable:
            if self._forms is None:
                raise
            return self._forms
        domain = query.domain or choose_domain(stream.domains)
        stated = known.take_stated(stream.event_time_forms, domain)
        found = dataclasses.replace(known, stated=stated)
        for time_type, is_ours in types:
            found.check_known(time_type, is_ours=is_ours)
        if self._forms is None:
            warn_of_utc(found)
        self._forms = found
        return found

    def _set_times(self, begun: NotedOffset) -> NotedOffset:
        asked = self._query.range.times
        if begun == self.beginning:
            begin = self._find_first_offsets()
            read = replace(begun.streams[self._query.stream], segments=begin)
            begun = replace(begun, streams={self._query.stream: read}, times=asked, begin=begin)
        return replace(begun, times=begun.times.continue_as(asked))

    def _find_first_offsets(self) -> dict[int, int]:
        start_at = self._query.range.times.start_at
        if start_at is None:
            return {}
        marks = self._marks.history
        known = marks.bounded_below(start_at, marks.last_seq)
        from_cut = {} if known is None else known.cut.offsets
        files, final = self._find_files(), self._marks.final
        return find_first_offsets(files, self._query.event_time, start_at, from_cut, final)

    def _find_files(self) -> FilesBySegment:
        return self._files.refresh() if self._target is None else self._target

    def _find_ends(self, begun: NotedOffset, limit: ReadLimit) -> NotedOffset:
        files, read = self._find_files(), begun.streams[self._query.stream]
        self._foreign.clear()
        deleted = self._find_deleted(files, read.segments)
        unread, end_at = Unread(files, read.segments), begun.times.end_at
        if end_at is not None:
            unread = unread.limit_to_cut(self._marks.find_cut(end_at, read.mark))
        rows = unread.count_rows()
        limit = self._choose_limit(begun, limit, is_read=not any(rows.values()))
        if isinstance(limit, ReadMaxRows):
            rows = compute_shares(rows, limit.max_rows)
        ends = {**read.segments, **unread.find_ends(rows)}
        mark = self._marks.release(read.mark, {**deleted, **ends})
        whole = self._find_whole(read, files, deleted, begun.times.start_at)
        facts = replace(read.facts, whole=whole)
        ended = replace(read, mark=mark, segments=ends, facts=facts)
        return replace(begun, streams={self._query.stream: ended})

    def _choose_limit(self, begun: NotedOffset, usual: ReadLimit, *, is_read: bool) -> ReadLimit:
        stream, catch_up = self._query.stream, self._query.catch_up
        position = begun.streams[stream].segments
        is_behind = self.backlog.look(begun, stream, self._marks, position, idle=is_read)
        if catch_up is None or not is_behind:
            return usual
        larger = catch_up.max_rows_per_trigger
        return ReadMaxRows(larger) if larger else ReadAllAvailable()

    def _find_whole(
        self,
        begun: StreamOffset,
        files: FilesBySegment,
        deleted: Mapping[int, int],
        start_at: int | None,
    ) -> WholeFrom | None:
        """Return from when on the query has all rows, `None` if some were deleted before it."""
        known, read = begun.facts.whole, begun.segments
        is_new = known == NEW_LOG
        firsts = [run[0].start for s, run in files.items() if run and (is_new or s not in read)]
        if any(firsts) or any(end for s, end in deleted.items() if s not in read):
            return None
        first = WHOLE_LOG if start_at is None else WholeFrom(time=start_at)
        return first if is_new else known

    def _find_deleted(self, files: FilesBySegment, read_to: Mapping[int, int]) -> dict[int, int]:
        deleted = {s: end for s, end in self._marks.final.items() if not files.get(s)}
        self._files.check_kept(read_to)
        for segment, offset in read_to.items():
            check_there(files.get(segment, []), offset, deleted.get(segment, 0))
        last = self._marks.history.last
        if last is None or self._target is not None:
            return deleted
        ends = {s: end for s, end in last.cut.offsets.items() if s not in deleted}
        there = {s: files[s][-1].end if files.get(s) else 0 for s in ends}
        missing = {s for s in ends if ends[s] > there[s]}
        query = self._query
        for s in sorted(missing - self._missing):
            log.warning(MISSING_ROWS, query.stream, s, ends[s], query.root, there[s])
        self._missing = missing
        return deleted

    def _explain(self, ended: NotedOffset) -> None:
        read, last = ended.streams[self._query.stream], self._last
        following = self._marks.history.after(read.mark.seq, 1)
        watermark = self._find_watermark(ended).explain_wait(following, read.segments)
        if last is None or watermark != last[1]:
            stream = self._query.stream
            log.debug("%s: watermark %s, as %s", stream, watermark.ms, watermark.because)
        self._last = ended, watermark

    def report_latest(self) -> Json | None:
        if self._last is None:
            return None
        ended, watermark = self._last
        files, times = Unread(self._files.refresh(is_checked=False), {}), ended.times
        read = ended.streams[self._query.stream]
        if ended.is_read:
            files = files.limit_to_cut(read.segments)
        elif times.end_at is not None:
            files = files.limit_to_cut(self._marks.find_cut(times.end_at, read.mark))
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
        strict = self._query.policy.strict if strict is None else strict
        return offset.find_watermark(strict=strict, lag_ms=self._query.lag_ms)

    def list_ranges(self, begun: NotedOffset, ended: NotedOffset) -> Sequence[LogTask]:
        if begun == ended:
            return []
        work = list(self._find_work(begun, ended))
        first, *others = divide_into_tasks(work, self._query.batches.cores or 1) or [[]]
        mark_ms = self._find_watermark(ended).ms
        late_below = self._find_watermark(begun, strict=False).ms
        marking = LogTask(tuple(first), ended.times, mark_ms, late_below)
        return [marking, *(LogTask(tuple(each), ended.times, None, late_below) for each in others)]

    def _find_work(self, begun: NotedOffset, ended: NotedOffset) -> Iterator[Slice]:
        files = self._files.refresh(is_checked=False)  # the batch is planned already
        starts, ends = (each.streams[self._query.stream].segments for each in (begun, ended))
        starts = {**ended.begin, **starts}
        self._files.check_kept(ends)
        unread = (select_unread(files.get(s, ()), starts.get(s, 0)) for s in ends)
        forms = self._find_forms(ended, chain.from_iterable(unread))
        for segment, end in ends.items():
            run, start = files.get(segment, []), starts.get(segment, 0)
            if start < end:
                check_there(run, start, end)
                yield from find_slices(run, start, end, segment, forms)
