"""The end of a stream: the final cut, the last marks, and what holds after them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import (
    Aggregator,
    AlreadySealed,
    InvalidCut,
    InvalidFinalTime,
    Mark,
    MarkHistory,
    Note,
    Refused,
    ScaleEvent,
    Seal,
    Sealed,
    SealRequest,
    StreamCut,
    StreamSealed,
    StreamSettings,
)
from noted_time.values import LARGEST_TIME, MAX_INT64, MIN_INT64, Absence, reaches
from tests.core.acts import DOMAINS, Act, histories, lived, streams
from tests.core.twins import Step, Twins, starts, steps
from tests.core.world import World
from tests.support.honest import Event
from tests.support.streams import deliver, marks_after, marks_of, restarted, stream_of

ALL_TROUBLE = histories("waits", "scales", "restarts", "late")


def sealed(
    stream: Aggregator, cut: dict[int, int] | None = None, final_times: dict[str, int] | None = None
) -> Seal:
    """Seal the stream."""
    return stream.seal(SealRequest(cut or {}, final_times or {}), now=0, written_at=7)


def test_the_last_mark_has_all_that_was_noted() -> None:
    """Its cut joins all positions, its lower is above every event, and it names live writers."""
    stream = stream_of("UA", "DL", "AA")
    marks_after(stream, Note("UA", 5, {0: 50}, max_time=8), Note("DL", 3, {1: 60}, max_time=9))
    deliver(stream, Note("AA", state="idle"))

    made = sealed(stream)

    assert stream.domains["default"].last == Mark(
        1, 10, 9, StreamCut({0: 50, 1: 60}), 7, ("DL", "UA"), upper_is_bound=True, final=True
    )
    assert (made.final_cut, made.at, made.never_noted) == ({0: 50, 1: 60}, 7, ("AA",))


def test_every_member_is_finished_at_its_position() -> None:
    """Whatever it was: live, idle, excluded, or one that joined and noted nothing."""
    stream = stream_of("UA", "DL", "AA", "WN")
    deliver(stream, Note("UA", 5, {0: 50}), Note("DL", state="idle", position={1: 3}))
    stream.expire(200)
    deliver(stream, Note("WN"), now=200)

    sealed(stream)

    records = [stream.record(writer) for writer in stream.writers()]
    assert {each.writer: (each.state, each.excluded, each.position) for each in records} == {
        "UA": ("finished", None, {0: 50}),
        "DL": ("finished", None, {1: 3}),
        "AA": ("finished", None, {}),
        "WN": ("finished", None, {}),
    }
    assert stream.domains.census.members == {"live": 0, "idle": 0, "finished": 4, "excluded": 0}


def test_the_ledger_distinguishes_live_writers_from_excluded_ones() -> None:
    """Each with its last time and position, and the reason."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 5, {0: 50}), Note("DL", 9, {0: 90}))
    stream.expire(100)
    deliver(stream, Note("DL", 9), now=100)

    sealed(stream)

    assert stream.domains["default"].named == (
        Absence("DL", 9, {0: 90}, "sealed", since=7, missing_from=9),
        Absence("UA", 5, {0: 50}, "timed_out", since=100, missing_from=5),
    )


def test_a_cut_that_is_asked_for_joins_what_was_noted() -> None:
    """It may name offsets that no writer noted; then nothing bounds the event times below it."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 5, {0: 50}, max_time=8))

    sealed(stream, {0: 70, 4: 1})

    last = stream.domains["default"].last
    assert last is not None
    assert (last.cut, last.upper_is_bound) == (StreamCut({0: 70, 4: 1}), False)


def test_a_cut_behind_what_was_noted_is_refused_and_changes_nothing() -> None:
    """The refusal names what was noted in these segments."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 5, {0: 50, 1: 3}))
    before = stream.record("UA"), stream.domains["default"].last

    with pytest.raises(InvalidCut, match=r"behind what was noted: \{0: 50\}") as caught:
        sealed(stream, {0: 49, 1: 9})

    assert (caught.value.behind, caught.value.beyond) == ({0: 50}, {})
    assert (stream.record("UA"), stream.domains["default"].last, stream.sealed) == (*before, None)


