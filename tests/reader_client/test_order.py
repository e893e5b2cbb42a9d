"""Which segment a reader reads next, and how far it is behind in each."""

from collections.abc import Collection, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Lag
from reader_client import ReaderClient, merged
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S, eventually


@pytest.fixture
def two(served: Served, stream: str) -> str:
    """Return a stream with marks at 10, 20 and 40: segment 0 up to 100 and 300, 1 from 20 on."""
    served.note(stream, 20, {"0": 100, "1": 50})
    served.note(stream, 40, {"0": 300, "1": 70})
    return stream


def test_the_least_segment_time_is_the_lower_of_the_window(served: Served, two: str) -> None:
    """Segment by segment, what was read; behind is against the last mark."""
    with ReaderClient(served.url, two) as reader:
        reader.catch_up()
        reader.advance({0: 200, 1: 49})

        assert (reader.segment_times(), reader.get_time_window().lower, reader.lag()) == (
            {0: 20, 1: 10},
            10,
            Lag(30, {0: 20, 1: 30}),
        )


def test_the_segment_that_is_least_far_is_next(served: Served, two: str) -> None:
    """Of all, or of those that this reader has; no segment is next if there is none."""
    with ReaderClient(served.url, two) as reader:
        reader.catch_up()
        first = reader.next_segment()
        reader.advance({0: 200, 1: 49})

        found = [reader.next_segment(among) for among in (None, [0], [])]
        assert (first, found) == (0, [1, 0, None])


def test_a_successor_is_next_once_its_predecessor_was_read(served: Served, two: str) -> None:
    """The client learns of the scale event with the marks."""
    with ReaderClient(served.url, two) as reader:
        reader.catch_up()
        scale = {"sealed": {"1": 70}, "created": {"2": [1], "3": [1]}}
        served.call("POST", f"/{two}/scale", scale)
        served.note(two, 50, {"0": 300, "2": 5})
        reader.wait_for(50, timeout=PATIENCE_S)
        reader.advance({0: 300, 1: 69})
        before = reader.next_segment(), reader.next_segment([2, 3])
        reader.advance({1: 70})

        assert (before, reader.next_segment()) == ((1, None), 2)


def test_a_reader_of_a_group_goes_by_the_position_of_its_group(served: Served, two: str) -> None:
    """What others have read of their segments counts."""
    with (
        ReaderClient(served.url, two, group="g", reader="a", refresh_ms=20) as one,
        ReaderClient(served.url, two, group="g", reader="b", refresh_ms=20) as other,
    ):
        one.catch_up()
        one.advance({0: 200})
        other.advance({1: 49})
        eventually(one.segment_times, {0: 20, 1: 10})

        assert (one.next_segment(), one.lag().behind) == (1, 30)


def test_merged_segments_come_nearly_in_the_order_of_time(served: Served, stream: str) -> None:
    """Marks every 10 time units: no event comes before one of an earlier decade."""
    ends = {0: 0, 1: 0}
    for decade in range(2, 8):
        ends = {0: ends[0] + 10 * (decade % 2), 1: ends[1] + 5}
        served.note(stream, decade * 10, {"0": 100 + ends[0], "1": ends[1]})
    with ReaderClient(served.url, stream) as reader:
        reader.catch_up()
        reader.advance({0: 100})
        rows = {segment: iter(range(end)) for segment, end in ends.items()}
        order = []
        for segment, row in merged(rows, reader):
            order.append(reader.segment_times()[segment])
            reader.advance({segment: row + (101 if segment == 0 else 1)})

    assert (order, len(order)) == (sorted(order, key=lambda time: time or 0), sum(ends.values()))


class Chosen:
    """Answers from a list which segment is next, until the list ends."""

    def __init__(self, turns: list[int | None]) -> None:
        self._turns = iter(turns)

    def next_segment(self, among: Collection[int], domain: str | None) -> int | None:
        """Return the list's entry if it is one of those asked for."""
        turn = next(self._turns, None)
        return turn if turn in among and domain is None else None


lengths = st.dictionaries(st.integers(0, 4), st.integers(0, 4))
choices = st.lists(st.none() | st.integers(0, 4), max_size=20)


@given(lengths=lengths, turns=choices)
def test_merging_yields_every_item_once_and_each_segment_in_its_order(
    lengths: dict[int, int], turns: list[int | None]
) -> None:
    """Whatever is next, and if nothing is."""
    iterators: dict[int, Iterator[int]] = {s: iter(range(n)) for s, n in lengths.items()}
    found = list(merged(iterators, Chosen(turns)))

    assert {s: [i for segment, i in found if segment == s] for s in lengths} == {
        s: list(range(n)) for s, n in lengths.items()
    }
