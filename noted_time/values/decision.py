"""What the aggregator decided for one domain, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DecisionName = Literal["advance", "hold", "quiet", "sealed"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """One member that is waited for.

    `time` is its last noted time, `None` before its first note of the domain. `held_for_ms` is how
    long it has held time back and `times_out_in_ms` how long until it is excluded if it stays
    silent, both on the service clock.
    """

    writer: str
    time: int | None
    held_for_ms: int
    times_out_in_ms: int


@dataclass(frozen=True, slots=True)
class Advance:
    """Time may advance to `lower`; `flush`: no live writer is left to wait for."""

    lower: int
    flush: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Time is held by members that have not gone beyond the last lower, the longest holder first.

    `holders` counts all of them; at most 1000 are named.
    """

    waiting_for: tuple[Waiting, ...]
    holders: int


@dataclass(frozen=True, slots=True)
class Quiet:
    """Time waits for no writer: none is live, and all that was noted is marked."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """Time has ended: the stream is sealed, and its last mark has the final cut."""


Decision = Advance | Hold | Quiet | Sealed
