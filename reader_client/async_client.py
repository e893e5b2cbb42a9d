"""The reader's side of noted time for asyncio: what waits is awaited, all else is as it is."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self, TypeVar

from noted_time.client import Backoff, Question, run_async
from noted_time.client.transport import AsyncTransport
from noted_time.reading import Tiling
from noted_time.values import NotedTimeError, Rejected, plain_position, unix_ms_of
from reader_client.health import Pace
from reader_client.reading import Reading
from reader_client.repeating import AsyncRepeating, own_chance
from reader_client.wakeup import AsyncWakeup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from types import TracebackType

    import httpx

    from noted_time.reading import CompleteWindow
    from noted_time.values import Mark, Time
    from reader_client.questions import Json, Pause, Steps
    from reader_client.waits import Pages, Wait

Found = TypeVar("Found")


class AsyncReaderClient(Reading):
    """Does as `ReaderClient` in an event loop: tasks in place of threads, and the same logic.

    It follows between the begin and the end of an ``async with`` block::

        async with AsyncReaderClient("http://127.0.0.1:7464", "flights") as reader:
            reader.advance({0: 120})
            mark = await reader.wait_for(datetime(2013, 1, 1, 10, tzinfo=UTC), timeout=60)

    `advance`, `get_time_window`, `window_at`, `cut_at`, `last_mark`, `position`, `segment_times`,
    `lag`, `next_segment` and `may_read` ask nobody, so they are not awaited. All calls belong in
    the loop that the block began in.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        url: str,
        stream: str,
        *,
        token: str | None = None,
        group: str | None = None,
        reader: str | None = None,
        domains: Sequence[str] | None = None,
        keep_last: int = 1_000_000,
        wait_ms: int = 25_000,
        refresh_ms: int = 500,
        align: str | None = None,
        align_as: str | None = None,
        backoff: Backoff | None = None,
        chance: Callable[[], float] = own_chance,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Take what to follow; the arguments are those of `ReaderClient`."""
        super().__init__(
            url,
            stream,
            group=group,
            reader=reader,
            domains=domains,
            keep_last=keep_last,
            wait_ms=wait_ms,
            refresh_ms=refresh_ms,
            align=align,
            align_as=align_as,
        )
        self._pace = Pace(backoff or Backoff(), chance)
        self._tasks: list[AsyncRepeating] = []
        self._is_open = False
        self._transport = AsyncTransport(url, token=token, transport=transport)

    async def offline(
        self,
        position: Mapping[int, int] | None = None,
        *,
        timeout: float = 10.0,  # noqa: ASYNC109 - as in ReaderClient, and with errors that say why
    ) -> None:
        """Leave the group's readers; see `ReaderClient.offline`."""
        put_back = plain_position(self._position if position is None else position)
        await self._wait(self._waits.leaving(put_back), timeout)

    async def marks(
        self, after: int = 0, domain: str | None = None, *, wait: float | None = 0.0
    ) -> AsyncGenerator[Mark]:
        """Yield the marks with a seq above `after`; see `ReaderClient.marks`."""
        cursor = self._waits.cursor(after, domain)
        while found := await self._next_page(cursor, domain, wait):
            for mark in found:
                yield mark

    async def windows(
        self,
        size_ms: int = 3_600_000,
        after: Time | None = None,
        domain: str | None = None,
        *,
        origin: Time = 0,
        wait: float | None = 0.0,
    ) -> AsyncGenerator[CompleteWindow]:
        """Yield the windows that are complete, in order; see `ReaderClient.windows`."""
        cursor = self._waits.window_cursor(Tiling(size_ms, unix_ms_of(origin)), after, domain)
        while found := await self._next_page(cursor, domain, wait):
            answer = None
            with contextlib.suppress(NotedTimeError):
                answer = await self._transport.ask(cursor.about_missing(found))
            for window in cursor.with_missing(found, answer):
                yield window

    async def wait_for(
        self,
        time: Time,
        timeout: float,  # noqa: ASYNC109 - likewise
        domain: str | None = None,
    ) -> Mark:
        """Return `cut_at(time)` as soon as it is known; raises as `ReaderClient.wait_for`."""
        wait = self._waits.completeness(unix_ms_of(time, up=True), domain)
        return await self._wait(wait, timeout)

    async def catch_up(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - likewise
        """Wait until the marks are known that there were at first; see `ReaderClient.catch_up`."""
        await self._wait(self._waits.catching_up(), timeout)

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - likewise
        """Report what is left to report, for at most `timeout` seconds, and end the tasks.

        The reader stays in its group; `offline` leaves it. A second call does nothing.
        """
        if self._closing:
            return
        self._closing = True
        try:
            with contextlib.suppress(NotedTimeError):  # logged; nobody is there to act upon it
                await self._wait(self._waits.reporting(), timeout)
        finally:
            self._closed = True
            for task in self._tasks:
                await task.stop()
            self._news.notify()
            await self._transport.close()

    async def __aenter__(self) -> Self:
        if self._is_open:
            raise Rejected(f"the reader of stream {self._stream!r} is open already; make another")
        self._is_open = True
        self._start(self._begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # Tasks

    def _begin(self, name: str, step: Callable[[], Steps]) -> AsyncRepeating:
        async def perform(effect: Question | Pause) -> Json:
            if isinstance(effect, Question):
                answer = await self._transport.ask(effect)
                task.attempts.had_answer = True
                return answer
            await task.pause(effect.seconds)
            return {}

        task = AsyncRepeating(
            f"noted-time reader {self._stream} {name}",
            lambda: run_async(step(), perform),
            self._pace,
            on_failure=self._news.notify,
            health=self._health,
        )
        self._tasks.append(task)
        task.start()
        return task

    # Waiting

    def _check_usable(self) -> None:
        super()._check_usable()
        if not self._is_open:
            begin = f"async with AsyncReaderClient(…, {self._stream!r}) as reader:"
            raise Rejected(f"the reader of stream {self._stream!r} is not open: use {begin}")

    async def _next_page(
        self, cursor: Pages[Found], domain: str | None, wait: float | None
    ) -> Sequence[Found]:
        while True:
            self._health.check()
            found = cursor.page()
            if found or self._closed or wait == 0:
                return found
            if not await self._further(cursor, domain, wait):
                return []

    async def _further(self, cursor: Pages[object], domain: str | None, wait: float | None) -> bool:
        try:
            return await self._wait(self._waits.further(cursor, domain), wait)
        except Rejected:
            if self._closed:
                return False
            raise

    async def _wait(self, wait: Wait[Found], seconds: float | None) -> Found:
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        wakeup = AsyncWakeup()
        self._news.listen(wakeup.wake)
        try:
            while (found := wait.look()) is None:
                left = None if deadline is None else deadline - loop.time()
                if seconds is not None and left is not None and left <= 0:
                    return wait.give_up(seconds)
                await wakeup.wait(left)
        finally:
            self._news.forget(wakeup.wake)
        return found