def test_a_cut_beyond_the_end_of_a_segment_is_refused() -> None:
    """A scale event gave the end of that segment."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 5, {0: 50}))
    stream.scale(ScaleEvent({0: 60}, {1: (0,)}))

    with pytest.raises(InvalidCut, match="beyond the end of a segment") as caught:
        sealed(stream, {0: 61})

    assert (caught.value.behind, caught.value.beyond) == ({}, {0: 60})


def test_a_final_cut_is_normalised() -> None:
    """Naming a successor means that its predecessors are complete."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 5, {0: 50}))
    stream.scale(ScaleEvent({0: 60}, {1: (0,)}))

    assert sealed(stream, {1: 0}).final_cut == {0: 60, 1: 0}


@pytest.mark.parametrize("time", [4, 5, MIN_INT64, MAX_INT64])
def test_a_final_time_not_above_the_last_lower_is_refused(time: int) -> None:
    """Nor may it be an end of int64; nothing changes."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 5, {0: 50}))

    with pytest.raises(InvalidFinalTime) as caught:
        sealed(stream, None, {"default": time})

    assert (caught.value.domain, caught.value.lower, stream.sealed) == ("default", 5, None)


def test_final_times_count_instead_of_what_was_noted() -> None:
    """A domain without any note has a last mark too, at 0 if no final time is given."""
    stream = stream_of("UA", domains=("order", "ship", "pay"))
    deliver(stream, Note("UA", 5, {0: 50}, "order"))

    sealed(stream, None, {"order": 90, "ship": 80})

    lasts = [stream.domains[domain].last for domain in ("order", "ship", "pay")]
    assert [(last.lower, last.upper, last.cut) if last else None for last in lasts] == [
        (90, 5, StreamCut({0: 50})),
        (80, 79, StreamCut({0: 50})),
        (0, -1, StreamCut({0: 50})),
    ]


def test_no_last_mark_is_made_that_would_not_move_the_lower() -> None:
    """All declared event times lie below the lower already, and all rows below the cut."""
    stream = stream_of("UA")
    (mark,) = marks_after(stream, Note("UA", 50, {0: 50}, max_time=8))

    sealed(stream)

    assert (stream.domains["default"].last, stream.decide("default", 0)) == (mark, Sealed())


def test_a_seal_beyond_the_last_cut_moves_the_lower_by_one() -> None:
    """All declared event times lie below the lower, but what was written later not below its cut.

    So there is a mark that is complete to any time.
    """
    stream = stream_of("UA")
    (mark,) = marks_after(stream, Note("UA", 50, {0: 50}, max_time=8))
    deliver(stream, Note("UA", 50, {0: 60}, max_time=9))

    final_cut = sealed(stream).final_cut

    last = stream.domains["default"].last
    assert last is not None
    assert (last.lower, last.upper, last.cut, last.upper_is_bound, last.final) == (
        *(51, 9, StreamCut({0: 60})),
        *(True, True),
    )
    history = MarkHistory([mark, last])
    history.seal(final_cut)
    assert history.complete_to(LARGEST_TIME) == last


def test_no_lower_is_an_end_of_int64_if_a_seal_moves_it_by_one() -> None:
    """At the largest time no further mark is possible."""
    stream = stream_of("UA")
    (mark,) = marks_after(stream, Note("UA", LARGEST_TIME, {0: 50}, max_time=8))
    deliver(stream, Note("UA", LARGEST_TIME, {0: 60}, max_time=9))

    sealed(stream)

    assert stream.domains["default"].last == mark


def test_the_same_request_again_changes_nothing_and_another_one_is_refused() -> None:
    """A repeat after a lost answer is not an error, also after a restart."""
    stream = stream_of("UA")
    deliver(stream, Note("UA", 5, {0: 50}))
    first = sealed(stream, {0: 70})
    again = restarted(stream)

    assert (sealed(stream, {0: 70}), sealed(again, {0: 70})) == (first, first)
    for each in (stream, again):
        with pytest.raises(AlreadySealed):
            sealed(each, {0: 71})


def test_a_sealed_stream_takes_nothing_more() -> None:
    """No note, nor a scale event, a writer or a domain: also after a restart."""
    stream = stream_of("UA")
    deliver(stream, Note("UA", 5, {0: 50}))
    sealed(stream)
    last = stream.domains["default"].last

    for each in (stream, restarted(stream)):
        assert deliver(each, Note("UA", 9, {0: 90}), Note("DL")) == [Refused("sealed")] * 2
        with pytest.raises(StreamSealed, match="no more scale events"):
            each.scale(ScaleEvent({0: 50}, {1: (0,)}))
        with pytest.raises(StreamSealed, match="no more writers"):
            each.expect(["DL"], 0)
        with pytest.raises(StreamSealed, match="no more changes of its writers"):
            each.remove("UA", 0)
        with pytest.raises(StreamSealed, match="no more changes of its writers"):
            each.hold("UA", 9)
        assert (each.decide("default", 0), marks_of(each)) == (Sealed(), [])
        assert (each.domains["default"].last, len(each)) == (last, 1)


def test_a_window_at_the_final_cut_is_sealed() -> None:
    """Any position that reaches it has read all; the last mark is complete to any time."""
    stream = stream_of("UA")
    (mark,) = marks_after(stream, Note("UA", 5, {0: 50}, max_time=8))
    final_cut = sealed(stream, {0: 70}).final_cut
    last = stream.domains["default"].last
    assert last is not None
    history = MarkHistory([mark, last])
    history.seal(final_cut)

    windows = [history.window({0: offset}) for offset in (69, 70, 71)]

    assert [window.sealed for window in windows] == [False, True, True]
    assert [history.complete_to(time) for time in (5, 9, 10, LARGEST_TIME)] == [mark, *[last] * 3]
    assert (history.latest(1).last, history.latest(1).window({0: 70}).sealed) == (last, True)
    with pytest.raises(ValueError, match="does not follow"):
        history.append(Mark(3, 99, 99, StreamCut({0: 99})))


def declared(world: World, event: Event, domain: str) -> bool:
    """Whether its writer noted a position beyond the event with its largest time in the domain."""
    return any(
        note.writer == event.writer
        and (
            (note.domain == domain and note.max_time is not None)
            or domain in (note.max_times or ())
        )
        and note.position.get(event.segment, 0) > event.offset
        for note in world.notes
    )


@given(settings=streams, history=ALL_TROUBLE)
def test_every_declared_event_lies_before_the_end(
    settings: StreamSettings, history: list[Act]
) -> None:
    """Its time is below the last lower and its offset below the final cut, whatever happened."""
    world = lived(settings, history)
    lowers = {domain: world.lower(domain) for domain in DOMAINS}
    final_cut = sealed(world.stream).final_cut

    outside = [
        (domain, event)
        for domain in DOMAINS
        for event in world.events
        if declared(world, event, domain)
        and not (
            event.offset < final_cut.get(event.segment, 0)
            and event.times[domain] < world.lower(domain)
        )
    ]

    assert outside == []
    assert all(world.lower(domain) >= lower for domain, lower in lowers.items())


@given(settings=starts, history=steps, restarts=st.booleans())
def test_after_any_history_a_seal_ends_the_stream(
    settings: StreamSettings, history: list[Step], *, restarts: bool
) -> None:
    """The final cut reaches everything ever known, the chain continues, and nothing follows."""
    twins = Twins(settings)
    for step in history:
        twins.take(step)
    code, model = twins.code, twins.model
    before = {domain: code.domains[domain].last for domain in model.marks}
    if restarts:
        code = restarted(code, twins.appended_at, twins.declared_at)

    final_cut = sealed(code).final_cut

    assert reaches(final_cut, model.complete(dict(final_cut)))
    assert all(reaches(final_cut, writer.position) for writer in model.writers.values())
    for domain, last in before.items():
        mark = code.domains[domain].last
        assert mark is not None
        if mark == last:
            assert model.upper[domain] < mark.lower
            assert reaches(mark.cut.offsets, final_cut)
        else:
            assert (mark.final, mark.cut.offsets) == (True, final_cut)
            assert mark.seq == (last.seq if last else 0) + 1
            assert mark.lower == max(mark.upper, last.lower if last else mark.upper) + 1
            live = {name for name, each in model.writers.items() if each.vouches(domain)}
            assert live <= set(mark.excluded)
        assert code.decide(domain, twins.now) == Sealed()
        assert not code.may_advance(domain)
    assert {code.record(writer).state for writer in code.writers()} <= {"finished"}
    assert code.expire(twins.now + 10**9) == ()
