"""Complete windows of a reader, and its next segment."""

from collections.abc import Collection, Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.trials.served import Served
from noted_time import Rejected
from noted_time.client import Backoff
from reader_client import ReaderClient, merged

SOON = Backoff(first_s=0.01, cap_s=0.05)


def test_windows_after_a_date_without_a_zone_are_refused(served: Served, stream: str) -> None:
    with ReaderClient(served.url, stream) as reader, pytest.raises(Rejected, match="no time zone"):
        next(reader.windows(after=datetime(2013, 1, 1)))  # noqa: DTZ001 - that is the point


# Which segment a reader reads next, and how far it is behind in each


class Chosen:
    """Answers from a list which segment is next, until the list ends."""

    def __init__(self, turns: list[int | None]) -> None:
        self._turns = iter(turns)

    def next_segment(self, among: Collection[int], domain: str | None) -> int | None:
        """Return the next planned segment if the reader has it."""
        turn = next(self._turns, None)
        return turn if turn in among and domain is None else None


lengths = st.dictionaries(st.integers(0, 4), st.integers(0, 4))

choices = st.lists(st.none() | st.integers(0, 4), max_size=20)


@given(lengths=lengths, turns=choices)
def test_merge_yields_every_item_once_in_segment_order(
    lengths: dict[int, int], turns: list[int | None]
) -> None:
    """The next segment is random, or missing."""
    iterators: dict[int, Iterator[int]] = {s: iter(range(n)) for s, n in lengths.items()}
    found = list(merged(iterators, Chosen(turns)))

    assert {s: [i for segment, i in found if segment == s] for s in lengths} == {
        s: list(range(n)) for s, n in lengths.items()
    }
