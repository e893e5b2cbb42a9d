"""The end of a stream: the seal that an administrator asks for, and the marks it leads to.

Every member becomes finished at its position. The final cut joins all positions, the cuts of the
last marks and the cut that was asked for; each domain's last mark has it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from operator import attrgetter
from typing import TypeVar

from noted_time.rules.domain import Domain
from noted_time.rules.member import BEFORE_ALL_TIME, Track
from noted_time.rules.members import Domains
from noted_time.rules.queues import absence_of
from noted_time.values import (
    LARGEST_TIME,
    LEAST_TIME,
    Absence,
    InvalidCut,
    InvalidFinalTime,
    Mark,
    StreamCut,
    Succession,
    UnknownDomain,
    find_behind,
    join_into,
    reaches,
)

NEVER_NOTED_NAMED = 1000
"""Maximum number of named members that never noted a time."""

SLICE_SIZE = 500
"""How many members are handled at a time, which takes some 2 ms."""

T = TypeVar("T")

Slices = Generator[None, None, T]
"""Work that yields after each slice of it, so that the caller may let others read meanwhile."""


def split_slices(things: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the things, `SLICE_SIZE` of them at a time.

    >>> [len(some) == SLICE_SIZE for some in split_slices(range(SLICE_SIZE + 1))]
    [True, False]
    """
    return (things[begin : begin + SLICE_SIZE] for begin in range(0, len(things), SLICE_SIZE))


@dataclass(frozen=True, slots=True)
class SealRequest:
    """The request: a final cut (segment → exclusive offset) and final times by domain.

    Both may leave out what follows from the notes.
    """

    cut: Mapping[int, int] = field(default_factory=dict)
    final_times: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seal:
    """The seal of a stream, set `at` (Unix ms): nothing is written beyond `final_cut`.

    `request` is what was asked for, by which a repeated request is recognised. `never_noted` has at
    most `NEVER_NOTED_NAMED` members that joined and noted no time: their rows may lie beyond the
    final cut.
    """

    request: SealRequest
    final_cut: Mapping[int, int]
    at: int = 0
    never_noted: tuple[str, ...] = ()


def seal(
    domains: Domains, succession: Succession, request: SealRequest, *, now: int, written_at: int
) -> Slices[Seal]:
    """Append the last mark of each domain and finish every member; returns the seal.

    Law: an event of a member that declared its `max_time` and was never removed lies below the
    final cut. Unless a final time was asked for, it lies below the lower of the last mark, too.
    Raises `InvalidCut`, `InvalidFinalTime` or `UnknownDomain`, and then changes nothing.
    """
    known: dict[int, int] = {}
    for domain in domains:
        join_into(known, domain.last.cut.offsets if domain.last else {})
    members, silent = list(domains.members.values()), list[str]()
    for some in split_slices(members):
        for member in some:
            join_into(known, member.position)
        silent += [m.writer for m in some if all(each.noted is None for each in m.tracks)]
        yield
    known = dict(succession.normalise(known))
    final_cut = _find_final_cut(known, succession, request.cut)
    times = _find_final_times(domains, request.final_times, final_cut)
    is_beyond = not StreamCut(known).reaches(StreamCut(final_cut))
    for number, domain in enumerate(domains):
        domain.is_sealed = True
        lower = times[domain.name]
        if lower is not None:
            domain.is_unbounded = domain.is_unbounded or is_beyond
            domain.returned = domain.absences.pop_returned(lower)
            tracks = [each.track(number) for each in members]
            domain.excluded_by_mark = yield from _collect_absences(
                domain, tracks, lower, written_at
            )
            domain.last = _build_last_mark(domain, lower, final_cut, written_at)
            domain.lower, domain.moved_at = lower, now
    for some in split_slices(members):
        for member in some:
            domains.finish(member, now)
        yield
    return Seal(request, final_cut, written_at, tuple(nsmallest(NEVER_NOTED_NAMED, silent)))


def _find_final_cut(
    known: Mapping[int, int], succession: Succession, requested: Mapping[int, int]
) -> dict[int, int]:
    cut = succession.normalise(requested)
    behind, beyond = find_behind(cut, known), succession.beyond_the_end(cut)
    if behind or beyond:
        raise InvalidCut(behind, beyond)
    final_cut = dict(known)
    join_into(final_cut, cut)
    return final_cut


def _find_final_times(
    domains: Domains, requested: Mapping[str, int], final_cut: Mapping[int, int]
) -> dict[str, int | None]:
    """Return the lower of each domain's last mark, `None` if it needs no further mark."""
    names = [domain.name for domain in domains]
    for name in requested:
        if name not in names:
            raise UnknownDomain(name, names)
    return {
        domain.name: _find_final_time(domain, requested.get(domain.name), final_cut)
        for domain in domains
    }


def _find_final_time(
    domain: Domain, requested: int | None, final_cut: Mapping[int, int]
) -> int | None:
    """Return the lower of the last mark: above all event times, and above the last lower.

    `None` if the mark before already covers everything, or is at the largest time.
    """
    if requested is not None:
        if not LEAST_TIME <= requested <= LARGEST_TIME or requested <= domain.lower:
            raise InvalidFinalTime(
                domain.name, requested, domain.last.lower if domain.last else None
            )
        return requested
    computed = min(domain.upper + 1, LARGEST_TIME)
    if domain.upper != BEFORE_ALL_TIME and computed > domain.lower:
        return computed
    if domain.last is None:
        return 0
    has_all = reaches(domain.last.cut.offsets, final_cut)
    return None if has_all or domain.lower == LARGEST_TIME else domain.lower + 1


def _build_last_mark(
    domain: Domain, lower: int, final_cut: Mapping[int, int], written_at: int
) -> Mark:
    upper = domain.upper if domain.upper != BEFORE_ALL_TIME else max(lower - 1, LEAST_TIME)
    return Mark(
        seq=domain.last.seq + 1 if domain.last else 1,
        lower=lower,
        upper=upper,
        cut=StreamCut(final_cut),
        written_at=written_at,
        excluded=tuple(each.writer for each in domain.excluded_by_mark),
        upper_is_bound=domain.is_bound(final_cut),
        final=True,
    )


def _collect_absences(
    domain: Domain, tracks: list[Track], lower: int, written_at: int
) -> Slices[tuple[Absence, ...]]:
    """Return the members that the last mark excludes: those excluded before, and all live ones."""
    last_lower = domain.last.lower if domain.last else None
    absences = {each.writer: each for each in domain.absences.pop_reported(lower, last_lower)}
    for some in split_slices(tracks):
        for track in sorted(some, key=attrgetter("member.writer")):  # sorted parts sort faster
            member = track.member
            if member.is_active and track.vouches_here:
                sealed = replace(absence_of(track, last_lower), reason="sealed", since=written_at)
                absences.setdefault(member.writer, sealed)
        yield
    return tuple(absences[writer] for writer in sorted(absences))
