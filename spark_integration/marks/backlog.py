"""Decides whether a query has a backlog, and stores this in its offsets."""

from __future__ import annotations

import time
from collections.abc import Mapping

from noted_time.progress import Backlog, BacklogPolicy, BacklogState, combine_flags
from spark_integration.marks.offset import NotedOffset
from spark_integration.marks.release import Releaser


class QueryBacklog:
    """The backlog of a query, from the flag in its last offset on; without a policy there is none.

    Without a live writer, the lag behind the wall clock does not count (FLIP-328), but the query
    has not caught up. Under the rule `sticky`, the flag is false only once it has.
    """

    def __init__(self, policy: BacklogPolicy | None) -> None:
        self._policy = policy
        self._streams: dict[str, Backlog] = {}
        self._flags: dict[str, bool | None] = {}

    def look(
        self,
        start_offset: NotedOffset,
        stream: str,
        marks: Releaser,
        position: Mapping[int, int] | None,
        *,
        idle: bool,
    ) -> bool:
        """Return whether a stream is behind at the end of the last batch, which read `position`."""
        if self._policy is None:
            return False
        last_state = BacklogState(caught_up=start_offset.backlog is False)
        backlog = self._streams.setdefault(stream, Backlog(self._policy, last_state))
        now_ms = time.time_ns() // 1_000_000
        lower = start_offset.streams[stream].mark.lower
        last_lower = start_offset.times.cap(marks.last_lower)
        first_lower = None
        if position is not None:
            first_lower = marks.find_lower(position)
        state = backlog.look(now_ms, lower, last_lower, idle=idle, first_lower=first_lower)
        has_certain_flag = state.caught_up or (idle and self._policy.rule != "sticky")
        self._flags[stream] = None
        if state.backlog or has_certain_flag:
            self._flags[stream] = state.backlog
        return state.backlog

    @property
    def flag(self) -> bool | None:
        return combine_flags(self._flags.values())
