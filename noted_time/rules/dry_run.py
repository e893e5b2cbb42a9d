"""What would happen if writers were excluded, or timed out sooner: nothing changes by asking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from noted_time.rules.member import BEFORE_ALL_TIME
from noted_time.values import Advance

if TYPE_CHECKING:
    from collections.abc import Collection
    from collections.abc import Set as AbstractSet

    from noted_time.rules.domain import Domain
    from noted_time.rules.roster import Roster
    from noted_time.values import StreamCut


@dataclass(frozen=True, slots=True)
class Would:
    """The decision there would be: with `advance`, the next mark's lower, cut and excluded.

    Without one they are those of the last mark, `None` and empty before the first.
    """

    decision: Literal["advance", "hold", "quiet", "sealed"]
    lower: int | None
    cut: StreamCut | None
    excluded: tuple[str, ...]


def would(
    roster: Roster,
    domain: Domain,
    removed: Collection[str],
    writer_timeout_ms: int | None,
    now: int,
) -> Would:
    """Return what would happen in `domain` without the `removed`, or with that writer timeout.

    Law: it is what `Roster.remove` of each, or the changed setting with `expire`, leads to, then
    one `advance`. Raises `UnknownWriter`.
    """
    number = roster.domains.index(domain)
    gone = {roster.member(writer).writer for writer in removed}
    out = gone | _timed_out(roster, writer_timeout_ms, now)
    step = domain.step_without(out)
    if step is not None and step.flush:
        highest = _highest_without(roster, domain, number, gone)
        step = Advance(highest, flush=True) if highest > domain.lower else None
    if step is None:
        waits = _waits(domain.holders, out) or (
            _waits(domain.late, out)
            and _highest_without(roster, domain, number, gone) > domain.lower
        )
        last = domain.last
        lower, cut = (last.lower, last.cut) if last else (None, None)
        if domain.is_sealed:
            return Would("sealed", lower, cut, ())
        return Would("hold" if waits else "quiet", lower, cut, ())
    missing = domain.absences.missing
    absent = {track.member.writer for track in domain.absences.before(step.lower)}
    for writer in out:
        member = roster.member(writer)
        track = member.track(number)
        is_new = member.vouches or (member.excluded != "removed" and writer in missing)
        if is_new and track.vouched and track.time < step.lower:
            absent.add(writer)
    return Would("advance", step.lower, domain.cut.would_be(step.lower), tuple(sorted(absent)))


def _waits(members: Collection[str], out: AbstractSet[str]) -> bool:
    return any(writer not in out for writer in members)


def _timed_out(roster: Roster, writer_timeout_ms: int | None, now: int) -> set[str]:
    """Return who would be excluded at once under another writer timeout."""
    if writer_timeout_ms is None:
        return set()
    return {
        writer
        for each in roster.domains
        for waited_for in (each.holders, each.late)
        for writer, track in waited_for.items()
        if track.times_out_at(writer_timeout_ms) <= now
    }


def _highest_without(roster: Roster, domain: Domain, number: int, gone: AbstractSet[str]) -> int:
    """Return the highest time noted by the others, which only a flush asks for."""
    if not gone:
        return domain.highest
    others = (each for each in roster if each.writer not in gone and each.excluded != "removed")
    return max((each.track(number).time for each in others), default=BEFORE_ALL_TIME)
