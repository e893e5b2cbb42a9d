"""S19: members fall silent side by side, each from the moment another noted a later time."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from noted_time import Aggregator, Note, StreamSettings
from noted_time.rules import forecast
from tests.core.twins import Reconfigures, Step, Twins, starts, steps
from tests.support.streams import (
    TIMEOUT_MS,
    deliver,
    expiries,
    lowers,
    marks_after,
    marks_of,
    restarted,
    stream_of,
    waiting,
)


def test_members_that_fall_silent_together_are_passed_together() -> None:
    """One timeout for all, one mark that names them all: not a timeout and a mark for each."""
    stream = stream_of("UA", "DL", "AA", "B6")
    marks_after(stream, Note("UA", 10), Note("DL", 20), Note("AA", 30), Note("B6", 40))
    deliver(stream, Note("B6", 50), now=TIMEOUT_MS - 1)

    assert expiries(stream, TIMEOUT_MS - 1, TIMEOUT_MS) == [(), ("UA", "DL", "AA")]
    assert [(mark.lower, mark.excluded) for mark in marks_of(stream)] == [(50, ("AA", "DL", "UA"))]


def test_a_member_ahead_is_silent_from_the_moment_it_was_overtaken() -> None:
    """It is passed as soon as it would hold, if its timeout is over by then."""
    stream = stream_of("UA", "DL", "AA")
    marks_after(stream, Note("UA", 10), Note("DL", 20))
    marks_after(stream, Note("AA", 30), now=40)
    deliver(stream, Note("UA", 15), Note("AA", 31), now=TIMEOUT_MS)
    marks_of(stream, now=TIMEOUT_MS)
    deliver(stream, Note("UA", 35), now=TIMEOUT_MS + 30)

    due = 40 + TIMEOUT_MS
    assert (lowers(marks_of(stream, now=TIMEOUT_MS + 30)), expiries(stream, due - 1, due)) == (
        [20],
        [(), ("DL",)],
    )


def test_a_leader_is_never_excluded_however_long_it_is_silent() -> None:
    """Nothing waits for it; when it begins to hold it has its whole timeout."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 20))
    stream.expire(TIMEOUT_MS)
    deliver(stream, Note("UA", 15), now=500)
    early = expiries(stream, 500)
    marks_after(stream, Note("UA", 30), now=550)

    due = 550 + TIMEOUT_MS
    assert (early, expiries(stream, due - 1, due)) == ([()], [(), ("DL",)])


def test_a_member_at_the_time_of_one_that_is_not_silent_is_waited_for_with_it() -> None:
    """The next mark is at their time; then the silent one is passed, the other one holds."""
    stream = stream_of("UA", "DL", "AA", "B6")
    marks_after(stream, Note("UA", 10), Note("DL", 20), Note("AA", 20), Note("B6", 40))
    deliver(stream, Note("AA", 20), now=60)

    first = stream.expire(TIMEOUT_MS)
    marks = marks_of(stream, now=TIMEOUT_MS)

    assert (first, lowers(marks), stream.expire(TIMEOUT_MS)) == (("UA",), [20], ("DL",))
    assert [each.writer for each in waiting(stream)] == ["AA"]


def test_each_is_passed_at_its_own_timeout_where_no_other_holds_longer() -> None:
    """A patient one holds for as long as it said; those behind it are passed with it."""
    stream = stream_of("UA", "DL", "AA", "B6")
    deliver(stream, Note("DL", timeout_ms=3 * TIMEOUT_MS))
    marks_after(stream, Note("UA", 10), Note("DL", 20), Note("AA", 30), Note("B6", 40))

    first = stream.expire(TIMEOUT_MS)
    marks_of(stream, now=TIMEOUT_MS)

    due = 3 * TIMEOUT_MS
    assert (first, expiries(stream, due - 1, due)) == (("UA",), [(), ("DL", "AA")])


def test_an_operators_hold_counts_for_a_member_that_would_hold_next() -> None:
    """It is not passed with those before it."""
    stream = stream_of("UA", "DL", "AA")
    marks_after(stream, Note("UA", 10), Note("DL", 20), Note("AA", 30))
    stream.hold("DL", until=5 * TIMEOUT_MS)

    assert (stream.expire(TIMEOUT_MS), lowers(marks_of(stream))) == (("UA",), [20])


def test_whom_only_a_removed_writer_overtook_is_a_leader_again() -> None:
    """A wrong clock, once removed, does not shorten anybody's timeout."""
    stream = stream_of("UA", "DL", "BAD")
    marks_after(stream, Note("UA", 10), Note("DL", 20), Note("BAD", 99))
    stream.remove("BAD", now=50)
    marks_after(stream, Note("UA", 30), now=300)

    due = 300 + TIMEOUT_MS
    assert expiries(stream, due - 1, due) == [(), ("DL",)]


