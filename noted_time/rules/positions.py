"""What changes positions besides notes: scale events, and corrections of wrong offsets.

A correction is for a writer that named offsets at which nothing was written (S16). No reader can
reach such an offset, and cuts never go back, so without it all readers would wait forever. Marks
stay as they were written; what is corrected is how they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from noted_time.rules.domain import Domains
from noted_time.rules.state import Member
from noted_time.values import (
    Absence,
    Mark,
    Rejected,
    ScaleEvent,
    StreamCut,
    Succession,
    correct,
    gained_by,
)


@dataclass(frozen=True, slots=True)
class CorrectionRequest:
    """An operator's request: offsets from those in `above` on are wrong.

    The operator vouches that the writer wrote nothing beyond `position`. Raises `Rejected` if the
    two do not name the same segments, or if an offset of `position` is not below `above`.
    """

    position: Mapping[int, int]
    above: Mapping[int, int]

    def __post_init__(self) -> None:
        if not self.above or self.position.keys() != self.above.keys():
            raise Rejected("position and above must name the same segments, at least one")
        for segment, offset in self.position.items():
            if offset >= self.above[segment]:
                raise Rejected(f"segment {segment}: {offset} is not below {self.above[segment]}")


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction: offsets from those in `above` on were wrong, and became those in `offsets`.

    In each domain it applies to the marks up to `last_seqs`: later marks may reach those offsets
    rightly. The first mark after them has `named` in its entry of the ledger: the writer at the
    position asked for. `by` is the operator who corrected it.
    """

    above: Mapping[int, int]
    offsets: Mapping[int, int]
    last_seqs: Mapping[str, int]
    named: Absence
    by: str | None = None


def corrected(corrections: Iterable[Correction], domain: str, mark: Mark) -> Mark:
    """Return a mark with the corrections applied.

    >>> from noted_time import Mark
    >>> wrong = Mark(3, lower=10, upper=9, cut=StreamCut({0: 2**60, 1: 7}))
    >>> named = Absence("UA", None, {0: 20}, "corrected")
    >>> once = Correction({0: 1000}, {0: 20}, {"default": 3}, named)
    >>> corrected([once], "default", wrong).cut
    StreamCut({0: 20, 1: 7})
    """
    for each in corrections:
        if mark.seq <= each.last_seqs.get(domain, 0):
            cut = dict(mark.cut.offsets)
            if correct(cut, each.above, each.offsets):
                mark = replace(mark, cut=StreamCut(cut))
    return mark


def take_scale(domains: Domains, succession: Succession, event: ScaleEvent) -> None:
    """Apply a scale event; raises as `KnownSegments.scale`, and then changes nothing.

    A position that names a segment which the event created implies that its predecessors are
    complete.
    """
    members = domains.members.values()
    domains.segments.scale(event, succession, members)
    for segment in event.created:
        floor = succession.normalise({segment: 0})
        for member in members:
            if segment in member.position:
                _complete(domains, member, floor)
        for domain in domains:
            domain.cut.complete(floor, frozenset((segment,)))


def _complete(domains: Domains, member: Member, floor: Mapping[int, int]) -> None:
    """Raise a member's position to the offsets that a named segment implies."""
    gained = gained_by(floor, member.position)
    if member.wrote_by((), gained):
        for domain, track in domains.pairs(member):
            domain.wrote_undeclared(track)
    member.position.update(gained)
    domains.sharing.name(member, gained)


def planned(
    domains: Domains, member: Member, request: CorrectionRequest, below: Iterable[Mapping[int, int]]
) -> Correction:
    """Return the offsets that replace the wrong ones in a member's position.

    For each segment it is the offset asked for, or the largest offset that is not wrong of the
    members, of the last marks and of `below`.
    """
    offsets = dict(request.position)
    members = (each.position for each in domains.members.values())
    lasts = (each.last.cut.offsets for each in domains if each.last is not None)
    for known in (*members, *lasts, *below):
        for segment, least in request.above.items():
            offset = known.get(segment, 0)
            if offsets[segment] < offset < least:
                offsets[segment] = offset
    last_seqs = {each.name: each.last.seq if each.last else 0 for each in domains}
    named = Absence(member.writer, None, request.position, "corrected")
    return Correction(request.above, offsets, last_seqs, named)


def take(
    domains: Domains, member: Member, request: CorrectionRequest, correction: Correction, now: int
) -> None:
    """Correct a writer's position, and all cuts to come; fence the writer if it was wrong.

    If the writer with the wrong offsets is forgotten by now, any other may be named instead.
    """
    above = request.above
    if correct(member.position, above, request.position):
        member.session = member.session.fenced(now + domains.unix_ahead)
    correct(domains.segments.offsets, above, correction.offsets)
    for domain in domains:
        domain.cut.correct(above, correction.offsets)
        if domain.last is not None:
            domain.last = corrected([correction], domain.name, domain.last)
