"""Items of several segments, merged by the segment that a reader reads next."""

from collections.abc import Collection, Iterator

from hypothesis import given
from hypothesis import strategies as st

from reader_client import merged


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
    pairs = list(merged(iterators, Chosen(turns)))

    for segment, length in lengths.items():
        numbers = [number for turn, number in pairs if turn == segment]
        assert numbers == list(range(length))
