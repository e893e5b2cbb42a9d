"""Rule 8: segments that follow one another, and cuts that stay comparable."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import InvalidScale, Note, ScaleEvent, StreamCut, Succession
from tests.support.streams import deliver, stream_of

SPLIT = ScaleEvent({0: 500}, {2: (0,), 3: (0,)})
MERGE = ScaleEvent({2: 30, 3: 40}, {4: (2, 3)})


def scaled(*events: ScaleEvent) -> Succession:
    succession = Succession()
    for event in events:
        succession.scale(event, known={0, 1})
    return succession


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
    succession = scaled(SPLIT, MERGE)
    joined = StreamCut(one).join(StreamCut(other))

    apart = StreamCut(succession.normalise(one)).join(StreamCut(succession.normalise(other)))

    assert apart == StreamCut(succession.normalise(joined.offsets))


@given(one=positions, other=positions)
def test_normal_cuts_keep_their_order(one: dict[int, int], other: dict[int, int]) -> None:
    succession = scaled(SPLIT, MERGE)
    above = StreamCut(one).join(StreamCut(other))

    assert StreamCut(succession.normalise(above.offsets)).reaches(
        StreamCut(succession.normalise(one))
    )


def test_a_segment_is_not_sealed_below_what_a_writer_noted() -> None:
    """The refusal says who noted more."""
    stream = stream_of()
    deliver(stream, Note("a", 5, {0: 501}))

    with pytest.raises(InvalidScale, match="sealed at 500, but writer 'a' noted 501"):
        stream.scale(SPLIT)
