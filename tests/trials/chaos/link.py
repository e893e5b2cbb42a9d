"""A network link on loopback that fails on demand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

Mode = Literal["whole", "cut", "swallowing", "stalled", "mute"]
CHUNK = 65536


class Link:
    """A TCP proxy from `port` to `target` that can cut, stall or drop, by its mode.

    - `whole`: as it should.
    - `cut`: every connection is ended, and each new one at once.
    - `swallowing`: connections stay open and nothing comes through, not even their end; those that
      were used meanwhile are ended when the link turns whole (half-open).
    - `stalled`: the same, but data that was sent meanwhile comes through later.
    - `mute`: requests come through; with the first byte of an answer the connection ends.

    Without a target everything is refused, as by a machine without a listener.
    """

    def __init__(self, target: int | None = None) -> None:
        self.target = target
        self.port = 0
        self.mode: Mode = "whole"
        self.round_trips = 0
        self._answering = False
        self._turned = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End everything."""
        self._server.close()
        self.turn("cut")
        while self._connections:
            await asyncio.wait(self._connections)
        await self._server.wait_closed()

    def turn(self, mode: Mode) -> None:
        """Fail in another way, or not any more."""
        self.mode = mode
        turned_event = self._turned
        self._turned = asyncio.Event()
        turned_event.set()
        if mode == "cut":
            for writer in self._open:
                writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._keep(writer):
            if not await self._passes(answer=False) or self.target is None:
                return
            with suppress(OSError):
                target_streams = await asyncio.open_connection("127.0.0.1", self.target)
                async with self._keep(target_streams[1]):
                    await self._both_ways((reader, writer), target_streams)

    async def _both_ways(
        self,
        client_streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        target_streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Pass data on both ways until one of them ends."""
        ways = [
            asyncio.create_task(self._pass_on(client_streams[0], target_streams[1], answer=False)),
            asyncio.create_task(self._pass_on(target_streams[0], client_streams[1], answer=True)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answer: bool
    ) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                if not await self._passes(answer=answer):
                    return
                self.round_trips += answer and not self._answering
                self._answering = answer
                sink.write(data)
                await sink.drain()
            await self._passes(answer=False)

    async def _passes(self, *, answer: bool) -> bool:
        """Return whether a connection may continue, as soon as that is known."""
        while self.mode in ("stalled", "swallowing"):
            is_swallowed = self.mode == "swallowing"
            await self._turned.wait()
            if is_swallowed:
                return False
        if answer and self.mode == "mute":
            return False
        return self.mode != "cut"

    @asynccontextmanager
    async def _keep(self, connection: asyncio.StreamWriter) -> AsyncIterator[None]:
        """Have a turn to `cut` end a connection meanwhile, and end it."""
        self._open.add(connection)
        try:
            yield
        finally:
            self._open.discard(connection)
            connection.close()
            with suppress(OSError):
                await connection.wait_closed()
