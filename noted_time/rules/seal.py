"""Seals a stream: appends the last mark of each domain and finishes every member."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from noted_time.rules.domain import Domain
from noted_time.rules.member import BEFORE_ALL_TIME, Track
from noted_time.rules.members import Domains
from noted_time.rules.roster import Named, Roster, absence_of, choose_excluded, merge_named
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

SLICE_SIZE = 500

T = TypeVar("T")

Slices = Generator[None, None, T]
"""Work that yields after each slice, for reads in between."""


def split_slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[begin : begin + SLICE_SIZE] for begin in range(0, len(items), SLICE_SIZE))


class SealRequest(Struct, frozen=True):
    """A final cut (segment → exclusive offset) and final times by domain.

    Segments and domains that are left out follow from the notes.
    """

    cut: Mapping[int, int] = field(default_factory=dict)
    final_times: Mapping[str, int] = field(default_factory=dict)


class Seal(Struct, frozen=True):
    """The seal of a stream, beyond whose `final_cut` no rows are written.

    `never_noted` has at most 1000 members that joined without a time, whose rows may be beyond it.
    """

    request: SealRequest
    final_cut: Mapping[int, int]
    at: int = 0
    never_noted: tuple[str, ...] = ()


def seal(
    domains: Domains, succession: Succession, request: SealRequest, *, now: int, written_at: int
) -> Slices[Seal]:
    """Append the last mark of each domain, finish every member, and return the seal.

    The final cut joins all positions, the last cuts and the requested cut.

    Law: if a member declared its `max_time` and was never removed, its events are below the final
    cut, and below the last lower unless a final time was requested.

    Raises `InvalidCut`, `InvalidFinalTime` or `UnknownDomain` without a change.
    """
    known_offsets: dict[int, int] = {}
    for domain in domains:
        if domain.last:
            join_into(known_offsets, domain.last.cut.offsets)
    members = list(domains.members.values())
    never_noted: list[str] = []
    for batch in split_slices(members):
        for member in batch:
            join_into(known_offsets, member.position)
            if all(track.noted is None for track in member.tracks):
                never_noted.append(member.writer)
        yield
    known_offsets = dict(succession.normalise(known_offsets))
    final_cut = _find_final_cut(known_offsets, succession, request.cut)
    times = _find_final_times(domains, request.final_times, final_cut)
    is_cut_beyond_known = not StreamCut(known_offsets).reaches(StreamCut(final_cut))
    for number, domain in enumerate(domains):
        domain.roster.is_sealed = True
        lower = times[domain.name]
        if lower is not None:
            domain.is_unbounded = domain.is_unbounded or is_cut_beyond_known
            tracks = [member.track(number) for member in members]
            yield from _append_last_mark(domain, tracks, lower, final_cut, written_at)
            domain.moved_at = now
    for batch in split_slices(members):
        for member in batch:
            domains.finish(member, now)
        yield
    return Seal(request, final_cut, written_at, tuple(nsmallest(NEVER_NOTED_NAMED, never_noted)))


def _append_last_mark(
    domain: Domain, tracks: list[Track], lower: int, final_cut: Mapping[int, int], written_at: int
) -> Slices[None]:
    roster = domain.roster
    named_writers = yield from _name_all(domain, lower, final_cut)
    sealed_absences = yield from _report_sealed(roster, tracks, lower, final_cut, written_at)
    roster.named = _add_sealed(named_writers, sealed_absences)
    domain.last_writer = None
    roster.last = _build_last_mark(domain, lower, final_cut, written_at)
    domain.lower = lower


def _find_final_cut(
    known_offsets: Mapping[int, int], succession: Succession, requested_cut: Mapping[int, int]
) -> dict[int, int]:
    cut = succession.normalise(requested_cut)
    offsets_behind = find_behind(cut, known_offsets)
    offsets_beyond = succession.beyond_the_end(cut)
    if offsets_behind or offsets_beyond:
        raise InvalidCut(offsets_behind, offsets_beyond)
    final_cut = dict(known_offsets)
    join_into(final_cut, cut)
    return final_cut


def _find_final_times(
    domains: Domains, requested_times: Mapping[str, int], final_cut: Mapping[int, int]
) -> dict[str, int | None]:
    names = [domain.name for domain in domains]
    for name in requested_times:
        if name not in names:
            raise UnknownDomain(name, names)
    return {
        domain.name: _find_final_time(domain, requested_times.get(domain.name), final_cut)
        for domain in domains
    }


def _find_final_time(
    domain: Domain, requested_time: int | None, final_cut: Mapping[int, int]
) -> int | None:
    """Return a lower above all event times and the last lower, `None` if the last mark suffices."""
    if requested_time is not None:
        if not LEAST_TIME <= requested_time <= LARGEST_TIME or requested_time <= domain.lower:
            raise InvalidFinalTime(domain.name, requested_time, domain.roster.last_lower)
        return requested_time
    upper = domain.find_next_upper()
    computed_time = min(upper + 1, LARGEST_TIME)
    if upper != BEFORE_ALL_TIME and computed_time > domain.lower:
        return computed_time
    if domain.last is None:
        return 0
    has_all = reaches(domain.last.cut.offsets, final_cut)
    if has_all or domain.lower == LARGEST_TIME:
        return None
    return domain.lower + 1


def _build_last_mark(
    domain: Domain, lower: int, final_cut: Mapping[int, int], written_at: int
) -> Mark:
    if domain.upper != BEFORE_ALL_TIME:
        upper = domain.upper
    else:
        upper = max(lower - 1, LEAST_TIME)
    writers = [absence.writer for absence in domain.roster.named.absences]
    excluded_writers, excluded_count = choose_excluded(writers)
    return Mark(
        seq=domain.roster.last_seq + 1,
        lower=lower,
        upper=upper,
        cut=StreamCut(final_cut),
        written_at=written_at,
        excluded=excluded_writers,
        upper_is_bound=domain.is_bound(final_cut),
        final=True,
        excluded_count=excluded_count,
    )


def _name_all(domain: Domain, lower: int, final_cut: Mapping[int, int]) -> Slices[Named]:
    naming = domain.roster.begin_naming(lower, StreamCut(final_cut))
    named_parts = []
    while naming.remaining:
        named_parts.append(naming.take(SLICE_SIZE))
        yield
    domain.end_removed_times(naming)
    return merge_named(named_parts)


def _add_sealed(named_writers: Named, sealed_absences: Iterable[Absence]) -> Named:
    absences = {absence.writer: absence for absence in sealed_absences}
    for absence in named_writers.absences:
        absences[absence.writer] = absence
    return named_writers._replace(absences=tuple(absences[writer] for writer in sorted(absences)))


def _report_sealed(
    roster: Roster, tracks: list[Track], lower: int, final_cut: Mapping[int, int], written_at: int
) -> Slices[list[Absence]]:
    """Return the absences of the live members that noted no time."""
    last_lower = roster.last_lower
    absences = []
    for batch in split_slices(tracks):
        for track in batch:
            is_live = track.is_counted or track.membership.status == "returned_below"
            if is_live and track.noted is None:
                absence = replace(
                    absence_of(track, last_lower), reason="sealed", began_at=written_at
                )
                roster.change(track, "sealed", written_at)
                roster.report_absence(track, absence, lower, final_cut)
                absences.append(absence)
        yield
    return absences
