"""The limits of one controller, so that no caller can exhaust its memory."""

from __future__ import annotations

from dataclasses import dataclass

from controller.aggregation.groups import DEFAULT_LIMITS, GroupLimits
from controller.store.port import StoreUnavailable
from noted_time.values import ProblemKind


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one controller."""

    streams: int = 10_000
    writers: int = 1_000_000  # of each stream, including excluded and finished ones
    waiting_notes: int = 100_000  # for the next commit: a second, and tens of megabytes
    waiting_requests: int = 20_000
    long_polls: int = 10_000
    readers: GroupLimits = DEFAULT_LIMITS  # of each stream


class Overloaded(StoreUnavailable):
    """Too much work is waiting, and nothing was changed."""

    kind = ProblemKind("overloaded", 503)
