"""One Spark query in two modes: all available rows at once during a backlog, its own trigger after.

Both modes continue from one checkpoint, so each row is read once and a window is the same whichever
mode closes it. The query's progress, as its sources report it, shows how far it is.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from noted_time import Rejected
from noted_time.progress import Backlog, BacklogPolicy, combined
from spark_integration.log.offset import LogOffset
from spark_integration.marks.released import is_of_log

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("noted_time.spark")

Mode = Literal["backlog", "live"]
"""``backlog``: start the query with ``trigger(availableNow=True)``; ``live``: with its own."""

LOOK_S = 1


def run_adaptively(
    start: Callable[[Mode], StreamingQuery],
    *,
    policy: BacklogPolicy,
    dwell_ms: int = 60_000,
    stopping: threading.Event | None = None,
) -> None:
    """Run a query in the mode that suits how far behind it is, until it is stopped or fails.

    `start` starts the query in a mode, each time with the same plan and ``checkpointLocation``. It
    begins in the mode ``backlog``: such a run reads what is available and ends. If the policy
    (FLIP-328) then finds a backlog, another such run follows, otherwise a run in the mode ``live``.
    A live run is stopped for the other mode once there is a backlog, but not before it has run for
    `dwell_ms`, so that the modes do not alternate. A source that has read everything has no backlog
    by the wall clock. If there are several sources, a backlog of one is enough.

    Returns when a live query was stopped elsewhere, or soon after `stopping` is set; raises
    what a query fails with, and `Rejected` if none of its sources is a `read_noted_log`.
    """
    if dwell_ms < 0:
        raise Rejected(f"dwell_ms must be 0 or more, got {dwell_ms}")
    lags, stopping = Lags(policy), stopping or threading.Event()
    mode: Mode | None = "live" if policy.is_never else "backlog"
    while mode is not None and not stopping.is_set():
        log.info("the query continues in mode %r", mode)
        query = start(mode)
        try:
            mode = _next_mode(query, mode, lags, stopping, dwell_s=dwell_ms / 1000)
        finally:
            query.stop()


def _next_mode(
    query: StreamingQuery, mode: Mode, lags: Lags, stopping: threading.Event, *, dwell_s: float
) -> Mode | None:
    """Wait until the query is over in this mode; returns the next one, `None` if it is to end."""
    since = time.monotonic()
    while not query.awaitTermination(LOOK_S):
        if stopping.is_set():
            return None
        is_behind = mode == "live" and lags.are_behind(query)
        if is_behind and time.monotonic() - since >= dwell_s:
            return "backlog"
    if mode == "live":
        return None
    return "backlog" if lags.are_behind(query) else "live"


class Lags:
    """Whether the sources of a query have a backlog, by what its progress reports."""

    def __init__(self, policy: BacklogPolicy) -> None:
        """Start without knowing any source."""
        self._policy = policy
        self._backlogs: dict[int, Backlog] = {}
        self._flags: dict[int, bool | None] = {}

    def are_behind(self, query: StreamingQuery) -> bool:
        """Whether a query has a backlog, by its last progress; raises as `look`."""
        if (progress := query.lastProgress) is None:
            return False
        sources = [(each.endOffset, each.latestOffset) for each in progress.sources]
        return self.look(sources, time.time_ns() // 1_000_000)

    def look(self, sources: list[tuple[str, str]], now_ms: int) -> bool:
        """Return the flag; `sources` has (end offset, latest offset) of each, in JSON.

        Raises `Rejected` if none is a file log.
        """
        offsets = [(_parsed(end), _parsed(latest)) for end, latest in sources]
        logs = [each for each in offsets if is_of_log(each[0])]
        if offsets and not logs:
            raise Rejected("no source of the query is a read_noted_log, so its lag is not known")
        if len(logs) != len(self._backlogs):
            self._backlogs = {number: Backlog(self._policy) for number in range(len(logs))}
            self._flags = dict.fromkeys(self._backlogs)
        for number, (end, latest) in enumerate(logs):
            if isinstance(latest, dict):
                self._flags[number] = self._look(self._backlogs[number], end, latest, now_ms)
        return bool(combined(self._flags.values()))

    def _look(
        self, backlog: Backlog, end: Mapping[str, Any], latest: Mapping[str, Any], now_ms: int
    ) -> bool:
        begun = LogOffset.from_json(dict(end))
        lower = begun.released(latest["domain"]).lower
        has_all = all(
            begun.segments.get(int(segment), 0) >= offset
            for segment, offset in latest["segments"].items()
        )
        return backlog.look(now_ms, lower, latest["last_lower"], idle=has_all).backlog


def _parsed(offset: object) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return a source's offset, `None` if it has none."""
    try:
        return json.loads(str(offset))
    except ValueError:
        return None
