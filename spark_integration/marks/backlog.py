"""Decides whether a query has a backlog, and stores this in its offsets."""

from __future__ import annotations

import time

from noted_time.progress import Backlog, BacklogPolicy, BacklogState


class QueryBacklog:
    """The backlog of a query on one stream, from the `flag` in its last offset on.

    >>> backlog = QueryBacklog(BacklogPolicy(behind_ms=1000, rule="sticky"), flag=False)
    >>> backlog.look(5000, 9000, idle=False), backlog.flag
    (False, False)

    Without a live writer, the lag behind the wall clock does not count (FLIP-328), but the query
    has not caught up:

    >>> quiet = QueryBacklog(BacklogPolicy(watermark_lag_ms=1000), flag=None)
    >>> quiet.look(5000, 5000, idle=True), quiet.flag
    (False, False)
    """

    def __init__(self, policy: BacklogPolicy, flag: bool | None) -> None:  # noqa: FBT001 - the value
        self._backlog = Backlog(policy, BacklogState(caught_up=flag is False))
        self._is_sticky = policy.rule == "sticky"
        self._is_idle = False

    def look(
        self,
        lower: int | None,
        last_lower: int | None,
        *,
        idle: bool,
        first_lower: int | None = None,
    ) -> bool:
        self._is_idle = idle
        now_ms = time.time_ns() // 1_000_000
        state = self._backlog.look(now_ms, lower, last_lower, idle=idle, first_lower=first_lower)
        return state.backlog

    @property
    def flag(self) -> bool | None:
        """Under the sticky rule, false only once the query has caught up."""
        state = self._backlog.state
        is_known = state.caught_up or (self._is_idle and not self._is_sticky)
        return state.backlog or (False if is_known else None)
