"""Whether a query has a backlog, and how the offset of a micro-batch says so.

The flag has no effect if the batch is run again. It only tells the next run of the query that it
had caught up, for the sticky rule.
"""

from __future__ import annotations

import time

from noted_time.progress import Backlog, BacklogPolicy, BacklogState


class QueryBacklog:
    """The backlog of a query on one stream, from the `flag` in its last offset on.

    >>> backlog = QueryBacklog(BacklogPolicy(behind_ms=1000, rule="sticky"), flag=False)
    >>> backlog.look(5000, 9000, idle=False), backlog.flag
    (False, False)
    """

    def __init__(self, policy: BacklogPolicy, flag: bool | None) -> None:  # noqa: FBT001 - the value
        self._backlog = Backlog(policy, BacklogState(caught_up=flag is False))

    def look(self, lower: int | None, last_lower: int | None, *, idle: bool) -> bool:
        """Return whether there is a backlog now; the arguments are those of `Backlog`."""
        now_ms = time.time_ns() // 1_000_000
        return self._backlog.look(now_ms, lower, last_lower, idle=idle).backlog

    @property
    def flag(self) -> bool | None:
        """What the last look found, `None` if nothing is known."""
        state = self._backlog.state
        return state.backlog or (False if state.caught_up else None)
