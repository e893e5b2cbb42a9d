"""Rules of notes, time, exclusion and silence, as properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time.rules import Aggregator, forecast
from noted_time.values import Note, ServiceClock, StreamCut, StreamSettings, WaitForWriters
from tests.core.twins import Step, Twins, starts, steps
from tests.support.streams import advance_after, advance_all, deliver, make_stream, restart


def test_the_callers_position_may_change_after_the_note() -> None:
    stream = make_stream()
    position = {0: 5}
    deliver(stream, Note("UA", 10, position))

    position[0] = 9

    assert advance_all(stream)[0].cut.offsets == {0: 5}


def test_the_service_clock_counts_serving_only() -> None:
    clock = ServiceClock(now=100, step_cap_ms=10)

    assert clock.serve(10) == 110
    assert clock.serve(11) == 120
    assert clock.serve(0) == 120
    assert clock.serve(-1) == 120


# S19: members fall silent side by side, each from the moment another noted a later time


@given(
    times=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    timeouts=st.lists(st.integers(1, 40), min_size=8, max_size=8),
    lower=st.integers(0, 60),
)
def test_silent_members_are_passed_by_the_largest_timeout(
    times: list[int], timeouts: list[int], lower: int
) -> None:
    """One mark passes them all, while one member continues to note (S19)."""
    stream = make_stream("alive", *(f"w{number}" for number in range(len(times))))
    for number, time in enumerate(times):
        deliver(stream, Note(f"w{number}", time, timeout_ms=timeouts[number]))
    deliver(stream, Note("alive", lower))
    advance_all(stream)
    largest = max(timeouts[: len(times)])
    for now in range(largest):
        deliver(stream, Note("alive", 100 + now), now=now)
        stream.expire(now)
    deliver(stream, Note("alive", 999), now=largest)

    stream.expire(largest)
    mark = stream.advance("default", now=largest, written_at=0)

    assert mark is not None
    assert mark.lower == 999


def test_writer_that_finishes_between_exclusions_is_not_excluded() -> None:
    """It may also have been forgotten before its turn."""
    settings = StreamSettings(writer_timeout_ms=10, writer_retention_ms=1)
    stream = Aggregator(settings)
    for name in ("first", "second"):
        stream.note(Note(name), now=0)
    excluded_writers = stream.expire(10, 1)
    (other,) = {"first", "second"}.difference(excluded_writers)
    stream.note(Note(other, state="finished"), now=11)
    forgotten = stream.forget_departed(100, 10)

    assert (forgotten, stream.expire(100, 1), stream.is_expiring) == ((other,), (), False)


@given(settings=starts, history=steps)
def test_forecast_comes_true_without_notes(settings: StreamSettings, history: list[Step]) -> None:
    """The watermark moves at that moment, to that lower, past those writers."""
    twins = Twins(replace(settings, domains=("order",)))
    for step in history:
        if step[0] != "reconfigure" and step[1].get("domain") != "ship":
            twins.take(step)
    twins.take(("wait", {"ms": 0, "expire": True}))
    code = twins.code
    domain = code.domains["order"]
    if domain.next_step() is not None:
        return
    foreseen = forecast(code.domains, domain)
    last = twins.now + 100
    out: set[str] = set()
    for now in range(twins.now, last if foreseen is None else foreseen.served_ms + 1):
        out |= set(code.expire(now))
        mark = code.advance("order", now=now, written_at=0)
        assert mark is None or (foreseen is not None and now >= foreseen.served_ms)
    if foreseen is not None:
        assert mark is not None
        assert (mark.lower, out) == (foreseen.lower, set(foreseen.writers))


@given(settings=starts, history=steps)
def test_a_restart_excludes_no_member_sooner(settings: StreamSettings, history: list[Step]) -> None:
    """No exclusion is later than if the silence had begun with the hold."""
    twins = Twins(settings)
    for step in history:
        twins.now += 1
        twins.take(step)
    restarted_stream = restart(twins.code, twins.appended_served_ms, twins.declared_served_ms)
    timeout_ms = twins.code.settings.writer_timeout_ms

    for before, after in zip(twins.code.domains, restarted_stream.domains, strict=True):
        for writer, track in after.holding_back.items():
            member = track.member
            silent_served_ms = max(track.member.noted_served_ms, track.waiting_served_ms)
            member_timeout_ms = member.terms.timeout_ms or timeout_ms
            latest = max(
                silent_served_ms + member_timeout_ms, member.terms.suspension_ends_served_ms or 0
            )
            sooner = before.holding_back[writer].times_out_served_ms(timeout_ms)
            assert sooner <= track.times_out_served_ms(timeout_ms) <= latest


def test_thinning_ends_if_nothing_can_be_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """All positions are kept then, and their number may double before the next thinning."""
    monkeypatch.setattr("noted_time.rules.running_cut.OFFSETS_KEPT", 8)
    stream = make_stream("UA", "DL")
    deliver(stream, *(Note("UA", time, {time: time}) for time in range(1, 41)))

    (mark,) = advance_after(stream, Note("DL", 40))

    assert mark.cut == StreamCut({time: time for time in range(1, 41)})


def test_a_decision_names_the_longest_holders_and_counts_all() -> None:
    """Only the thousand longest holders have names."""
    stream = make_stream()
    for n in range(1001):
        stream.note(Note(f"w{n:04}"), now=n)

    decision = stream.decide("default", now=2000)
    assert isinstance(decision, WaitForWriters)
    named_writers = [waiting.writer for waiting in decision.waiting_for]
    assert (named_writers, decision.holding_back_count) == ([f"w{n:04}" for n in range(1000)], 1001)
