"""The reader clients for threads and for asyncio."""

import asyncio
import threading
import time
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from noted_time import Rejected, TimeWindow
from noted_time.client import Backoff
from reader_client import AsyncReaderClient, ReaderClient
from tests.support.faults import Faults
from tests.support.http import as_json
from tests.trials.facts import Answer
from tests.trials.judge import judge
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S, wait_until

SOON = Backoff(first_s=0.01, cap_s=0.05)


def reader(served: Served, stream: str, **options: Any) -> ReaderClient:  # noqa: ANN401
    """Return a reader that has caught up and retries quickly."""
    client = ReaderClient(stream, controller=served.url, backoff=SOON, **options)
    client.catch_up()
    return client


def test_marks_are_yielded_up_to_the_final_one(served: Served, stream: str) -> None:
    """The iterator yields known marks, waits for new ones, and resumes from any mark."""
    with reader(served, stream) as client:
        first = list(client.marks())
        for time_ in (20, 30):
            served.note(stream, time_, {"0": time_ * 10})
        served.call("POST", f"/{stream}/seal", {"cut": {"0": 999}})
        further = list(islice(client.marks(after=1, wait=PATIENCE_S), 3))
        later_answers = [(after, list(client.marks(after))) for after in (3, 2, 1, 0)]
    answers = [
        Answer(after, as_json(came)) for after, came in [(0, first), (1, further), *later_answers]
    ]

    assert [mark.seq for mark in first + further] == [1, 2, 3, 4]
    assert (judge(answers=answers), answers[-1].marks[-1]["final"]) == ([], True)


def test_an_iterator_ends_with_its_client(served: Served, stream: str) -> None:
    """Waiting for ever ends when the client is closed."""
    client = reader(served, stream)
    seen_seqs: list[int] = []
    thread = threading.Thread(
        target=lambda: seen_seqs.extend(m.seq for m in client.marks(wait=None))
    )
    thread.start()
    wait_until(lambda: seen_seqs)
    client.close()
    thread.join(PATIENCE_S)

    assert (seen_seqs, thread.is_alive()) == ([1], False)


def test_group_position_is_unknown_until_heard(served: Served, stream: str) -> None:
    network = Faults()
    network.gate.clear()
    client = ReaderClient(stream, controller=served.url, group="g", reader="a", transport=network)
    client.advance({0: 100})
    window = client.get_time_window()
    network.gate.set()
    client.close()

    assert window == TimeWindow(None, None)


def test_closing_does_not_wait_for_a_long_poll(served: Served, stream: str) -> None:
    """The reader and its threads end long before the poll."""
    client = reader(served, stream, group="g", reader="a")
    time.sleep(0.05)
    began = time.monotonic()
    client.close()
    client.close()
    left = [
        t.name for t in threading.enumerate() if t.name.startswith(f"noted-time reader {stream}")
    ]

    assert (left, time.monotonic() - began < 20) == ([], True)


# The client of asyncio


def make_async_reader(served: Served, stream: str, **options: Any) -> AsyncReaderClient:  # noqa: ANN401
    return AsyncReaderClient(stream, controller=served.url, backoff=SOON, **options)


async def test_async_reader_waits_for_a_time(served: Served, stream: str) -> None:
    """The mark arrives by long poll; the time may be a date."""
    async with make_async_reader(served, stream) as reader:
        waiting = asyncio.create_task(
            reader.wait_for(datetime.fromtimestamp(0.02, UTC), PATIENCE_S)
        )
        await reader.catch_up()
        served.note(stream, 20, {"0": 200})

        assert (await waiting).seq == 2


async def test_a_reader_that_is_not_open_explains_how_to_open_it(
    served: Served, stream: str
) -> None:
    """It would wait forever."""
    with pytest.raises(Rejected, match="use async with AsyncReaderClient"):
        await make_async_reader(served, stream).wait_for(10, PATIENCE_S)
