"""Complete windows of a reader, and its next segment."""

import threading
from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.trials.served import Served
from noted_time import CompleteWindow, Rejected, StreamCut
from noted_time.client import Backoff
from noted_time.reading import Tiling
from noted_time.values import Missing
from reader_client import ReaderClient, merged
from reader_client.background.news import News
from reader_client.marks.cursors import WindowCursor
from reader_client.marks.following import Following

SOON = Backoff(first_s=0.01, cap_s=0.05)


def test_next_window_is_waited_for(served: Served, stream: str) -> None:
    """It is returned once a mark completes it; without such a mark the wait times out."""
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        windows = client.windows(10, after=0, wait=30)
        first = next(windows)
        threading.Timer(0.05, lambda: served.note(stream, 20, {"0": 200})).start()
        second = next(windows)
        none = list(client.windows(10, after=20, wait=0.01))

    assert ([first.end, second.end], none) == ([10, 20], [])


def test_windows_of_a_recreated_stream_start_again(served: Served, stream: str) -> None:
    """They start at the `after` of the first call."""
    with ReaderClient(served.url, stream, backoff=SOON, wait_ms=50) as client:
        client.catch_up()
        windows = client.windows(10, after=0, wait=30)
        first = next(windows)
        served.call("DELETE", f"/{stream}")
        served.create(stream)
        served.note(stream, 30, {"0": 7})
        anew = list(islice(windows, 3))

    assert [(w.start, w.to_cut) for w in [first, *anew]] == [
        (0, StreamCut({0: 100})),
        (0, StreamCut({0: 7})),
        (10, StreamCut({0: 7})),
        (20, StreamCut({0: 7})),
    ]


def test_windows_after_a_date_without_a_zone_are_refused(served: Served, stream: str) -> None:
    with ReaderClient(served.url, stream) as reader, pytest.raises(Rejected, match="no time zone"):
        next(reader.windows(after=datetime(2013, 1, 1)))  # noqa: DTZ001 - that is the point


def test_windows_are_given_while_the_controller_is_away() -> None:
    """Then the missing writers are unknown."""
    page = [CompleteWindow(0, 10, StreamCut({}), StreamCut({0: 5}), 1, 0)]
    following = Following(
        "s", ["default"], keep_last=1, wait_ms=0, news=News(), on_stream=lambda _: None
    )
    cursor = WindowCursor(following, Tiling(10), 0, None)

    assert list(cursor.add_missing(page, None)) == page
    assert page[0].missing == Missing(is_known=False)


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
