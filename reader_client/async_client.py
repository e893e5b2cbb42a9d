"""The asyncio client of readers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, Self, TypeVar

from noted_time.client import Question, run_async
from noted_time.client.transport import AsyncTransport
from noted_time.reading import CompleteWindow
from noted_time.values import Mark, NotedTimeError, Rejected, Time, convert_position, unix_ms_of
from reader_client.background.async_wakeup import AsyncWakeup
from reader_client.background.repeating import BackOff, Health, Repeated
from reader_client.group.waits import Wait
from reader_client.marks.cursors import Cursor, MarkCursor
from reader_client.protocol.questions import Pause, Steps
from reader_client.reader import Reader

if TYPE_CHECKING:
    import httpx

Found = TypeVar("Found")


class AsyncReaderClient(Reader["httpx.AsyncBaseTransport"]):
    """A `ReaderClient` for asyncio, which follows marks while its ``async with`` block runs.

    For example:

        async with AsyncReaderClient("flights", controller="http://127.0.0.1:7464") as reader:
            reader.advance({0: 120})
            mark = await reader.wait_for(datetime(2013, 1, 1, 10, tzinfo=UTC), timeout=60)

    Calls that ask no controller are not awaited, such as `advance` and `get_time_window`. Make all
    calls in the loop that runs the block.
    """

    def _open(self, url: str, token: str | None, network: httpx.AsyncBaseTransport | None) -> None:
        self._tasks: list[AsyncRepeating] = []
        self._is_open = False
        self._transport = AsyncTransport(url, token=token, transport=network)

    async def offline(
        self,
        position: Mapping[int, int] | None = None,
        *,
        timeout: float = 10.0,  # noqa: ASYNC109 - as in ReaderClient, with errors that say why
    ) -> None:
        """Leave the group's online readers; see `ReaderClient.offline`."""
        put_back = convert_position(self._position if position is None else position)
        await self._wait(self._waits.wait_for_leave(put_back), timeout)

    async def marks(
        self, after: int = 0, domain: str | None = None, *, wait: float | None = 0.0
    ) -> AsyncGenerator[Mark]:
        """Yield the marks with a seq above `after`; see `ReaderClient.marks`."""
        cursor = MarkCursor(self._following, after, domain)
        while page := await self._take_page(cursor, domain, wait):
            for mark in page:
                yield mark

    async def windows(  # noqa: PLR0913 - one keyword per option
        self,
        size_ms: int = 3_600_000,
        after: Time | None = None,
        domain: str | None = None,
        *,
        origin: Time = 0,
        zone: str | tzinfo = UTC,
        wait: float | None = 0.0,
    ) -> AsyncGenerator[CompleteWindow]:
        """Yield the complete windows, in order; see `ReaderClient.windows`."""
        cursor = self._create_window_cursor(size_ms, (origin, zone), after, domain)
        while page := await self._take_page(cursor, domain, wait):
            answer = None
            with contextlib.suppress(NotedTimeError):
                answer = await self._transport.ask(cursor.ask_missing(page))
            for window in cursor.add_missing(page, answer):
                yield window

    async def wait_for(
        self,
        time: Time,
        timeout: float,  # noqa: ASYNC109 - likewise
        domain: str | None = None,
    ) -> Mark:
        """Wait for the mark of `cut_at(time)` and return it; see `ReaderClient.wait_for`."""
        wait = self._waits.wait_for_time(unix_ms_of(time, up=True), domain)
        return await self._wait(wait, timeout)

    async def catch_up(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - likewise
        """Wait until the marks are known; see `ReaderClient.catch_up`."""
        await self._wait(self._waits.wait_for_marks(), timeout)

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - likewise
        """Send unsent reports, and end the tasks; see `ReaderClient.close`."""
        if self._closing:
            return
        self._closing = True
        try:
            with contextlib.suppress(NotedTimeError):
                await self._wait(self._waits.wait_for_reports(), timeout)
        finally:
            self._closed = True
            for task in self._tasks:
                await task.stop()
            self._news.notify()
            await self._transport.close()

    async def __aenter__(self) -> Self:
        if self._is_open:
            raise Rejected(
                f"the reader of stream {self._stream!r} is already open; create another one"
            )
        self._is_open = True
        self._start(self._begin)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _begin(self, name: str, step: Callable[[], Steps]) -> AsyncRepeating:
        full_name = f"noted-time reader {self._stream} {name}"
        task = AsyncRepeating(full_name, step, self._transport.ask, self._health)
        self._tasks.append(task)
        return task

    def _check_usable(self) -> None:
        super()._check_usable()
        if not self._is_open:
            begin = f"async with AsyncReaderClient({self._stream!r}, …) as reader:"
            raise Rejected(f"the reader of stream {self._stream!r} is not open: use {begin}")

    async def _take_page(
        self, cursor: Cursor[Found], domain: str | None, wait: float | None
    ) -> list[Found]:
        pages = self._wait_for_page(cursor, domain, wait)
        return await run_async(pages, lambda page_wait: self._wait(page_wait, wait))

    async def _wait(self, wait: Wait[Found], seconds: float | None) -> Found:
        wakeup = AsyncWakeup()
        return await run_async(self._waits.until_found(wait, seconds, wakeup.wake), wakeup.wait)


class AsyncRepeating(Repeated[AsyncWakeup]):
    """A task that repeats a step in the running loop."""

    def __init__(
        self,
        name: str,
        step: Callable[[], Steps],
        ask: Callable[[Question[Any]], Awaitable[object]],
        health: Health,
    ) -> None:
        super().__init__(name, health, AsyncWakeup)
        self._ask = ask
        rounds = run_async(self._repeat(step), self._perform)
        self._task = asyncio.create_task(rounds, name=name)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _perform(self, effect: Question[Any] | Pause | BackOff) -> object:
        if isinstance(effect, Question):
            answer = await self._ask(effect)
            self.had_answer = True
            return answer
        waker = self._pausing if isinstance(effect, Pause) else self._backing_off
        await waker.wait(effect.seconds)
        return None
