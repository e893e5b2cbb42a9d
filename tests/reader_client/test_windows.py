"""Complete windows of a reader, and its next segment."""

import asyncio
import threading
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.trials.served import Served
from demo.trials.waiting import PATIENCE_S
from noted_time import CompleteWindow, Lag, Rejected, StreamCut, UnknownStream
from noted_time.client import Backoff
from noted_time.reading import Tiling
from noted_time.values import DAY_MS, FIRST_MONDAY_MS, Missing, format_in_zone, unix_ms_of
from reader_client import AsyncReaderClient, ReaderClient, merged
from reader_client.background.news import News
from reader_client.marks.cursors import WindowCursor
from reader_client.marks.following import Following

SOON = Backoff(first_s=0.01, cap_s=0.05)


def test_windows_match_the_controllers_list(served: Served, stream: str) -> None:
    """A writer without largest times begins at 0."""
    for time, offset in ((25, 150), (41, 200)):
        served.note(stream, time, {"0": offset})
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        found = list(client.windows(10, after=15))
        hour = list(client.windows(after=datetime(1970, 1, 1, tzinfo=UTC)))

    listed = served.call("GET", f"/{stream}/windows?size_ms=10&after=15")["windows"]
    shown = [(w.start, w.end, w.to_cut.offsets, w.seq, w.exact) for w in found]
    assert shown == [
        (10, 20, {0: 150}, 2, False),
        (20, 30, {0: 200}, 3, False),
        (30, 40, {0: 200}, 3, False),
    ]
    assert [(w["start"], w["seq"]) for w in listed] == [(w.start, w.seq) for w in found]
    assert hour == []


def test_zoned_windows_match_the_controllers_list(served: Served, stream: str) -> None:
    """Weeks in Berlin begin on Monday at midnight; one has a day of 25 hours."""
    for day in ("2026-10-19T00:00+02:00", "2026-11-02T00:00+01:00"):
        served.note(stream, unix_ms_of(datetime.fromisoformat(day)), {"0": 150})
    week, monday, berlin = 7 * DAY_MS, FIRST_MONDAY_MS, "Europe/Berlin"
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        found = list(client.windows(week, 1_792_360_800_000, origin=monday, zone=berlin))

    query = f"size_ms={week}&origin={monday}&zone={berlin}&after=1792360800000"
    listed = served.call("GET", f"/{stream}/windows?{query}")["windows"]
    shown = [format_in_zone(each.start, ZoneInfo(berlin)) for each in found]
    assert shown == ["2026-10-19T00:00:00+02:00", "2026-10-26T00:00:00+01:00"]
    assert [(each["start"], each["end"]) for each in listed] == [(w.start, w.end) for w in found]
    assert {each.missing_is_known for each in found} == {True}


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


def test_invalid_window_questions_are_refused(served: Served, stream: str) -> None:
    """The size, the zone or the stream is missing."""
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        with pytest.raises(Rejected, match="a window lasts from 1"):
            next(client.windows(0))
        with pytest.raises(Rejected, match="has no time zone"):
            next(client.windows(after=datetime(2013, 1, 1)))  # noqa: DTZ001 - that is the point
    with ReaderClient(served.url, "nope", backoff=SOON) as reader, pytest.raises(UnknownStream):
        next(reader.windows(wait=30))


async def test_windows_are_an_async_iterator(served: Served, stream: str) -> None:
    found = []
    async with AsyncReaderClient(served.url, stream, backoff=SOON) as client:
        await client.catch_up()
        async for window in client.windows(10, after=0, wait=30):
            found.append(window)
            if window.end == 20:
                break
            await asyncio.to_thread(served.note, stream, 20, {"0": 200})
        found += [window async for window in client.windows(10, after=20, wait=0.01)]

    assert [(window.start, window.seq) for window in found] == [(0, 1), (10, 2)]


async def test_windows_name_the_writers_that_are_missing(served: Served, stream: str) -> None:
    """The controller names them; while it is away they are unknown."""
    served.note(stream, 20, {"0": 150})
    served.post(stream, {"writer": "depot", "time": 20})
    served.call("DELETE", f"/{stream}/writers/depot")
    served.note(stream, 40, {"0": 200})
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        found = [window.missing for window in client.windows(10, after=10)]
    async with AsyncReaderClient(served.url, stream, backoff=SOON) as client:
        await client.catch_up()
        awaited = [window.missing async for window in client.windows(10, after=10)]

    assert [[each.writer for each in one.writers] for one in found] == [
        ["depot"],
        ["depot"],
        ["depot"],
    ]
    assert [one.is_known for one in found] == [True] * 3
    assert awaited == found


def test_windows_name_the_writers_of_late_rows(served: Served, stream: str) -> None:
    """They also say whether they begin before the first mark."""
    served.note(stream, 40, {"0": 200})
    late = {"rows": 3, "least": 22, "most": 24}
    served.post(stream, {"writer": "depot", "late": late})
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        found = list(client.windows(10, after=0))

    rows = [[(each.writer, each.rows, each.at_most) for each in one.late.writers] for one in found]
    assert rows == [[], [], [("depot", 3, False)], []]
    assert [one.before_first_mark for one in found] == [True, False, False, False]


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


@pytest.fixture
def two(served: Served, stream: str) -> str:
    """Return a stream with marks at 10, 20 and 40; segment 1 begins with the second."""
    served.note(stream, 20, {"0": 100, "1": 50})
    served.note(stream, 40, {"0": 300, "1": 70})
    return stream


def test_the_least_segment_time_is_the_lower_of_the_window(served: Served, two: str) -> None:
    """`behind` is the distance from the last mark."""
    with ReaderClient(served.url, two) as reader:
        reader.catch_up()
        reader.advance({0: 200, 1: 49})

        assert (reader.segment_times(), reader.get_time_window().lower, reader.lag()) == (
            {0: 20, 1: 10},
            10,
            Lag(30, {0: 20, 1: 30}),
        )


def test_next_segment_is_the_least_advanced(served: Served, two: str) -> None:
    """A reader may be limited to its own segments; without segments none is next."""
    with ReaderClient(served.url, two) as reader:
        reader.catch_up()
        first = reader.next_segment()
        reader.advance({0: 200, 1: 49})

        found = [reader.next_segment(among) for among in (None, [0], [])]
        assert (first, found) == (0, [1, 0, None])


def test_successor_segment_follows_its_predecessor(served: Served, two: str) -> None:
    """The scale event comes with the marks."""
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
