"""The asyncio client against the real app, without a network between."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from controller.service.controller import Controller
from controller.store.memory import MemoryStore
from noted_time import ClientFailed, NotCompleteYet, Rejected, TimeWindow, Unreachable
from noted_time.client import Backoff
from reader_client import AsyncReaderClient
from reader_client.follower import Follower
from tests.support.http import Caller, answering
from tests.support.waiting import PATIENCE_S

SOON = Backoff(first_s=0.01, cap_s=0.02)


class App:
    """The real app with the stream `s`; requests fail while it is `away`."""

    def __init__(self, caller: Caller) -> None:
        self.controller = caller.controller
        self.away = False
        self._caller = caller

    async def note(self, time: int, offset: int) -> None:
        """Have the only writer note, which makes a mark."""
        await self._caller.note({"writer": "w", "time": time, "position": {"0": offset}})

    async def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Call a route below that of the streams."""
        answer = await self._caller.client.request(method, f"/v1/streams{path}", json=body)
        answer.raise_for_status()
        return dict(answer.json()) if answer.content else {}

    def reader(self, stream: str = "s", **options: Any) -> AsyncReaderClient:  # noqa: ANN401
        """Return a reader that is not open yet."""
        app = self

        class Transport(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                if app.away:
                    raise httpx.ConnectError("no connection", request=request)
                return await app._caller.client._transport.handle_async_request(request)

        options = {"backoff": SOON, **options}
        return AsyncReaderClient("http://localhost", stream, transport=Transport(), **options)


@pytest.fixture
async def app() -> AsyncIterator[App]:
    """Yield the app with a stream that has one mark: lower 10 at offset 100."""
    async with answering(Controller(MemoryStore())) as caller:
        made = App(caller)
        await made.call("PUT", "/s", {"mark_interval_ms": 0})
        await made.note(10, 100)
        yield made


async def test_a_position_is_a_window_without_a_round_trip(app: App) -> None:
    """The local calls are not awaited."""
    async with app.reader() as reader:
        await reader.catch_up()
        reader.advance({0: 100})
        seen = reader.position, reader.get_time_window(), reader.cut_at(10).seq

    assert seen == ({0: 100}, TimeWindow(10, None, 1, None), 1)


async def test_a_time_is_awaited(app: App) -> None:
    """The mark arrives by long poll; a date is as good as a number."""
    async with app.reader() as reader:
        waiting = asyncio.create_task(
            reader.wait_for(datetime.fromtimestamp(0.02, UTC), PATIENCE_S)
        )
        await reader.catch_up()
        await app.note(20, 200)

        assert (await waiting).seq == 2


async def test_marks_are_an_async_iterator(app: App) -> None:
    """Those that are known, then those that come, until the client is closed."""
    seen: list[int] = []
    reader = app.reader()

    async def follow() -> None:
        async for mark in reader.marks(wait=None):
            seen.append(mark.lower)
            if mark.lower == 20:
                await reader.close()

    async with reader:
        following = asyncio.create_task(follow())
        await reader.catch_up()
        await app.note(20, 200)
        await following
        known = [mark.lower async for mark in reader.marks(after=1)]

    assert (seen, known) == ([10, 20], [20])


async def test_a_controller_that_is_away_is_named_when_time_is_up(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """And followed again when it is back, which is logged like its absence."""
    with caplog.at_level(logging.WARNING, "noted_time.reader"):
        async with app.reader(wait_ms=10) as reader:
            await reader.catch_up()
            app.away = True
            with pytest.raises(Unreachable, match="http://localhost did not answer within"):
                await reader.wait_for(99, 0.1)
            app.away = False
            await app.note(99, 990)
            await reader.wait_for(99, PATIENCE_S)
            with pytest.raises(NotCompleteYet, match="the lower is 99"):
                await reader.wait_for(100, 0.01)

    words = [message.split(",")[0].split(" s' ")[-1] for message in caplog.messages]
    assert words == [
        "the reader of stream 's': no response",
        "the reader of stream 's': the controller responds again",
    ]


async def test_a_fault_of_the_client_is_raised_by_every_later_call(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its cause."""
    fault = ZeroDivisionError("a defect")

    def take_marks(*_: object) -> None:
        raise fault

    monkeypatch.setattr(Follower, "take_marks", take_marks)

    async with app.reader() as reader:
        with pytest.raises(ClientFailed) as raised:
            await reader.wait_for(10, PATIENCE_S)
        with pytest.raises(ClientFailed):
            reader.get_time_window()

    assert raised.value.__cause__ is fault


async def test_closing_leaves_no_task_behind(app: App) -> None:
    """Nor does it wait for the long poll under way; a second call does nothing."""
    before = asyncio.all_tasks()
    async with app.reader(group="g", reader="r") as reader:
        await reader.catch_up()
        during = asyncio.all_tasks() - before
    await reader.close()

    names = {task.get_name() for task in during}
    assert names >= {"noted-time reader s default", "noted-time reader s group"}
    assert {task for task in during if not task.done()} == set()
    with pytest.raises(Rejected, match="is closed"):
        await reader.wait_for(99, PATIENCE_S)


async def test_a_reader_that_is_not_open_explains_how_to_open_it(app: App) -> None:
    """It would wait for ever, as nothing is followed."""
    with pytest.raises(Rejected, match="use async with AsyncReaderClient"):
        await app.reader().wait_for(10, PATIENCE_S)
