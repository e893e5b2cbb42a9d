"""How much one controller takes on, and the error it raises when there is no room."""

from __future__ import annotations

from dataclasses import dataclass

from controller.aggregation.groups import DEFAULT_LIMITS, GroupLimits
from controller.store.port import StoreUnavailable
from noted_time.values import ProblemKind


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one controller's memory, so that no caller can exhaust it.

    `writers` are those of one stream that are remembered, gone ones included. `waiting_notes` and
    `waiting_requests` are the intake between two commits; at some hundred bytes a note the default
    is tens of megabytes, and a second's work. `readers` bounds the reader groups of one stream.
    """

    streams: int = 10_000
    writers: int = 1_000_000
    waiting_notes: int = 100_000
    waiting_requests: int = 20_000
    long_polls: int = 10_000
    readers: GroupLimits = DEFAULT_LIMITS


class Overloaded(StoreUnavailable):
    """Too much is waiting already; nothing was taken: try again later."""

    kind = ProblemKind("overloaded", 503)
