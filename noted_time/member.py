"""What is remembered of one writer: its membership, its position and its time per key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from noted_time.cut import MIN_INT64

if TYPE_CHECKING:
    from noted_time.domain import Domain
    from noted_time.note import State

BEFORE_ALL_TIME = MIN_INT64 - 1
"""The time of a member that has not noted a key yet: below every int64."""

Role = Literal["ahead", "holds", "rests"]
"""`ahead` of the last lower; `holds` time back; `rests`: not waited for."""


@dataclass(slots=True, eq=False)
class Member:
    """A writer that has noted; membership is per writer, for all keys at once.

    `noted_at`, its last accepted note, and `since`, the last change of its membership, are on the
    service clock. `sequence` is the largest that it gave a request of which a note was accepted, 0
    where it gave none. Its tracks are those of the first key and the others: most streams have but
    one, and among 100,000 members each object more is a wait for memory.
    """

    writer: str
    state: State = "live"
    left_out: bool = False
    noted_at: int = 0
    since: int = 0
    sequence: int = 0
    position: dict[int, int] = field(default_factory=dict)
    first: Track = field(init=False)
    others: tuple[Track, ...] = ()
    is_queued_as_gone: bool = False

    @property
    def tracks(self) -> tuple[Track, ...]:
        """What it noted of each key, in the order of the keys."""
        return (self.first, *self.others)

    @property
    def vouches(self) -> bool:
        """Whether it is live and was heard in time."""
        return self.state == "live" and not self.left_out

    @property
    def is_gone(self) -> bool:
        """Whether it left or was left out."""
        return self.state == "left" or self.left_out

    @property
    def silent_since(self) -> int:
        """When (service clock) it was last heard of, or went."""
        return max(self.noted_at, self.since)


@dataclass(slots=True, eq=False)
class Track:
    """What one member noted of one key.

    `began` is the service time at which it last began to hold time back. The flags say which of
    the domain's queues hold an entry for this track, so that each holds at most one.
    """

    member: Member
    domain: Domain
    time: int = BEFORE_ALL_TIME
    max_time: int | None = None
    excluded: bool = False
    began: int = 0
    role: Role = "rests"
    in_ahead: bool = False
    in_timeouts: bool = False
    in_unrecorded: bool = False

    def left_out_at(self, timeout_ms: int) -> int:
        """Return when the member, if it holds and stays silent, is left out (service clock).

        The writer timeout counts from its last accepted note or the moment it began to hold,
        whichever is later.
        """
        return max(self.member.noted_at, self.began) + timeout_ms
