"""What is remembered of one writer: its membership, its position and its notes per key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from noted_time.cut import MIN_INT64, join_into

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noted_time.note import State

BEFORE_ALL_TIME = MIN_INT64 - 1
"""The time of a member that has not noted a key yet: below every int64."""

NOTES_KEPT = 1024

NOTHING: Mapping[int, int] = {}
"""What a position gained since a note just kept; deltas are never changed in place."""

Role = Literal["ahead", "holds", "rests"]
"""`ahead` of the last lower; `holds` time back; `rests`: not waited for."""


@dataclass(slots=True, eq=False)
class Member:
    """A writer that has noted; membership is per writer, for all keys at once.

    `noted_at`, its last accepted note, and `since`, the last change of its membership, are on the
    service clock. `sequence` is the largest that it gave a request of which a note was accepted, 0
    where it gave none.
    """

    writer: str
    state: State = "live"
    left_out: bool = False
    noted_at: int = 0
    since: int = 0
    sequence: int = 0
    position: dict[int, int] = field(default_factory=dict)
    tracks: dict[str, Track] = field(default_factory=dict)
    is_queued_as_gone: bool = False

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
    """One member's notes of one key, as far as they can still shape a cut.

    `notes` are (time, delta) with rising times above the last lower at which they came; a delta is
    what the position gained since the note before, so the position at a note is the join of
    all deltas up to it. `pending` is what it gained since the last note. Handing over a delta once
    costs the segments the writer touched, not all it ever wrote. (A list: a deque takes 700 bytes
    more for each member, and at most 1024 notes are ever moved up.)

    `began` is the service time at which it last began to hold time back. The flags say which of
    the domain's queues hold an entry for this track, so that each holds at most one.
    """

    member: Member
    time: int = BEFORE_ALL_TIME
    max_time: int | None = None
    excluded: bool = False
    began: int = 0
    role: Role = "rests"
    notes: list[tuple[int, Mapping[int, int]]] = field(default_factory=list)
    pending: Mapping[int, int] = field(default_factory=dict)
    in_ahead: bool = False
    in_fronts: bool = False
    in_fresh: bool = False
    in_timeouts: bool = False
    in_unrecorded: bool = False

    def left_out_at(self, timeout_ms: int) -> int:
        """Return when the member, if it holds and stays silent, is left out (service clock).

        The writer timeout counts from its last accepted note or the moment it began to hold,
        whichever is later.
        """
        return max(self.member.noted_at, self.began) + timeout_ms

    def keep(self, time: int) -> None:
        """Keep a note of `time`, the greatest so far, at the position reached."""
        self.notes.append((time, self.pending))
        self.pending = NOTHING
        if len(self.notes) > NOTES_KEPT:
            self.thin()

    def thin(self) -> None:
        """Forget every second note, each handing its delta on to the next.

        Sound: the first note at or above any time is then the same or a later one, whose
        position is at or above. The last note stays.
        """
        notes = self.notes
        odd_one = notes[-1:] if len(notes) % 2 else []
        pairs = zip(notes[::2], notes[1::2], strict=False)
        self.notes = [(time, joined(one, more)) for (_, one), (time, more) in pairs] + odd_one

    def pass_to(self, lower: int, cut: dict[int, int]) -> None:
        """Raise `cut` to this member's position at its first note with time >= `lower`.

        A resting member without such a note gives its last known position, as if it had noted
        +infinity there.
        """
        passed = 0
        for time, delta in self.notes:
            for segment, offset in delta.items():  # `join_into` without a call for each note
                if offset > cut.get(segment, -1):
                    cut[segment] = offset
            if time >= lower:
                break
            passed += 1
        else:
            if self.role == "rests":
                join_into(cut, self.pending)
                self.pending = NOTHING
        if passed:
            del self.notes[:passed]

    def raise_positions(self, floor: Mapping[int, int], segments: frozenset[int]) -> None:
        """Add `floor` wherever a delta names one of `segments` (a scale event came to be known)."""

        def raised(delta: Mapping[int, int]) -> Mapping[int, int]:
            return delta if segments.isdisjoint(delta) else joined(delta, floor)

        self.notes = [(time, raised(delta)) for time, delta in self.notes]
        self.pending = raised(self.pending)


def joined(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """Return the join of two plain positions; neither is changed."""
    result = dict(one)
    join_into(result, other)
    return result
