"""How many rows a micro-batch may take: more of them while the query has a backlog."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from noted_time.wing import UNKNOWN, Backlog, BacklogPolicy, BacklogState

if TYPE_CHECKING:
    from spark_integration.offsets import LogOffset


class BatchSizes:
    """Decides the limit of each batch that is planned, and has the offset log say what it found.

    A batch that is run again ends where the offset log says: the flag in there decides nothing. It
    only tells the next run of the query that it had caught up, for the sticky rule.
    """

    def __init__(self, policy: BacklogPolicy | None, rows: int) -> None:
        """Let batches have `rows` while there is a backlog, 0 for no limit."""
        self._policy = policy
        self._rows = rows
        self._backlog: Backlog | None = None

    def limit(
        self,
        usual: ReadLimit,
        begun: LogOffset,
        domain: str,
        last_lower: int | None,
        *,
        unread: int,
    ) -> ReadLimit:
        """Return the limit of the batch that begins at `begun`, with so many rows unread."""
        if self._policy is None:
            return usual
        if self._backlog is None:
            known = BacklogState(caught_up=begun.backlog is False)
            self._backlog = Backlog(self._policy, known)
        lower = begun.released(domain).lower
        now_ms = time.time_ns() // 1_000_000
        if not self._backlog.look(now_ms, lower, last_lower, idle=not unread).backlog:
            return usual
        return ReadMaxRows(self._rows) if self._rows else ReadAllAvailable()

    def noted(self, begun: LogOffset, ended: LogOffset) -> LogOffset:
        """Return the end of a batch with what was found; a change of it alone makes no batch."""
        if self._policy is None or ended == begun:
            return ended
        state = self._backlog.state if self._backlog else UNKNOWN
        flag = state.backlog or (False if state.caught_up else None)
        return replace(ended, backlog=flag)
