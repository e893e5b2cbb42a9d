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
    holding_back = domain.find_holding_back()
    if not holding_back:
        if domain.roster.is_sealed:
            return Sealed()
        return Quiet()
    first_tracks = islice(holding_back.values(), HOLDING_BACK_NAMED)
    longest_tracks = sorted(
        first_tracks, key=lambda track: (track.waiting_served_ms, track.member.writer)
    )
    waiting_writers = tuple(
        Waiting(
            writer=track.member.writer,
            time=track.noted,
            held_back_ms=now - track.waiting_served_ms,
            times_out_in_ms=max(0, track.times_out_served_ms(timeout_ms) - now),
            contact=track.member.contact,
        )
        for track in longest_tracks
    )
    return WaitForWriters(waiting_writers, len(holding_back))


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
    served_ms = max(_find_timeout(track, timeout_ms) for track in waited_for.values())
    excluded_writers = dict.fromkeys(waited_for)
    for writer, track in domain.returned_below.items():
        if _find_timeout(track, timeout_ms) <= served_ms:
            excluded_writers[writer] = None
    excluded_numbers = count()

    def times_out(track: Track) -> bool:
        is_excluded = (
            track.member.writer in excluded_writers
            or track.times_out_served_ms(timeout_ms, served_ms) <= served_ms
        )
        # the search ends at many writers, because then no advance is foreseen
        return is_excluded and next(excluded_numbers) < 2 * EXCLUSIONS_FORESEEN

    for track in domain.next_to_exclude(times_out):
        excluded_writers[track.member.writer] = None
    step = domain.next_step_excluding(excluded_writers.keys())
    if step is None or len(excluded_writers) > EXCLUSIONS_FORESEEN:
        return None
    names = tuple(islice(excluded_writers, EXCLUSIONS_NAMED))
    return ForeseenAdvance(served_ms, step.lower, names, len(excluded_writers))


def _find_timeout(track: Track, timeout_ms: int) -> int:
    """Return when the first domain that waits for the member would exclude it."""
    waiting_tracks = [track for track in track.member.tracks if track.is_waited_for]
    return min(track.times_out_served_ms(timeout_ms) for track in waiting_tracks)


def lower_without(domain: Domain, writer: str) -> int | None:
    step = domain.next_step_excluding(frozenset((writer,)))
    lower = step.lower if step else domain.lower
    return None if lower == BEFORE_ALL_TIME else lower


def dry_run(
    domains: Domains,
    domain: Domain,
    removed_writers: AbstractSet[str],
    writer_timeout_ms: int | None,
    now: int,
) -> DryRun:
    """Return the outcome in `domain` without the `removed_writers` or with another timeout.

    Law: the result equals `Aggregator.remove` of the writers, or `expire` with the other setting,
    then one `advance`.
    """
    excluded_writers = removed_writers
    if writer_timeout_ms is not None:
        excluded_writers = _find_timed_out(domains, removed_writers, writer_timeout_ms, now)
    step = domain.next_step_excluding(excluded_writers)
    if step is not None and step.flush:
        highest_time, _ = domain.highest_time_excluding(removed_writers)
        step = Advance(highest_time, flush=True) if highest_time > domain.lower else None
    if step is None:
        return _dry_run_standing(domain, removed_writers, excluded_writers)
    absent_writers: set[str] = set()
    for track in domain.roster.list_reported(step.lower):
        writer = track.member.writer
        if not (track.is_narrowed and writer in removed_writers):
            absent_writers.add(writer)
    number = domains.numbers[domain.name]
    for writer in excluded_writers:
        member = domains.members[writer]
        track = member.track(number)
        is_missing = domain.roster.is_missing(track)
        is_new = member.is_active or (member.excluded != "removed" and is_missing)
        is_passed = writer in removed_writers or track.is_passed_by(step.lower)
        if is_new and track.vouches_here and is_passed:
            absent_writers.add(writer)
    cut = domain.cut.preview(step.lower)
    return DryRun("advance", step.lower, cut, tuple(sorted(absent_writers)))


def _dry_run_standing(
    domain: Domain, removed_writers: AbstractSet[str], excluded_writers: AbstractSet[str]
) -> DryRun:
    """Return the outcome if the watermark would not advance."""
    lower = cut = None
    if domain.last:
        lower = domain.last.lower
        cut = domain.last.cut
    if domain.roster.is_sealed:
        return DryRun("sealed", lower, cut, ())
    if _is_waiting(domain.holding_back, excluded_writers):
        return DryRun("wait", lower, cut, ())
    highest, _ = domain.highest_time_excluding(removed_writers)
    if highest > domain.lower and _is_waiting(domain.returned_below, excluded_writers):
        return DryRun("wait", lower, cut, ())
    return DryRun("quiet", lower, cut, ())


def _is_waiting(members: Collection[str], excluded_writers: AbstractSet[str]) -> bool:
    return any(writer not in excluded_writers for writer in members)


def _find_timed_out(
    domains: Domains, removed_writers: AbstractSet[str], timeout_ms: int, now: int
) -> set[str]:
    excluded_writers = set(removed_writers)
    timed_out_writers: set[str] = set()
    while True:
        for domain in domains:
            overtaken = _predict_overtaken(domain, removed_writers, now)

            def times_out(
                track: Track,
                waiting_served_ms: int = now,
                overtaken: Callable[[Track], int | None] = overtaken,
            ) -> bool:
                if track.member.writer in excluded_writers:
                    return True
                overtaken_served_ms = overtaken(track)
                return (
                    track.times_out_served_ms(timeout_ms, waiting_served_ms, overtaken_served_ms)
                    <= now
                )

            for track in (*domain.holding_back.values(), *domain.returned_below.values()):
                if times_out(track, track.waiting_served_ms):
                    timed_out_writers.add(track.member.writer)
            for track in domain.next_to_exclude(times_out):
                timed_out_writers.add(track.member.writer)
        if timed_out_writers <= excluded_writers:
            return excluded_writers
        excluded_writers.update(timed_out_writers)


def _predict_overtaken(
    domain: Domain, removed_writers: AbstractSet[str], now: int
) -> Callable[[Track], int | None]:
    """Return a function that predicts when a member would have been overtaken, if that changes."""
    if not removed_writers:
        return lambda _: None
    highest_time, overtaken_served_ms = domain.highest_time_excluding(removed_writers)
    removed_times = [
        track.time for track in domain.tracks() if track.member.writer in removed_writers
    ]
    changed_below_time = min(max(removed_times), highest_time)

    def predict(track: Track) -> int | None:
        if track.time < changed_below_time:
            return overtaken_served_ms
        if track.time >= highest_time:
            return now
        return None

    return predict
