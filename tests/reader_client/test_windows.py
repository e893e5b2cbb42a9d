"""Complete windows, as a reader gets them from its client."""

import asyncio
import threading
from datetime import UTC, datetime
from itertools import islice

import pytest

from noted_time import CompleteWindow, Rejected, StreamCut, UnknownStream
from noted_time.client import Backoff
from noted_time.reading import Tiling
from noted_time.values import Missing
from reader_client import AsyncReaderClient, ReaderClient
from reader_client.cursors import WindowCursor
from reader_client.following import Following
from reader_client.wakeup import News
from tests.support.served import Served

SOON = Backoff(first_s=0.01, cap_s=0.05)


def test_windows_are_those_that_the_known_marks_complete(served: Served, stream: str) -> None:
    """The same that the controller lists; a writer that declares no largest times, begins at 0."""
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


def test_a_further_window_is_waited_for(served: Served, stream: str) -> None:
    """As soon as a mark completes it; none if no mark does in time."""
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        windows = client.windows(10, after=0, wait=30)
        first = next(windows)
        threading.Timer(0.05, lambda: served.note(stream, 20, {"0": 200})).start()
        second = next(windows)
        none = list(client.windows(10, after=20, wait=0.01))

    assert ([first.end, second.end], none) == ([10, 20], [])


def test_windows_of_a_recreated_stream_start_again(served: Served, stream: str) -> None:
    """From the `after` of the first call on."""
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


def test_what_cannot_be_answered_is_refused(served: Served, stream: str) -> None:
    """A window without a size, a time without its zone, a stream that is not there."""
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        with pytest.raises(Rejected, match="a window lasts from 1"):
            next(client.windows(0))
        with pytest.raises(Rejected, match="has no time zone"):
            next(client.windows(after=datetime(2013, 1, 1)))  # noqa: DTZ001 - that is the point
    with ReaderClient(served.url, "nope", backoff=SOON) as reader, pytest.raises(UnknownStream):
        next(reader.windows(wait=30))


async def test_windows_are_an_async_iterator(served: Served, stream: str) -> None:
    """With the same windows."""
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
    """Those that the controller names; while it is away they are unknown."""
    served.note(stream, 20, {"0": 150})
    served.call("POST", f"/{stream}/notes", {"notes": [{"writer": "depot", "time": 20}]})
    served.call("DELETE", f"/{stream}/writers/depot")
    served.note(stream, 40, {"0": 200})
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        found = [window.missing for window in client.windows(10, after=10)]
    async with AsyncReaderClient(served.url, stream, backoff=SOON) as client:
        await client.catch_up()
        awaited = [window.missing async for window in client.windows(10, after=10)]

    assert [[each.writer for each in one.writers] for one in found] == [[], ["depot"], ["depot"]]
    assert [one.is_known for one in found] == [True] * 3
    assert awaited == found


def test_windows_name_the_writers_of_late_rows(served: Served, stream: str) -> None:
    """And say whether they begin before the first mark."""
    served.note(stream, 40, {"0": 200})
    late = {"rows": 3, "least": 22, "most": 24}
    served.call("POST", f"/{stream}/notes", {"notes": [{"writer": "depot", "late": late}]})
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        found = list(client.windows(10, after=0))

    rows = [[(each.writer, each.rows, each.at_most) for each in one.late.writers] for one in found]
    assert rows == [[], [], [("depot", 3, False)], []]
    assert [one.before_first_mark for one in found] == [True, False, False, False]


def test_windows_are_given_while_the_controller_is_away() -> None:
    """Then it is unknown which writers are missing from them."""
    page = [CompleteWindow(0, 10, StreamCut({}), StreamCut({0: 5}), 1, 0)]
    following = Following(
        "s", ["default"], keep_last=1, wait_ms=0, news=News(), on_stream=lambda _: None
    )
    cursor = WindowCursor(following, Tiling(10), 0, None)

    assert list(cursor.with_missing(page, None)) == page
    assert page[0].missing == Missing(is_known=False)
