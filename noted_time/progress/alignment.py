"""How far ahead of the slowest member the others of an alignment may read (FLIP-182, FLIP-217).

Members report times; the *bound* is the least of those counted plus the drift that is allowed.
A member is not counted if it has no time yet, is idle or finished, or was silent for too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from noted_time.values import (
    LARGEST_TIME,
    LEAST_TIME,
    MAX_INT64,
    LimitReached,
    Rejected,
    State,
    checked_name,
)

MOST_MEMBERS = 1000
"""Maximum number of members of an alignment."""


Standing = Literal["counted", "idle", "finished", "no_time", "silent"]


@dataclass(frozen=True, slots=True)
class AlignmentSettings:
    """What the owner of an alignment decides; `max_drift` is in the unit of the members' times.

    A member that is silent for `member_timeout_ms` is not counted. Raises `Rejected` if one of them
    is not above 0: a member exactly at the bound may read, so without a drift only one member could
    read at a time.
    """

    max_drift: int
    member_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        for name in ("max_drift", "member_timeout_ms"):
            value = getattr(self, name)
            if not 0 < value <= MAX_INT64:
                raise Rejected(f"{name} must be a positive int64, got {value}")


@dataclass(frozen=True, slots=True)
class Align:
    """The alignment that a reader obeys, and the name of its member, by default the stream's.

    The reader gets no further ahead of the alignment's slowest member than its drift and one mark.
    See `docs/guides/alignment.md`.
    """

    alignment: str
    member: str | None = None

    def __post_init__(self) -> None:
        checked_name("alignment", self.alignment)
        if self.member is not None:
            checked_name("member", self.member)


@dataclass(frozen=True, slots=True)
class GroupOfStream:
    """A reader group of a stream; `domain` is null if none was named."""

    stream: str
    group: str
    domain: str | None


@dataclass(frozen=True, slots=True)
class MemberNow:
    """A member: what it last reported, how long ago, and whether it is counted.

    `at_bound`: it is counted, and at or above the bound, which another member holds. `group` is the
    reader group whose time it reports.
    """

    time: int | None
    state: State
    silent_for_ms: int
    counted: bool
    at_bound: bool
    group: GroupOfStream | None

    @property
    def standing(self) -> Standing:
        """Whether it is counted, and if not, why."""
        if self.counted:
            return "counted"
        if self.state != "live":
            return self.state
        return "no_time" if self.time is None else "silent"


class AlignmentNow(NamedTuple):
    """The bound, which member holds it there (`None` without a bound), and every member.

    `drift` is how far the fastest member is ahead of the slowest, of those that are counted.
    """

    bound: int | None
    held_by: str | None
    drift: int | None
    members: Mapping[str, MemberNow]


class _Report(NamedTuple):
    time: int | None
    state: State
    group: GroupOfStream | None
    at: int
    owner: str


@dataclass(slots=True)
class Alignment:
    """The members of one alignment and their last reports; `now` is any clock in ms.

    >>> both = Alignment(AlignmentSettings(max_drift=1000, member_timeout_ms=30_000))
    >>> both.report("flights", 42, now=0); both.report("deliveries", 5000, now=100)
    >>> both.at(100).bound, both.at(100).held_by
    (1042, 'flights')

    The bound goes back when a member reports a lower time. Without a counted member there is no
    bound:

    >>> both.report("flights", 7, now=200); both.at(200).bound
    1007
    >>> both.at(30_100).held_by, both.at(30_200).bound
    ('flights', None)
    """

    settings: AlignmentSettings
    _reports: dict[str, _Report] = field(default_factory=dict)

    def report(  # noqa: PLR0913 - a member's time, and the caller that reports it
        self,
        member: str,
        time: int | None,
        state: State = "live",
        *,
        now: int,
        group: GroupOfStream | None = None,
        by: str = "",
    ) -> None:
        """Record a member's time, `None` before it has one.

        `group` is the reader group it belongs to. `by` is the caller, which becomes the member's
        owner unless it has one.

        Raises `Rejected` for a time outside int64 or at an end of it, and `LimitReached` if there
        are too many members that are not silent.
        """
        if time is not None and not LEAST_TIME <= time <= LARGEST_TIME:
            raise Rejected(f"time {time} is not an int64 between its ends")
        if member not in self._reports and len(self._reports) >= MOST_MEMBERS:
            self._make_room(now)
        owner = self.owner(member, now) or by
        self._reports[member] = _Report(time, state, group, now, owner)

    def owner(self, member: str, now: int) -> str:
        """Return the owner of a member until it falls silent; empty without an owner."""
        last = self._reports.get(member)
        return "" if last is None or self._is_silent(last.at, now) else last.owner

    def at(self, now: int) -> AlignmentNow:
        """Return the bound at that moment, and the members in the order of their names.

        Of several members with the least time, the first by name holds the bound. A bound beyond
        int64 is the end of int64.
        """
        reports = sorted(self._reports.items())
        counted = {
            name: each.time
            for name, each in reports
            if each.time is not None and each.state == "live" and not self._is_silent(each.at, now)
        }
        held_by = bound = drift = None
        if counted:
            held_by = min(counted, key=counted.__getitem__)
            slowest = counted[held_by]
            bound = min(slowest + self.settings.max_drift, MAX_INT64)
            drift = max(counted.values()) - slowest
        members = {
            name: MemberNow(
                each.time,
                each.state,
                silent_for_ms=now - each.at,
                counted=name in counted,
                at_bound=bound is not None and counted.get(name, bound - 1) >= bound,
                group=each.group,
            )
            for name, each in reports
        }
        return AlignmentNow(bound, held_by, drift, members)

    def copy(self) -> Alignment:
        """Return an alignment like this one that no further report changes."""
        return Alignment(self.settings, dict(self._reports))

    def _is_silent(self, reported_at: int, now: int) -> bool:
        return now - reported_at >= self.settings.member_timeout_ms

    def _make_room(self, now: int) -> None:
        """Forget the silent members."""
        heard = {
            name: each for name, each in self._reports.items() if not self._is_silent(each.at, now)
        }
        if len(heard) >= MOST_MEMBERS:
            raise LimitReached("members of an alignment", MOST_MEMBERS, "use further alignments")
        self._reports = heard


class HeldBound:
    """The last bound received, which stays in force for the timeout while answers fail.

    >>> held = HeldBound()
    >>> held.take(1042, timeout_ms=30_000, now=0)
    >>> held.at(29_999), held.at(30_000)
    (1042, None)
    >>> held.allows(1042, now=1), held.allows(1043, now=1), held.allows(None, now=1)
    (True, False, True)
    """

    def __init__(self) -> None:
        self._held: tuple[int | None, int] = (None, 0)

    def take(self, bound: int | None, *, timeout_ms: int, now: int) -> None:
        """Record an answer; `None` is unbounded."""
        self._held = (bound, now + timeout_ms)

    def at(self, now: int) -> int | None:
        """Return the bound in force, `None` if there is none."""
        bound, until = self._held
        return bound if now < until else None

    def allows(self, time: int | None, *, now: int) -> bool:
        """Whether a member at that time may read on; it may if it has no time."""
        bound = self.at(now)
        return bound is None or time is None or time <= bound
