"""Stream cuts: the laws of a partial order with joins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Rejected, StreamCut
from noted_time.values import join_into

MAX = 2**63 - 1
offsets = st.dictionaries(st.integers(0, 4), st.integers(0, 3), max_size=4)
cuts = offsets.map(StreamCut)


@given(cut=cuts)
def test_a_cut_reaches_itself(cut: StreamCut) -> None:
    """Reflexive."""
    assert (cut.reaches(cut), cut.crosses(cut)) == (True, False)


@given(one=cuts, other=cuts)
def test_cuts_that_reach_each_other_are_equal_but_for_segments_named_at_0(
    one: StreamCut, other: StreamCut
) -> None:
    """Antisymmetric."""
    bare = [{s: o for s, o in cut.offsets.items() if o} for cut in (one, other)]

    assert (one.reaches(other) and other.reaches(one)) == (bare[0] == bare[1])


@given(low=cuts, middle=cuts, high=cuts)
def test_reaching_is_transitive(low: StreamCut, middle: StreamCut, high: StreamCut) -> None:
    """Through any cut between, made comparable by joining."""
    middle = middle.join(low)
    high = high.join(middle)

    assert (middle.reaches(low), high.reaches(middle), high.reaches(low)) == (True, True, True)


@given(one=cuts, other=cuts)
def test_two_cuts_reach_or_cross_and_never_both(one: StreamCut, other: StreamCut) -> None:
    """`not a.reaches(b)` does not mean that b reaches a."""
    comparable = one.reaches(other) or other.reaches(one)

    assert (one.crosses(other), other.crosses(one)) == (not comparable, not comparable)


@given(one=cuts, other=cuts, bound=cuts)
def test_the_join_is_the_least_cut_that_reaches_both(
    one: StreamCut, other: StreamCut, bound: StreamCut
) -> None:
    """Whatever reaches both reaches the join."""
    joined = one.join(other)
    both = bound.reaches(one) and bound.reaches(other)

    assert (joined.reaches(one), joined.reaches(other), bound.reaches(joined)) == (True, True, both)


@given(one=cuts, other=cuts, third=cuts)
def test_joining_has_no_order(one: StreamCut, other: StreamCut, third: StreamCut) -> None:
    """Commutative, associative and idempotent."""
    ways = [
        one.join(other).join(third),
        third.join(one.join(other)),
        other.join(third).join(one).join(one),
    ]

    assert ways == ways[:1] * 3


@given(one=offsets, other=offsets)
def test_joining_in_place_is_joining(one: dict[int, int], other: dict[int, int]) -> None:
    """The plain form that the aggregator uses."""
    joined = dict(one)
    join_into(joined, other)

    assert StreamCut(joined) == StreamCut(one).join(StreamCut(other))


@given(cut=cuts)
def test_equal_cuts_are_one_domain(cut: StreamCut) -> None:
    """However their segments are ordered."""
    backwards = StreamCut(dict(reversed(list(cut.offsets.items()))))

    assert len({cut, backwards}) == 1


@pytest.mark.parametrize("offset", [0, MAX])
def test_offsets_are_int64_from_0(offset: int) -> None:
    """Both ends are offsets."""
    assert StreamCut({MAX: offset}).offsets == {MAX: offset}


@pytest.mark.parametrize(
    ("offsets", "named"),
    [
        ({-1: 0}, "segment -1 "),
        ({2**63: 0}, f"segment {2**63} "),
        ({3: -1}, "offset -1 of segment 3 "),
        ({3: 2**63}, f"offset {2**63} of segment 3 "),
    ],
)
def test_an_invalid_offset_or_segment_is_rejected_by_name(
    offsets: dict[int, int], named: str
) -> None:
    """One beyond each end."""
    with pytest.raises(Rejected, match=named):
        StreamCut(offsets)
