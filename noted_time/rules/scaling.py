"""What a scale event changes of a stream: its segments, its members' positions and its cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.values import InvalidScale

if TYPE_CHECKING:
    from noted_time.rules.roster import Roster
    from noted_time.values import ScaleEvent, Succession


def take_scale(roster: Roster, succession: Succession, event: ScaleEvent) -> None:
    """Take a scale event in; raises `InvalidScale` and changes nothing where it is wrong.

    Raises `TooManySegments` where the stream has no room for the successors.
    """
    known = roster.segments.offsets.keys()
    succession.check(event, known)
    for member in roster:
        for segment, offset in event.sealed.items():
            if member.position.get(segment, 0) > offset:
                noted = member.position[segment]
                reason = f"sealed at {offset}, but writer {member.writer!r} noted {noted}"
                raise InvalidScale(segment, reason)
    roster.segments.create(event.created.keys())
    roster.segments.join(event.sealed)
    succession.scale(event, known)
    for segment in event.created:
        _complete_predecessors(roster, succession, segment)


def _complete_predecessors(roster: Roster, succession: Succession, segment: int) -> None:
    floor = dict(succession.normalise({segment: 0}))
    named = frozenset((segment,))
    for member in roster:
        if segment in member.position:
            roster.complete(member, floor)
    for domain in roster.domains:
        domain.cut.complete(floor, named)
