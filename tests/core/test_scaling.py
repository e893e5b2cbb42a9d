"""Rule 8: segments that follow one another, and cuts that stay comparable."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Accepted, InvalidScale, Note, Refused, ScaleEvent, StreamCut, Succession
from tests.support.streams import deliver, marks_after, restarted, stream_of

SPLIT = ScaleEvent({0: 500}, {2: (0,), 3: (0,)})
MERGE = ScaleEvent({2: 30, 3: 40}, {4: (2, 3)})


def scaled(*events: ScaleEvent) -> Succession:
    """Return the succession of the events over segments 0 and 1."""
    succession = Succession()
    for event in events:
        succession.scale(event, known={0, 1})
    return succession


def test_naming_a_successor_even_at_0_completes_its_predecessors() -> None:
    """Its writer saw them end."""
    stream = stream_of("UA")
    deliver(stream, Note("UA", 1, {0: 400}))
    stream.scale(SPLIT)

    marks = marks_after(stream, Note("UA", 10, {2: 0}))

    assert [mark.cut for mark in marks] == [StreamCut({0: 500, 2: 0})]


def test_a_note_beyond_the_end_of_a_sealed_segment_is_refused() -> None:
    """The answer carries the end; the end itself is a good position."""
    stream = stream_of("UA")
    deliver(stream, Note("UA", 1, {0: 400, 1: 4}))
    stream.scale(SPLIT)

    answers = deliver(stream, Note("UA", 10, {0: 501, 1: 5}), Note("UA", 10, {0: 500, 1: 5}))

    assert answers == [Refused("invalid_position", {0: 500}), Accepted(None)]


def test_a_writer_may_keep_naming_what_it_wrote_of_a_predecessor() -> None:
    """Beside a successor the old offset does not go back; alone it contradicts the successor."""
    stream = stream_of("UA")
    stream_position = {0: 400, 2: 5}
    deliver(stream, Note("UA", 1, {0: 400}))
    stream.scale(SPLIT)

    answers = deliver(
        stream,
        Note("UA", 2, stream_position),
        Note("UA", 3, stream_position),
        Note("UA", 3, {0: 400}),
    )

    assert answers == [Accepted(None), Accepted(None), Refused("invalid_position", {0: 500})]


def test_a_successor_noted_before_the_scale_event_keeps_its_place_in_the_cut() -> None:
    """The event completes the predecessors and takes nothing back."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 10, {0: 400, 2: 7}))
    marks_after(stream, Note("UA", 15))
    stream.scale(SPLIT)

    marks = marks_after(stream, Note("UA", 20))

    assert [mark.cut for mark in marks] == [StreamCut({0: 500, 2: 7})]


def test_notes_from_before_the_scale_event_are_completed_by_it() -> None:
    """Those that no mark has passed yet."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 10, {0: 400, 2: 7}), Note("UA", 20, {3: 1}))
    stream.scale(SPLIT)

    marks = marks_after(stream, Note("DL", 5))

    assert ([mark.cut for mark in marks], stream.record("UA").position) == (
        [StreamCut({0: 500, 2: 7})],
        {0: 500, 2: 7, 3: 1},
    )


def test_the_last_mark_of_an_unscaled_stream_is_completed_after_a_restart() -> None:
    """Its cut named a successor for which no event was known."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 10, {0: 400, 2: 7}))
    again = restarted(stream)
    again.scale(SPLIT)

    assert [mark.cut for mark in marks_after(again, Note("UA", 20))] == [StreamCut({0: 500, 2: 7})]


@pytest.mark.parametrize(
    ("event", "segment"),
    [
        (ScaleEvent({9: 1}, {}), 9),
        (ScaleEvent({0: 500}, {}), 0),
        (ScaleEvent({2: 3}, {3: (2,)}), 3),
        (ScaleEvent({2: 3}, {0: (2,)}), 0),
        (ScaleEvent({2: 3}, {2: (2,)}), 2),
        (ScaleEvent({2: 3}, {7: (3,)}), 3),
        (ScaleEvent({2: 3}, {7: (0,)}), 0),
        (ScaleEvent({2: -1}, {}), 2),
        (ScaleEvent({2: 2**63}, {}), 2),
        (ScaleEvent({2: 3}, {-1: (2,)}), -1),
        (ScaleEvent({1: 399}, {8: (1,)}), 1),
    ],
    ids=[
        "seals an unknown segment",
        "seals a sealed segment",
        "creates a segment again",
        "creates a sealed segment",
        "creates what it seals",
        "follows an open segment",
        "follows a segment that another event sealed",
        "ends below 0",
        "ends above int64",
        "creates a negative segment",
        "ends below what was noted",
    ],
)
def test_a_wrong_scale_event_names_the_segment_and_changes_nothing(
    event: ScaleEvent, segment: int
) -> None:
    """Correct parts beside it are not accepted either."""
    stream = stream_of("UA")
    deliver(stream, Note("UA", 1, {0: 400, 1: 400}))
    stream.scale(SPLIT)
    before = deepcopy(stream.succession)
    whole = ScaleEvent({1: 400} | dict(event.sealed), {6: (1,)} | dict(event.created))

    with pytest.raises(InvalidScale, match=f"segment {segment}:"):
        stream.scale(whole)

    assert stream.succession == before


FINAL = {0: 500, 2: 30, 3: 40}
positions = st.fixed_dictionaries(
    {}, optional={s: st.integers(0, FINAL.get(s, 90)) for s in range(5)}
)


@given(position=positions)
def test_normalising_twice_is_normalising_once(position: dict[int, int]) -> None:
    """A normal position names all that it implies."""
    succession = scaled(SPLIT, MERGE)
    once = succession.normalise(position)

    assert succession.normalise(once) == once


@given(position=positions)
def test_a_normal_position_reaches_the_one_it_came_from(position: dict[int, int]) -> None:
    """Up to the ends of the segments nothing is taken away."""
    normal = StreamCut(scaled(SPLIT, MERGE).normalise(position))

    assert normal.reaches(StreamCut(position))


@given(one=positions, other=positions)
def test_the_join_of_normal_cuts_is_normal(one: dict[int, int], other: dict[int, int]) -> None:
    """So the aggregator may normalise notes and join, or join and normalise."""
    succession = scaled(SPLIT, MERGE)
    joined = StreamCut(one).join(StreamCut(other))

    apart = StreamCut(succession.normalise(one)).join(StreamCut(succession.normalise(other)))

    assert apart == StreamCut(succession.normalise(joined.offsets))


@given(one=positions, other=positions)
def test_normal_cuts_keep_their_order(one: dict[int, int], other: dict[int, int]) -> None:
    """One that reaches another, naming all it names, still does."""
    succession = scaled(SPLIT, MERGE)
    above = StreamCut(one).join(StreamCut(other))

    assert StreamCut(succession.normalise(above.offsets)).reaches(
        StreamCut(succession.normalise(one))
    )
