"""A writer's side of noted time on an event loop: what it says is that of `WriterClient`."""

from __future__ import annotations

import contextlib
import os
import time as clocks
from typing import TYPE_CHECKING, Self

import httpx

from noted_time.client.transport import AsyncTransport
from noted_time.values import NotedTimeError
from writer_client.async_sender import AsyncSender
from writer_client.at_exit import open_clients
from writer_client.exchange import Exchange
from writer_client.writer import NOWHERE, Writer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from writer_client.answers import Answer
    from writer_client.outcome import Flushed
    from writer_client.waiting import Batch

LAST_WAIT_S = 0.05
"""So long a task that has nothing on its way may take to end."""


class AsyncWriterClient(Writer[httpx.AsyncBaseTransport]):
    """Notes the time of one writer of one stream, by a task of the event loop it is made in.

    All is as with `WriterClient`, except that `flush`, `finish` and `close` are awaited::

        async with AsyncWriterClient(url, "flights", "UA") as client:
            client.join()
            await client.flush()
            client.note_time(time, {0: 120})

    A loop that ends takes the task with it, so close the client before: at the end of the process,
    what was not sent is only named in a warning. `note_time` and the like may be called from any
    thread, as from `asyncio.to_thread`, which suits appending to files.
    """

    def _begin(
        self,
        url: str,
        transport: httpx.AsyncBaseTransport | None,
        *,
        timeout_s: float,
        token: str | None,
    ) -> None:
        self._transport = AsyncTransport(url, token=token, timeout_s=timeout_s, transport=transport)
        self._exchange = Exchange(self._transport.controllers, self.stream)
        self._sender = AsyncSender(self._posting, self._post, self._lock)
        self._sender.start()
        open_clients.add(self)

    async def _post(self, batch: Batch) -> Answer:
        return await self._transport.run(self._exchange.post(batch))

    def _wake(self) -> None:
        self._sender.wake()

    async def flush(self, timeout: float = 10.0) -> Flushed:  # noqa: ASYNC109 - as `WriterClient`
        """Wait until all noted so far is durable, at most `timeout` seconds.

        Returns and raises what `WriterClient.flush` does.
        """
        self.check()
        return await self._sender.flush(timeout)

    async def finish(
        self,
        position: Mapping[int, int] = NOWHERE,
        *,
        timeout: float = 10.0,  # noqa: ASYNC109 - as `WriterClient`
    ) -> Flushed:
        """Say that the writer is done for good and its position is final, and flush."""
        with self._noting():
            self._outbox.finished(position)
        return await self._sender.flush(timeout)

    async def close(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - as `WriterClient`
        """Flush for at most `timeout` seconds in all, and give everything back.

        The writer stays a member, as with `WriterClient.close`.
        """
        if self._closed or self._pid != os.getpid():
            return
        deadline = clocks.monotonic() + timeout
        try:
            await self._sender.flush(timeout)
        finally:
            await self._end(deadline)

    def end_soon(self) -> None:
        """Do nothing: the loop has ended before the process does."""

    def end(self, timeout_s: float) -> None:  # noqa: ARG002 - nothing can be waited for
        """Say what was not sent; the loop has ended."""
        if self._pid == os.getpid():
            self._closed = True
            self._posting.closed()
            self._notices.tell()

    async def _end(self, deadline: float) -> None:
        if self._closed:  # by another task, amid the flush
            return
        self._closed = True
        open_clients.discard(self)
        await self._sender.stop(max(LAST_WAIT_S, deadline - clocks.monotonic()))
        self._posting.closed()
        self._notices.tell()
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        with contextlib.suppress(NotedTimeError):  # the block's own error matters more
            await self.close()
