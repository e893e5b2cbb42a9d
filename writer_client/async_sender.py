"""The task that posts what an outbox holds, as long as it takes."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from noted_time.values import Rejected

if TYPE_CHECKING:
    import threading
    from collections.abc import Awaitable, Callable

    from writer_client.answers import Answer
    from writer_client.outcome import Flushed
    from writer_client.posting import Posting
    from writer_client.waiting import Batch


class AsyncSender:
    """Posts in the background of an event loop; every access to what is posted holds the lock.

    The lock is held for microseconds, and lets other threads note; nothing awaits under it.
    """

    def __init__(
        self, posting: Posting, post: Callable[[Batch], Awaitable[Answer]], lock: threading.RLock
    ) -> None:
        """Begin at rest; `start` starts the task. Raises `Rejected` where no loop runs."""
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise Rejected("make an AsyncWriterClient inside a coroutine: no loop runs") from None
        self._lock = lock
        self._posting = posting
        self._post = post
        self._stopping = False
        self._waiting: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task, unless it runs."""
        if self._task is None or self._task.done():
            name = f"noted-time writer {self._posting.outbox.writer}"
            self._task = self._loop.create_task(self._run(), name=name)

    def wake(self) -> None:
        """Tell of something new in the outbox, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify)

    async def flush(self, timeout_s: float) -> Flushed:
        """Wait until all that is in the outbox now is durable, and return what became of it.

        Raises what was refused, `Unreachable` when time is up, `ClientFailed` when the task died.
        """
        self.start()
        deadline = time.monotonic() + timeout_s
        with self._lock:
            ticket = self._posting.outbox.calls
            self._posting.hurry()
        self._notify()
        try:
            while not self._is_settled(ticket) and time.monotonic() < deadline:
                await self._wait(deadline - time.monotonic())
            with self._lock:
                return self._posting.outcome(ticket, timeout_s)
        finally:
            self._posting.notices.tell()

    async def stop(self, timeout_s: float) -> None:
        """Stop the task, waiting for a post on its way at most that long."""
        self._stopping = True
        self._notify()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_s)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _is_settled(self, ticket: int) -> bool:
        with self._lock:
            return self._stopping or self._posting.is_settled(ticket)

    def _notify(self) -> None:
        for event in self._waiting:
            event.set()

    async def _wait(self, timeout_s: float | None) -> None:
        """Wait for a change, at most that long."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(event)

    # The task

    async def _run(self) -> None:
        try:
            await self._send_all()
        except Exception as fault:  # noqa: BLE001 - every later call raises it
            with self._lock:
                self._posting.died(fault)
        self._posting.notices.tell()
        self._notify()

    async def _send_all(self) -> None:
        while not self._stopping:
            with self._lock:
                wait_s = self._posting.wait_s(time.monotonic())
                batch = self._posting.outbox.take() if wait_s == 0 else ()
            self._posting.notices.tell()
            if batch:
                await self._send(batch)
            else:
                await self._wait(wait_s)

    async def _send(self, batch: Batch) -> None:
        outcome: Answer | Exception
        try:
            outcome = await self._post(batch)
            if self._posting.outbox.beginning:
                outcome = await asyncio.to_thread(self._posting.looked_up, outcome)
        except asyncio.CancelledError:
            with self._lock:
                self._posting.outbox.put_back(batch)
            raise
        except Exception as error:  # noqa: BLE001 - the sender outlives whatever a transport does
            outcome = error
        with self._lock:
            self._posting.settle(batch, outcome, time.monotonic())
        self._notify()
        self._posting.notices.tell()
