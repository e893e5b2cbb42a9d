"""One run of a query on a file log: its files, marks and micro-batches."""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from noted_time.client import Json, position_to_wire
from noted_time.client.polling import PATIENCE_S
from noted_time.filelog import ForeignFile
from noted_time.reading import WHOLE_LOG, WholeFrom
from noted_time.stores import LogPath, parse_root
from spark_integration.log.offset import LogOffset
from spark_integration.log.plan import BatchPlan, Limit, Plan, limit_to_range
from spark_integration.log.query import LogQuery
from spark_integration.log.rows import LogTask
from spark_integration.marks.feed import ControllerFeed
from spark_integration.marks.release import Releaser
from spark_integration.marks.released import Restated, Watermark
from spark_integration.scan.admission import (
    Slice,
    Unread,
    check_there,
    divide_into_tasks,
    find_slices,
)
from spark_integration.scan.files import FilesBySegment, LogFiles
from spark_integration.scan.time_range import find_first_offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

log = logging.getLogger("noted_time.spark")

MISSING_ROWS = (
    "%s: the last mark needs segment %d up to offset %d, and the log under %s has it up to %d: the "
    "watermark does not advance past the marks before"
)


class Planner:
    """Plans micro-batches, and follows the marks."""

    monotonic = staticmethod(clocks.monotonic)

    def __init__(self, query: LogQuery, columns: Iterable[str], token: str | None) -> None:
        self._query = query
        self._files = LogFiles(
            parse_root(query.root), query.stream, frozenset(columns), ignore=query.ignore
        )
        self._foreign: dict[LogPath, float] = {}
        feed = ControllerFeed(query.controller_url, query.stream, query.domain, token=token)
        self._marks = Releaser(feed, query.policy.on_seal)
        self._limit = Limit(query.catch_up)
        self._target: FilesBySegment | None = None
        self._restated = Restated(batch_after_mark=query.policy.batch_after_mark)
        self._missing: set[int] = set()
        self._last: BatchPlan | None = None
        self._explained_at: tuple[LogOffset, int] | None = None

    def close(self) -> None:
        self._marks.close()

    def get_initial_offset(self) -> Json:
        return self._query.beginning.to_json()

    def plan_next_offset(self, start: Json, limit: ReadLimit) -> Json:
        return self.plan(self._query.parse_offset(start), limit).ends.to_json()

    def read_no_more_than_now(self) -> None:
        self._target = self._files.refresh()

    def plan(self, start_offset: LogOffset, limit: ReadLimit) -> BatchPlan:
        """Plan no batch while the log has a foreign file, which may be gone soon."""
        try:
            return self._plan(start_offset, limit)
        except ForeignFile as refusal:
            now_s = self.monotonic()
            since_s = self._foreign.setdefault(refusal.path, now_s)
            if now_s - since_s >= PATIENCE_S and not refusal.is_being_written:
                raise
            if since_s == now_s:
                log.warning("%s: no batch: %s", self._query.stream, refusal)
            return self._explain(start_offset)

    def _plan(self, start_offset: LogOffset, limit: ReadLimit) -> BatchPlan:
        """Read marks before files are listed, so the list has all rows below their cuts."""
        released = start_offset.get_released(self._query.domain_name)
        if self._target is None or not self._restated.has_begun:
            self._marks.follow(released)
        start_offset = self._set_times(start_offset)
        end_offset = (
            start_offset
            if start_offset.times.are_read(released.lower)
            else self._plan_end(start_offset, limit)
        )
        run = self._restated.run(
            start_offset.run, released, is_first_due=released.lower is not None
        )
        end_offset = self._limit.flag_backlog(start_offset, replace(end_offset, run=run))
        return self._explain(self._state_source(start_offset, end_offset))

    def _state_source(self, start_offset: LogOffset, end_offset: LogOffset) -> LogOffset:
        if end_offset == start_offset:
            return start_offset
        query, domain = self._query, self._marks.domain or start_offset.domain
        released = end_offset.get_released(query.domain_name)
        first = self._marks.find_first_lower(released, start_offset.first_lower)
        return replace(end_offset, domain=domain, lag_ms=query.lag_ms, first_lower=first)

    def _set_times(self, start_offset: LogOffset) -> LogOffset:
        asked = self._query.range.times
        if start_offset == self._query.beginning:
            start_offset = replace(start_offset, times=asked, begin=self._find_first_offsets())
            start_offset = replace(start_offset, segments=start_offset.begin)
        return replace(start_offset, times=start_offset.times.continue_as(asked))

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

    def _plan_end(self, start_offset: LogOffset, limit: ReadLimit) -> LogOffset:
        files, domain = self._find_files(), self._query.domain_name
        self._foreign.clear()
        deleted = self._find_deleted(files, start_offset.segments)
        unread = Unread(files, start_offset.segments)
        plan = Plan(start_offset, start_offset.get_released(domain), self._marks, unread, limit)
        ends = self._limit.find_ends(limit_to_range(plan))
        whole = self._find_whole(start_offset, files, deleted)
        end_offset = replace(start_offset, segments=ends, whole=whole)
        released = self._marks.release(plan.released, {**deleted, **end_offset.segments})
        return end_offset.admit(domain, released)

    def _find_whole(
        self, start_offset: LogOffset, files: FilesBySegment, deleted: Mapping[int, int]
    ) -> WholeFrom | None:
        """Return from when on the query has all rows, `None` if some were deleted before it."""
        is_first, read = not start_offset.marks, start_offset.segments
        firsts = [run[0].start for s, run in files.items() if run and (is_first or s not in read)]
        if any(firsts) or any(end for s, end in deleted.items() if s not in read):
            return None
        start_at = start_offset.times.start_at
        first = WHOLE_LOG if start_at is None else WholeFrom(time=start_at)
        return first if is_first else start_offset.whole

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

    def _explain(self, end_offset: LogOffset) -> BatchPlan:
        marks, last = self._marks.history, self._last
        known = (end_offset, marks.last_seq)
        if last is not None and known == self._explained_at:
            return last
        following = marks.after(end_offset.get_released(self._query.domain_name).seq, 1)
        watermark = self._find_watermark(end_offset).explain_wait(following, end_offset.segments)
        if last is None or watermark != last.watermark:
            name = self._query.stream
            log.debug("%s: watermark %s, as %s", name, watermark.ms, watermark.because)
        self._explained_at, self._last = known, BatchPlan(end_offset, watermark)
        return self._last

    def report_latest(self) -> Json | None:
        if self._last is None:
            return None
        end_offset, watermark = self._last.ends, self._last.watermark
        files, times = Unread(self._files.refresh(is_checked=False), {}), end_offset.times
        released = end_offset.get_released(self._query.domain_name)
        if times.are_read(released.lower):
            files = files.limit_to_cut(end_offset.segments)
        elif times.end_at is not None:
            files = files.limit_to_cut(self._marks.find_cut(times.end_at, released))
        ends = {segment: run[-1].end for segment, run in files.files.items() if run}
        return {
            "noted_log": self._query.stream,
            "segments": position_to_wire(ends),
            "domain": self._query.domain_name,
            "last_lower": times.cap(self._marks.last_lower),
            "watermark": watermark.ms,
            "because": watermark.because,
        }

    def _find_watermark(self, offset: LogOffset, *, strict: bool | None = None) -> Watermark:
        query = self._query
        released = offset.get_released(query.domain_name)
        if offset.times.are_read(released.lower):
            return Watermark(offset.times.end_at, "the range is read to its end_at")
        strict = query.policy.strict if strict is None else strict
        return Watermark.of(released, strict=strict, lag_ms=query.lag_ms)

    def list_tasks(self, start: Json, end: Json) -> Sequence[LogTask]:
        start_offset, end_offset = self._query.parse_offset(start), self._query.parse_offset(end)
        if start_offset == end_offset:
            return []
        start_offset = replace(start_offset, segments={**end_offset.begin, **start_offset.segments})
        work = list(self._find_work(start_offset, end_offset))
        first, *others = divide_into_tasks(work, self._query.batches.cores or 1) or [[]]
        mark_ms, late_below = (
            self._find_watermark(end_offset).ms,
            self._find_watermark(start_offset, strict=False).ms,
        )
        marking = LogTask(tuple(first), mark_ms, late_below, end_offset.times)
        return [marking, *(replace(marking, work=tuple(t), mark_ms=None) for t in others)]

    def _find_work(self, start_offset: LogOffset, end_offset: LogOffset) -> Iterator[Slice]:
        files = self._files.refresh(is_checked=False)  # the batch is planned already
        self._files.check_kept(end_offset.segments)
        for segment, end in end_offset.segments.items():
            run, start = files.get(segment, []), start_offset.segments.get(segment, 0)
            if start < end:
                check_there(run, start, end)
                yield from find_slices(run, start, end)
