"""Decides why a domain advances or waits, and predicts its outcome without some writers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from itertools import count, islice
from typing import NamedTuple

from noted_time.rules.domain import Domain
from noted_time.rules.member import BEFORE_ALL_TIME, Track
from noted_time.rules.members import Domains
from noted_time.values import Advance, Decision, DryRun, Quiet, Sealed, WaitForWriters, Waiting

HOLDING_BACK_NAMED = 1000

EXCLUSIONS_FORESEEN = 10_000

EXCLUSIONS_NAMED = 20


class ForeseenAdvance(NamedTuple):
    """The next advance if no writer notes, when `served_ms` is reached on the service clock.

    `writers` are at most 20 of the writers excluded by then, and `exclusions` is their number.
    """

    served_ms: int
    lower: int
    writers: tuple[str, ...]
    exclusions: int


def decide(domain: Domain, now: int, timeout_ms: int) -> Decision:
    while not domain.is_settled:
        domain.settle(timeout_ms)
    step = domain.next_step()
    if step is not None:
        return step
    waited_for = domain.find_holding_back()
    if not waited_for:
        return Sealed() if domain.roster.is_sealed else Quiet()
    first = islice(waited_for.values(), HOLDING_BACK_NAMED)
    longest = sorted(first, key=lambda each: (each.waiting_served_ms, each.member.writer))
    waiting = tuple(
        Waiting(
            writer=track.member.writer,
            time=track.noted,
            held_back_ms=now - track.waiting_served_ms,
            times_out_in_ms=max(0, track.times_out_served_ms(timeout_ms) - now),
            contact=track.member.contact,
        )
        for track in longest
    )
    return WaitForWriters(waiting, len(waited_for))


def forecast(domains: Domains, domain: Domain) -> ForeseenAdvance | None:
    """Return how a watermark that is held back will advance if no writer notes.

    It is `None` if never, or only after more than 10,000 exclusions.
    """
    holding_back = domain.find_holding_back()
    if not holding_back or len(domain.returned_below) > EXCLUSIONS_FORESEEN:
        return None
    foreseen = _foresee(domains, domain, holding_back)
    if foreseen is not None or domain.returned_below.keys() <= holding_back.keys():
        return foreseen
    # a writer that returned below the lower prevents a flush for as long as it is live
    return _foresee(domains, domain, {**holding_back, **domain.returned_below})


def _foresee(
    domains: Domains, domain: Domain, waited_for: Mapping[str, Track]
) -> ForeseenAdvance | None:
    """Return the advance at the moment when the last of these writers has timed out."""
    timeout_ms = domains.settings.writer_timeout_ms
    if len(waited_for) > EXCLUSIONS_FORESEEN:
        return None

    def find_timeout(track: Track) -> int:
        waiting = (each for each in track.member.tracks if each.is_waited_for)
        return min(each.times_out_served_ms(timeout_ms) for each in waiting)

    served_ms = max(map(find_timeout, waited_for.values()))
    excluded, checks = dict.fromkeys(waited_for), count()
    for writer, track in domain.returned_below.items():
        if find_timeout(track) <= served_ms:
            excluded[writer] = None

    def times_out(track: Track) -> bool:
        is_excluded = (
            track.member.writer in excluded
            or track.times_out_served_ms(timeout_ms, served_ms) <= served_ms
        )
        return is_excluded and next(checks) < 2 * EXCLUSIONS_FORESEEN

    excluded |= dict.fromkeys(track.member.writer for track in domain.next_to_exclude(times_out))
    step = domain.next_step_excluding(excluded.keys())
    if step is None or len(excluded) > EXCLUSIONS_FORESEEN:
        return None
    names = tuple(islice(excluded, EXCLUSIONS_NAMED))
    return ForeseenAdvance(served_ms, step.lower, names, len(excluded))


def lower_without(domain: Domain, writer: str) -> int | None:
    step = domain.next_step_excluding(frozenset((writer,)))
    lower = step.lower if step else domain.lower
    return None if lower == BEFORE_ALL_TIME else lower


def dry_run(
    domains: Domains,
    domain: Domain,
    removed: AbstractSet[str],
    writer_timeout_ms: int | None,
    now: int,
) -> DryRun:
    """Return the outcome in `domain` without the `removed` writers or with another writer timeout.

    Law: the result equals `Aggregator.remove` of the writers, or `expire` with the other setting,
    then one `advance`.
    """
    number = domains.numbers[domain.name]
    excluded = removed
    if writer_timeout_ms is not None:
        excluded = _find_timed_out(domains, removed, writer_timeout_ms, now)
    step = domain.next_step_excluding(excluded)
    if step is not None and step.flush:
        highest, _ = domain.highest_time_excluding(removed)
        step = Advance(highest, flush=True) if highest > domain.lower else None
    if step is None:
        is_waiting = _is_waiting(domain.holding_back, excluded) or (
            _is_waiting(domain.returned_below, excluded)
            and domain.highest_time_excluding(removed)[0] > domain.lower
        )
        last = domain.last
        lower, cut = (last.lower, last.cut) if last else (None, None)
        if domain.roster.is_sealed:
            return DryRun("sealed", lower, cut, ())
        return DryRun("wait" if is_waiting else "quiet", lower, cut, ())
    absent = {
        track.member.writer
        for track in domain.roster.list_reported(step.lower)
        if not (track.is_narrowed and track.member.writer in removed)
    }
    for writer in excluded:
        member = domains.members[writer]
        track = member.track(number)
        is_missing = domain.roster.is_missing(track)
        is_new = member.is_active or (member.excluded != "removed" and is_missing)
        is_passed = writer in removed or track.is_passed_by(step.lower)
        if is_new and track.vouches_here and is_passed:
            absent.add(writer)
    return DryRun("advance", step.lower, domain.cut.preview(step.lower), tuple(sorted(absent)))


def _is_waiting(members: Collection[str], excluded: AbstractSet[str]) -> bool:
    return any(writer not in excluded for writer in members)


def _find_timed_out(
    domains: Domains, removed: AbstractSet[str], timeout_ms: int, now: int
) -> set[str]:
    excluded, timed_out = set(removed), set[str]()
    while True:
        for domain in domains:
            overtaken = _predict_overtaken(domain, removed, now)

            def times_out(
                track: Track,
                waiting_served_ms: int = now,
                overtaken: Callable[[Track], int | None] = overtaken,
            ) -> bool:
                if track.member.writer in excluded:
                    return True
                return (
                    track.times_out_served_ms(timeout_ms, waiting_served_ms, overtaken(track))
                    <= now
                )

            waited_for = (*domain.holding_back.values(), *domain.returned_below.values())
            timed_out |= {t.member.writer for t in waited_for if times_out(t, t.waiting_served_ms)}
            timed_out |= {t.member.writer for t in domain.next_to_exclude(times_out)}
        if timed_out <= excluded:
            return excluded
        excluded.update(timed_out)


def _predict_overtaken(
    domain: Domain, removed: AbstractSet[str], now: int
) -> Callable[[Track], int | None]:
    """Return a function that predicts when a member would have been overtaken, if that changes."""
    if not removed:
        return lambda _: None
    highest, since = domain.highest_time_excluding(removed)
    removed_times = (each.time for each in domain.tracks() if each.member.writer in removed)
    changed = min(max(removed_times), highest)
    return lambda track: since if track.time < changed else now if track.time >= highest else None
