"""The writer clients for threads and for asyncio, with a real controller."""

import asyncio
import contextlib
import os
import time
from typing import Any

import httpx
import pytest

from noted_time import Rejected
from noted_time.values import ClientFailed
from tests.support.faults import Faults
from tests.support.processes import run_python
from tests.writer_client.scripted import SOON, URL, Scripted, hasty
from tools.trials.served import Served
from tools.trials.waiting import wait_until
from writer_client import AsyncWriterClient, Pace, WriterClient


def make_clock_client(served: Served, stream: str, **options: Any) -> WriterClient:  # noqa: ANN401
    """Return a client that notes its clock automatically, by default every 5 ms."""
    pace = options.pop("pace", Pace(note_period_ms=5))
    return WriterClient(
        stream, "UA", controller=served.url, automatically_note_time=True, pace=pace, **options
    )


@pytest.mark.parametrize("fails", [False, True])
def test_block_end_keeps_the_writer(served: Served, stream: str, *, fails: bool) -> None:
    """A job cannot announce the next one, and a failed one may have more to write."""
    client = WriterClient(stream, "UA", controller=served.url)
    with contextlib.suppress(ZeroDivisionError), client:
        client.note_time(5, {0: 10})
        _ = 1 // (not fails)

    assert served.writers(stream)["UA"] == {
        "state": "live",
        "times": {"default": 5},
        "position": {"0": 10},
    }


def test_noting_does_not_wait_for_the_network(served: Served, stream: str) -> None:
    """Ten thousand notes are accepted while a post hangs; the next post has the last one."""
    network = Faults()
    network.gate.clear()
    with WriterClient(stream, "UA", controller=served.url, transport=network) as client:
        for number in range(10_000):
            client.note_time(number, {0: number})
        network.gate.set()
        client.flush()

    times = [body["notes"][0].get("time") for body in network.bodies]
    assert (times[-1], len(times) <= 3) == (9999, True)


def test_retry_after_delays_the_next_post(served: Served, stream: str) -> None:
    network = Faults("busy", retry_after_s=1)
    with hasty(served, stream, network) as client:
        began = time.monotonic()
        client.note_time(5, {0: 10})
        client.flush()

        assert time.monotonic() - began >= 1.0


def test_noted_clock_stops_while_events_are_written(served: Served, stream: str) -> None:
    """Events stamped inside a `writing` block are never below a noted time."""
    now = [1000]
    with make_clock_client(served, stream, clock=lambda: now[0]) as client, client.writing():
        now[0] = 2000
        wait_until(lambda: served.writers(stream).get("UA", {}).get("times"))
        time.sleep(0.05)
        noted_times = served.writers(stream)["UA"]["times"]

    assert noted_times == {"default": 1000}


def test_the_clock_is_not_noted_for_an_idle_writer(served: Served, stream: str) -> None:
    with make_clock_client(served, stream) as client:
        client.idle()
        client.flush()
        time.sleep(0.05)
        client.flush()

        assert served.writers(stream)["UA"]["state"] == "idle"


def test_a_writer_is_not_idle_while_it_writes() -> None:
    """An open block counts as writing, however long it takes."""
    with WriterClient("s", "UA", controller=URL, idle_after_ms=20, transport=Scripted()) as client:
        with client.writing():
            client.join()
            time.sleep(0.1)
            assert client.state == "live"
        wait_until(lambda: client.state == "idle")


def test_a_clock_that_fails_is_reported_and_stops_nothing(served: Served, stream: str) -> None:
    """Other notes are still posted, and `flush` raises the error."""
    pace = Pace(note_period_ms=60_000)
    with make_clock_client(served, stream, pace=pace, clock=lambda: 2**63) as client:
        client._posting._next_beat = 0
        client.join({0: 10})
        with pytest.raises(Rejected, match="time 9223372036854775808 is not an int64"):
            client.flush()

        assert served.writers(stream)["UA"]["position"] == {"0": 10}


def test_forked_child_posts_nothing_for_its_parent(served: Served, stream: str) -> None:
    """In a forked child the parent's client raises, and posts nothing."""
    with WriterClient(stream, "UA", controller=served.url) as client:
        client.join()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(Rejected):
                client.note_time(5, {})
                os._exit(1)
            os._exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert status == 7


def test_notes_are_flushed_at_exit(served: Served, stream: str) -> None:
    """The program does not close its client, and the writer stays a member."""
    program = (
        "import sys; from writer_client import WriterClient\n"
        "WriterClient(sys.argv[2], 'UA', controller=sys.argv[1]).note_time(5, {0: 10})\n"
    )
    run_python("-c", program, served.url, stream)

    assert served.writers(stream) == {
        "UA": {"state": "live", "times": {"default": 5}, "position": {"0": 10}}
    }


# The client for asyncio


async def test_internal_fault_is_raised_by_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    client = AsyncWriterClient("s", "UA", controller=URL, transport=Scripted())
    monkeypatch.setattr(client._outbox, "record_answer", None)
    client.note_time(5, {0: 10})
    for call in (client.flush, client.finish, client.close):
        with pytest.raises(ClientFailed, match="TypeError"):
            await call()


async def test_cancelled_flush_still_sends_notes() -> None:
    network = Scripted(*[httpx.Response(503)] * 3)
    pace = Pace(backoff=SOON)
    async with AsyncWriterClient("s", "UA", controller=URL, pace=pace, transport=network) as client:
        client.note_time(5, {0: 10})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.flush()

    assert network.notes[-1]["time"] == 5


def test_a_client_without_a_loop_is_refused() -> None:
    """The error has the remedy."""
    with pytest.raises(Rejected, match="inside a coroutine: no event loop is running"):
        AsyncWriterClient("s", "UA", controller=URL, transport=Scripted())
