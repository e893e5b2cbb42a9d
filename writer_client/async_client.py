"""The client that notes the time of a writer, from an asyncio task."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time as clocks
from collections.abc import Mapping
from typing import Self

import httpx

from noted_time.client.transport import AsyncTransport
from noted_time.values import NotedTimeError, Rejected
from writer_client.at_exit import OpenClient, open_clients
from writer_client.sending.answers import NotesReply
from writer_client.sending.exchange import Exchange
from writer_client.sending.posting import Flushed
from writer_client.sending.vouched import EMPTY_POSITION
from writer_client.sending.writer import LAST_WAIT_S, Writer


class AsyncWriterClient(Writer[httpx.AsyncBaseTransport]):
    """The asyncio version of `WriterClient`: `flush`, `finish` and `close` are awaited.

    Create it inside a coroutine:

        async with AsyncWriterClient("flights", "UA", controller=url) as client:
            client.join()
            await client.flush()
            client.note_time(time, {0: 120})

    Close the client before its event loop ends, or unsent notes are only reported by a warning.
    """

    def _open(
        self,
        url: str,
        network: httpx.AsyncBaseTransport | None,
        *,
        timeout_s: float,
        token: str | None,
    ) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise Rejected(
                "create an AsyncWriterClient inside a coroutine: no event loop is running"
            ) from None
        self._transport = AsyncTransport(url, token=token, timeout_s=timeout_s, transport=network)
        self._exchange = Exchange(self._transport.controllers, self.stream)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._start()
        open_clients[self] = OpenClient(self._report_unsent)

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify)

    async def flush(self, timeout: float = 10.0) -> Flushed:  # noqa: ASYNC109 - as `WriterClient`
        """Wait until everything noted so far is durable; see `WriterClient.flush`."""
        self.check()
        return await self._flush(timeout)

    async def finish(
        self,
        position: Mapping[int, int] = EMPTY_POSITION,
        *,
        timeout: float = 10.0,  # noqa: ASYNC109 - as `WriterClient`
    ) -> Flushed:
        """Report that the writer is finished, and flush."""
        with self._lock_for_note():
            self._outbox.change_state("finished", position)
        return await self._flush(timeout)

    async def close(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - as `WriterClient`
        """Flush, and close the client, in at most `timeout` seconds."""
        if self._closed or self._pid != os.getpid():
            return
        deadline = clocks.monotonic() + timeout
        try:
            await self._flush(timeout)
        finally:
            await self._end(deadline)

    def _report_unsent(self, _timeout_s: float) -> None:
        """Log the notes that were not sent: the loop cannot be awaited any more."""
        if self._pid == os.getpid():
            self._closed = True
            self._posting.report_unsent()
            self._notices.emit()

    async def _end(self, deadline: float) -> None:
        if self._closed:  # another task closed it during the flush
            return
        self._closed = True
        open_clients.pop(self, None)
        self._notify()
        if self._task is not None:
            left_s = max(LAST_WAIT_S, deadline - clocks.monotonic())
            await asyncio.wait({self._task}, timeout=left_s)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._posting.report_unsent()
        self._notices.emit()
        await self._transport.close()

    async def _flush(self, timeout_s: float) -> Flushed:
        self._start()
        deadline = clocks.monotonic() + timeout_s
        with self._lock:
            ticket = self._outbox.last_ticket
            self._posting.hurry()
        self._notify()
        try:
            while not self._is_settled(ticket) and clocks.monotonic() < deadline:
                await self._wait(deadline - clocks.monotonic())
            with self._lock:
                return self._posting.get_outcome(ticket, timeout_s)
        finally:
            self._notices.emit()

    def _is_settled(self, ticket: int) -> bool:
        with self._lock:
            return self._closed or self._posting.is_settled(ticket)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self, timeout_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

    def _start(self) -> None:
        if self._task is None or self._task.done():
            name = f"noted-time writer {self.writer}"
            self._task = self._loop.create_task(self._run(), name=name)

    async def _run(self) -> None:
        try:
            while not self._closed:
                await self._send()
        except Exception as fault:  # noqa: BLE001 - raised by every later call
            with self._lock:
                self._posting.record_fault(fault)
        self._notices.emit()
        self._notify()

    async def _send(self) -> None:
        with self._lock:
            wait_s = self._posting.wait_s(clocks.monotonic())
            batch = self._outbox.take() if wait_s == 0 else ()
        self._notices.emit()
        if not batch:
            await self._wait(wait_s)
            return
        outcome: NotesReply | Exception
        try:
            outcome = await self._transport.run(self._exchange.post(batch))
            if self._outbox.beginning:
                outcome = await asyncio.to_thread(self._posting.look_up_ends, outcome)
        except asyncio.CancelledError:
            with self._lock:
                self._outbox.put_back(batch)
            raise
        except Exception as error:  # noqa: BLE001 - the task survives any error of a transport
            outcome = error
        with self._lock:
            self._posting.settle(batch, outcome, clocks.monotonic())
        self._notify()
        self._notices.emit()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: object, __: object) -> None:
        if error is None:
            await self.close()
            return
        with contextlib.suppress(NotedTimeError):  # the error of the block matters more
            await self.close()
