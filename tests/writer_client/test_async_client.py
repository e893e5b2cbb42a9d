"""The client of asyncio does what that of threads does."""

import asyncio
from pathlib import Path

import httpx
import pytest

from noted_time import Rejected, Unreachable
from noted_time.client import Backoff
from noted_time.values import ClientFailed
from tests.support.served import Served
from tests.writer_client.scripted import URL, Scripted
from writer_client import AsyncWriterClient, SegmentLogWriter

SOON = Backoff(first_s=0.001, cap_s=0.005)


async def test_a_note_is_durable_when_flush_returns(served: Served, stream: str) -> None:
    """The end of the block keeps the writer a member."""
    async with AsyncWriterClient(served.url, stream, "UA") as client:
        client.join()
        await client.flush()
        client.note_time(5, {0: 10}, max_time=8)
        await client.flush()
        flushed = await client.flush()

    known = {"state": "live", "times": {"default": 5}, "position": {"0": 10}}
    assert (flushed.lower, served.writers(stream)) == (5, {"UA": known})


async def test_a_writer_that_finishes_is_not_waited_for(served: Served, stream: str) -> None:
    """Finishing notes the state, and flushes."""
    async with AsyncWriterClient(served.url, stream, "UA") as client:
        client.note_time(5, {0: 10})
        await client.finish()

        assert served.writers(stream)["UA"]["state"] == "finished"


async def test_notes_coalesce_while_a_post_is_under_way() -> None:
    """A thousand of them become a few posts, and the last one arrives."""
    network = Scripted()
    async with AsyncWriterClient(URL, "s", "UA", transport=network) as client:
        for number in range(1000):
            client.note_time(number, {0: number})
            if number % 500 == 0:
                await asyncio.sleep(0)

    assert (network.notes[-1]["time"], len(network.notes) < 10) == (999, True)


async def test_a_closed_client_raises_and_reports_what_it_did_not_send(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Closing waits no longer than asked; a second call does nothing."""
    client = AsyncWriterClient("http://127.0.0.1:9", "s", "UA", backoff=SOON)
    client.note_time(5, {0: 10})
    with pytest.raises(Unreachable):
        await client.close(timeout=0.1)
    await client.close()

    with pytest.raises(Rejected, match="is closed"):
        client.note_time(6, {0: 10})
    assert "1 (last time 5)" in caplog.records[-1].getMessage()


async def test_a_fault_of_ours_is_an_error_of_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing looks like success."""
    client = AsyncWriterClient(URL, "s", "UA", transport=Scripted())
    monkeypatch.setattr(client._outbox, "answered", None)
    client.note_time(5, {0: 10})
    for call in (client.flush, client.finish, client.close):
        with pytest.raises(ClientFailed, match="TypeError"):
            await call()


async def test_a_cancelled_flush_harms_nothing() -> None:
    """A waiting caller may stop waiting; the notes are still sent."""
    network = Scripted(*[httpx.Response(503)] * 3)
    async with AsyncWriterClient(URL, "s", "UA", backoff=SOON, transport=network) as client:
        client.note_time(5, {0: 10})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.flush()

    assert network.notes[-1]["time"] == 5


async def test_rows_may_be_appended_from_a_thread(
    tmp_path: Path, served: Served, stream: str
) -> None:
    """The log takes either client; a note from a thread wakes the loop."""
    async with AsyncWriterClient(served.url, stream, "UA") as client:
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        await asyncio.to_thread(log.append, [{"time": 7}])
        await asyncio.to_thread(log.note_time, 8)
        await client.flush()

    known = {"state": "live", "times": {"default": 8}, "position": {"0": 1}}
    assert served.writers(stream) == {"UA": known}


def test_a_client_without_a_loop_is_refused() -> None:
    """With the remedy."""
    with pytest.raises(Rejected, match="inside a coroutine: no event loop is running"):
        AsyncWriterClient(URL, "s", "UA", transport=Scripted())
