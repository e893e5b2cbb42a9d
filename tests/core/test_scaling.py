"""Rule 8: segments that follow one another, and cuts that stay comparable."""

from hypothesis import given
from hypothesis import strategies as st

from noted_time.values import ScaleEvent, StreamCut, Succession

SPLIT = ScaleEvent({0: 500}, {2: (0,), 3: (0,)})
MERGE = ScaleEvent({2: 30, 3: 40}, {4: (2, 3)})


def make_succession(*events: ScaleEvent) -> Succession:
    succession = Succession()
    for event in events:
        succession.scale(event, known_segments={0, 1})
    return succession


FINAL = {0: 500, 2: 30, 3: 40}
positions = st.fixed_dictionaries(
    {}, optional={s: st.integers(0, FINAL.get(s, 90)) for s in range(5)}
)


@given(position=positions)
def test_normalising_twice_is_normalising_once(position: dict[int, int]) -> None:
    succession = make_succession(SPLIT, MERGE)
    once = succession.normalise(position)

    assert succession.normalise(once) == once


@given(position=positions)
def test_normal_position_reaches_its_source(position: dict[int, int]) -> None:
    """Normalising removes no offset up to the ends of the segments."""
    normal = StreamCut(make_succession(SPLIT, MERGE).normalise(position))

    assert normal.reaches(StreamCut(position))


@given(one=positions, other=positions)
def test_the_join_of_normal_cuts_is_normal(one: dict[int, int], other: dict[int, int]) -> None:
    """So normal cuts keep their order."""
    succession = make_succession(SPLIT, MERGE)
    join = StreamCut(one).join(StreamCut(other))

    apart = StreamCut(succession.normalise(one)).join(StreamCut(succession.normalise(other)))

    assert apart == StreamCut(succession.normalise(join.offsets))