def test_a_restart_excludes_nobody_sooner_and_nobody_later_than_it_began_to_hold() -> None:
    """When a member was overtaken is not stored: it counts from the last note of all at latest."""
    stream = stream_of("UA", "DL", "AA")
    marks_after(stream, Note("UA", 10), Note("DL", 20), Note("AA", 30))
    deliver(stream, Note("AA", 40), now=30)
    again = restarted(stream, {"default": 0})

    assert expiries(stream, TIMEOUT_MS) == [("UA", "DL")]
    assert expiries(again, TIMEOUT_MS) == [("UA",)]
    marks_of(again, now=TIMEOUT_MS)
    assert expiries(again, TIMEOUT_MS + 29, TIMEOUT_MS + 30) == [(), ("DL",)]


def test_an_expected_writer_is_silent_from_its_creation_on() -> None:
    """However late the first other writer notes."""
    stream = Aggregator(StreamSettings(writer_timeout_ms=TIMEOUT_MS))
    stream.expect(["depot"], now=0)
    deliver(stream, Note("UA", 10), now=60)

    assert expiries(stream, TIMEOUT_MS - 1, TIMEOUT_MS) == [(), ("depot",)]


def test_a_dry_run_with_another_timeout_passes_those_who_would_hold_next() -> None:
    """It names all that would be excluded at once, and where the watermark would be."""
    stream = stream_of("UA", "DL", "AA")
    marks_after(stream, Note("UA", 10), Note("DL", 20), Note("AA", 30))

    would = stream.would("default", (), 40, now=40)

    assert (would.lower, would.excluded) == (30, ("DL", "UA"))


@given(
    times=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    timeouts=st.lists(st.integers(1, 40), min_size=8, max_size=8),
    lower=st.integers(0, 60),
)
def test_members_silent_from_one_moment_on_are_passed_by_the_largest_of_their_timeouts(
    times: list[int], timeouts: list[int], lower: int
) -> None:
    """And by one mark, wherever they and the watermark stand; one member notes on (S19)."""
    stream = stream_of("alive", *(f"w{number}" for number in range(len(times))))
    for number, time in enumerate(times):
        deliver(stream, Note(f"w{number}", time, timeout_ms=timeouts[number]))
    deliver(stream, Note("alive", lower))
    marks_of(stream)
    largest = max(timeouts[: len(times)])
    for now in range(largest):
        deliver(stream, Note("alive", 100 + now), now=now)
        stream.expire(now)
    deliver(stream, Note("alive", 999), now=largest)

    stream.expire(largest)
    mark = stream.advance("default", now=largest, written_at=0)

    assert mark is not None
    assert mark.lower == 999


@given(settings=starts, history=steps)
def test_a_forecast_is_what_then_happens_if_nobody_notes(
    settings: StreamSettings, history: list[Step]
) -> None:
    """The watermark moves at that moment and not before, to that lower, past those writers."""
    twins = Twins(replace(settings, domains=("order",)))
    for step in history:
        if not (isinstance(step, Reconfigures) or getattr(step, "domain", "") == "ship"):
            twins.take(step)
    code = twins.code
    domain = code.domains["order"]
    if domain.next_step() is not None:
        return
    foreseen = forecast(code.domains, domain)
    last = twins.now + 100
    out: set[str] = set()
    for now in range(twins.now, last if foreseen is None else foreseen.at + 1):
        out |= set(code.expire(now))
        mark = code.advance("order", now=now, written_at=0)
        assert mark is None or (foreseen is not None and now >= foreseen.at)
    if foreseen is not None:
        assert mark is not None
        assert (mark.lower, out) == (foreseen.lower, set(foreseen.writers))


@given(settings=starts, history=steps)
def test_a_restart_excludes_no_member_sooner(settings: StreamSettings, history: list[Step]) -> None:
    """And none later than if its silence began when it began to hold."""
    twins = Twins(settings)
    for step in history:
        twins.now += 1
        twins.take(step)
    again = restarted(twins.code, twins.appended_at, twins.declared_at)
    timeout_ms = settings.writer_timeout_ms

    for before, after in zip(twins.code.domains, again.domains, strict=True):
        for writer, track in after.holders.items():
            terms = track.member.terms
            own = replace(twins.code.settings).writer_timeout_ms
            own = own if terms.timeout_ms is None else terms.timeout_ms
            latest = max(max(track.member.noted_at, track.began) + own, terms.hold_until or 0)
            running = twins.code.settings.writer_timeout_ms
            sooner = before.holders[writer].times_out_at(running)
            assert sooner <= track.times_out_at(running) <= latest, timeout_ms
