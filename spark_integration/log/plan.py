"""Plans the end of a micro-batch and its watermark.

A `Plan` has the rows that a batch may read. `Limit` returns its ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from spark_integration.log.offset import LogOffset
from spark_integration.log.options import CatchUp
from spark_integration.marks.backlog import QueryBacklog
from spark_integration.marks.release import Releaser
from spark_integration.marks.released import Released, Watermark
from spark_integration.scan.admission import Unread, compute_shares


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The end of a micro-batch, and its watermark."""

    ends: LogOffset
    watermark: Watermark


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows that a micro-batch after `start_offset` may read."""

    start_offset: LogOffset
    released: Released
    marks: Releaser
    unread: Unread
    limit: ReadLimit

    def limit_to_cut(self, cut: Mapping[int, int]) -> Plan:
        return replace(self, unread=self.unread.limit_to_cut(cut))


def limit_to_range(plan: Plan) -> Plan:
    end_at = plan.start_offset.times.end_at
    return plan if end_at is None else plan.limit_to_cut(plan.marks.find_cut(end_at, plan.released))


class Limit:
    """The last stage, with another limit of rows during a backlog."""

    def __init__(self, catch_up: CatchUp | None) -> None:
        self._catch_up = catch_up
        self._backlog: QueryBacklog | None = None

    def find_ends(self, plan: Plan) -> dict[int, int]:
        rows = plan.unread.count_rows()
        limit = self._find_limit(plan, sum(rows.values()))
        if isinstance(limit, ReadMaxRows):
            rows = compute_shares(rows, limit.max_rows)
        return {**plan.start_offset.segments, **plan.unread.find_ends(rows)}

    def _find_limit(self, plan: Plan, unread: int) -> ReadLimit:
        if self._catch_up is None:
            return plan.limit
        if self._backlog is None:
            self._backlog = QueryBacklog(self._catch_up.policy, plan.start_offset.backlog)
        last_lower = plan.start_offset.times.cap(plan.marks.last_lower)
        lower, first = plan.released.lower, plan.marks.find_lower(plan.start_offset.segments)
        if not self._backlog.look(lower, last_lower, idle=not unread, first_lower=first):
            return plan.limit
        larger = self._catch_up.max_rows_per_trigger
        return ReadMaxRows(larger) if larger else ReadAllAvailable()

    def flag_backlog(self, start_offset: LogOffset, end_offset: LogOffset) -> LogOffset:
        """Return `end_offset` with the backlog, which alone makes no batch."""
        if self._catch_up is None or end_offset == start_offset:
            return end_offset
        return replace(end_offset, backlog=self._backlog.flag if self._backlog else None)
