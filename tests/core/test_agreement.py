"""The aggregator against the rules implemented by brute force."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from noted_time.rules import Aggregator, lower_without
from noted_time.values import Exclusion, Missing, Note, Quiet, StreamSettings, WaitForWriters
from tests.core.model import NEVER
from tests.core.twins import WRITERS, Step, Twins, silences, starts, steps
from tests.support.streams import restart


@given(settings=starts, history=steps)
def test_aggregator_agrees_with_the_model(settings: StreamSettings, history: list[Step]) -> None:
    """Both give the same answers, marks, cuts, holders and timeouts; the model forgets nothing."""
    twins = Twins.replay(settings, history)

    assert list(twins.code.writers()) == list(twins.model.writers)


@given(settings=starts, history=silences)
def test_exclusion_comes_after_the_timeout(settings: StreamSettings, history: list[Step]) -> None:
    """The model checks each exclusion against all notes of the other writers (S19)."""
    twins = Twins(replace(settings, domains=("order",), returning_writer="wait"))

    for step in history:
        while step[0] == "wait" and twins.advance("order"):
            pass
        twins.take(step)

    assert list(twins.code.writers()) == list(twins.model.writers)


@given(settings=starts, history=steps)
def test_lower_without_predicts_exclusion(settings: StreamSettings, history: list[Step]) -> None:
    twins = Twins.replay(settings, history)
    domains = list(twins.model.marks)

    for writer in WRITERS:
        predicted_lowers = {}
        for domain in domains:
            lower = lower_without(twins.code.domains[domain], writer)
            predicted_lowers[domain] = NEVER if lower is None else lower

        assert predicted_lowers == twins.without(writer)


@given(
    settings=starts,
    history=steps,
    removed=st.sets(st.sampled_from(WRITERS)),
    timeout_ms=st.none() | st.integers(1, 12),
)
def test_dry_run_predicts_the_next_mark(
    settings: StreamSettings, history: list[Step], removed: set[str], timeout_ms: int | None
) -> None:
    """Removing the writers, or changing the writer timeout, leads to exactly that mark."""
    twins = Twins.replay(settings, history)
    names = sorted(name for name in removed if name in twins.code)

    for domain in twins.model.marks:
        foretold = twins.code.dry_run(domain, names, timeout_ms, twins.now)

        code = deepcopy(twins.code)
        for name in names:
            code.remove(name, twins.now)
        if timeout_ms is not None:
            code.reconfigure(replace(code.settings, writer_timeout_ms=timeout_ms), twins.now)
            code.expire(twins.now)
        mark = code.advance(domain, now=twins.now, written_at=0)
        if mark is not None:
            come = ("advance", mark.lower, mark.cut, mark.excluded)
        else:
            last = code.domains[domain].last
            decision = code.decide(domain, twins.now)
            last_lower_and_cut = (last.lower, last.cut) if last else (None, None)
            come = (
                "wait" if isinstance(decision, WaitForWriters) else "quiet",
                *last_lower_and_cut,
                (),
            )
            assert isinstance(decision, WaitForWriters | Quiet)
        assert (foretold.decision, foretold.lower, foretold.cut, foretold.excluded) == come


def predict_marks(stream: Aggregator, now: int) -> list[object]:
    """Return each domain's holders, and the parts of its next marks that no restart may change."""
    come: list[object] = []
    for domain in stream.settings.domains:
        decision = stream.decide(domain, now)
        waiting = decision.waiting_for if isinstance(decision, WaitForWriters) else ()
        come.append(sorted(holder.writer for holder in waiting))
        while (mark := stream.advance(domain, now=now, written_at=0)) is not None:
            running = stream.domains[domain]
            absences = [(a.writer, a.reason) for a in running.roster.named.absences]
            come.append(
                (
                    mark.seq,
                    mark.lower,
                    mark.excluded,
                    absences,
                    running.roster.named.returned_writers,
                )
            )
    return come


@given(settings=starts, history=steps)
def test_restart_keeps_times_and_holders(settings: StreamSettings, history: list[Step]) -> None:
    """Each member's timeout, domains and lateness are durable."""
    twins = Twins.replay(settings, history)

    restarted_stream = restart(twins.code, twins.appended_served_ms, twins.declared_served_ms)

    assert predict_marks(restarted_stream, twins.now) == predict_marks(twins.code, twins.now)


@given(settings=starts, history=steps)
def test_restart_keeps_recorded_exclusions(settings: StreamSettings, history: list[Step]) -> None:
    """The answer has the reason, the time of the exclusion and the state.

    A silent writer learns of its exclusion once a mark has advanced without it.
    """
    twins = Twins(settings)
    for step in history:
        twins.take(step)
        for stream in (
            twins.code,
            restart(twins.code, twins.appended_served_ms, twins.declared_served_ms),
        ):
            counts = dict.fromkeys(stream.domains.census.members, 0)
            for name, writer in twins.model.writers.items():
                member = stream.member(name)
                recorded_exclusions = {}
                for domain, track in stream.domains.list_tracks(member):
                    if domain.name in settings.domains:
                        recorded_exclusions[domain.name] = track.membership.exclusion
                assert recorded_exclusions == {k: writer.reported.get(k) for k in settings.domains}
                for domain_name, exclusion in recorded_exclusions.items():
                    answer = stream.answer(Note(name, 0, domain=domain_name))
                    answered_exclusion = answer.exclusion
                    if answered_exclusion is not None:
                        answered_exclusion = replace(answered_exclusion, lower=UNSET)
                    has_lost = _has_lost(twins, name, domain_name, exclusion)
                    assert answered_exclusion == (exclusion if has_lost else None)
                counts["excluded" if member.exclusion else member.state] += 1
            assert stream.domains.census.members == counts


def _has_lost(twins: Twins, writer: str, domain: str, exclusion: Exclusion | None) -> bool:
    is_silent = exclusion is not None and exclusion.reason == "timed_out"
    is_late = domain in twins.model.writers[writer].returned_below
    is_in_mark = domain in twins.missing and writer in twins.missing[domain].open_writers
    return not is_silent or is_late or is_in_mark


@given(settings=starts, history=steps, size=st.integers(1, 7), start=st.integers(-9, 9))
def test_windows_and_cuts_name_the_writers_time_advanced_without(
    settings: StreamSettings, history: list[Step], size: int, start: int
) -> None:
    """An answer names a writer if its interval meets the window, or is open at the mark (S18)."""
    twins = Twins.replay(settings, history)

    for domain, missing in twins.missing.items():
        last = twins.model.lower(domain)
        starts_of = range(start, last - size + 1, size)  # of the windows that are complete
        windows = missing.find_in_windows([*starts_of, start + len(starts_of) * size])
        for window, window_start in zip(windows, starts_of, strict=True):
            end = window_start + size
            assert _names(window) == twins.model.missing_in(domain, window_start, end)
        marks = zip(twins.model.marks[domain], twins.model.went_without[domain], strict=True)
        for mark, names in marks:
            assert _names(missing.find_at_mark(mark)) == set(names)


def _names(missing: Missing) -> set[str]:
    assert len(missing.writers) == missing.count
    return {writer.writer for writer in missing.writers}
