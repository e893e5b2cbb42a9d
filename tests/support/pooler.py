"""A pooler of PostgreSQL sessions, such as pgbouncer, in session or in transaction mode.

In session mode, a client keeps one session of the server. In transaction mode, each transaction
gets the session that has been free for longest: the pooler takes a session back once the server
says that no transaction is open.

A pooler that `knows_statements` prepares a client's statement in whichever session it gives it, as
pgbouncer 1.21 can. Without, as in pgbouncer 1.18, another session does not know the statement.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import psycopg

from controller.store.postgres import connect
from tools.trials.waiting import PATIENCE_S

TLS_CODE = 80877103
GSS_CODE = 80877104
VERSION_3 = 196608
SHOWN_PARAMETERS = (
    "server_version",
    "server_encoding",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
)
NO_TRANSACTION = b"I"


class Message(NamedTuple):
    """A message of the protocol: its type and its body."""

    kind: bytes
    body: bytes

    def encode(self) -> bytes:
        return self.kind + (len(self.body) + 4).to_bytes(4) + self.body


@dataclass
class Peer:
    """A connection to a client or to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    session: psycopg.Connection[Any] | None = None

    async def read(self) -> Message:
        """Raise `IncompleteReadError` at the end of the connection."""
        kind = await self.reader.readexactly(1)
        size = int.from_bytes(await self.reader.readexactly(4))
        return Message(kind, await self.reader.readexactly(size - 4))

    def start_reading(self) -> asyncio.Task[Message]:
        reading = asyncio.create_task(self.read())
        reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return reading

    def send(self, message: Message) -> None:
        self.writer.write(message.encode())

    def close(self) -> None:
        self.writer.close()
        if self.session is not None:
            self.session.close()


@dataclass
class Client:
    """A connected client.

    `statements` has the rest of the message that prepared each. `expected` says of each `Parse`
    that was sent whether it is the pooler's own, and has `None` for each end of a series.
    """

    peer: Peer
    reading: asyncio.Task[Message]
    statements: dict[bytes, bytes] = field(default_factory=dict)
    expected: deque[bool | None] = field(default_factory=deque)

    def send_on(self, message: Message, server: Peer, *, knows_statements: bool) -> None:
        for part in self._translate(message) if knows_statements else (message,):
            is_own = part is not message and part.kind == b"P" and message.kind != b"P"
            if part.kind == b"P":
                self.expected.append(is_own)
            elif part.kind in b"SQ":
                self.expected.append(None)
            server.send(part)

    def take_answer(self, message: Message) -> None:
        """Pass an answer on, unless it is to a message of the pooler."""
        is_own = False
        if message.kind == b"1":
            is_own = bool(self.expected.popleft())
        elif message.kind == b"Z":
            while self.expected.popleft() is not None:
                pass
        if not is_own:
            self.peer.send(message)

    @property
    def is_waiting(self) -> bool:
        return bool(self.expected)

    def _translate(self, message: Message) -> tuple[Message, ...]:
        """Use the statement without a name, which is prepared before each use."""
        kind, body = message
        if kind == b"P":
            name, _, rest = body.partition(b"\0")
            self.statements[name] = rest
            return (Message(b"P", b"\0" + rest),)
        if kind == b"B":
            portal, name, rest = body.split(b"\0", 2)
            if name:
                return self._prepare(name), Message(b"B", portal + b"\0\0" + rest)
        if kind in b"DC" and body[:1] == b"S" and body != b"S\0":
            sync_message = Message(kind, b"S\0")
            return (sync_message,) if kind == b"C" else (self._prepare(body[1:-1]), sync_message)
        return (message,)

    def _prepare(self, name: bytes) -> Message:
        return Message(b"P", b"\0" + self.statements[name])


class Pooler:
    """A pooler in front of the database at `url`. Clients connect to its `url`, without TLS."""

    def __init__(self, url: str, mode: str, *, knows_statements: bool = True) -> None:
        self.mode = mode
        self._database_url = url
        self._knows_statements = knows_statements
        self._free: deque[Peer] = deque()
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pooler")

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(lambda: asyncio.start_server(self._accept, "127.0.0.1", 0))
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    @property
    def url(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        before, _, rest = self._database_url.rpartition(":")
        return f"{before}:{port}/{rest.partition('/')[2]}"

    def _run(self, act: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - as the action's
        async def run() -> Any:  # noqa: ANN401 - as the action's
            return await act()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    async def _close(self) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for server in self._free:
            server.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(Peer(reader, writer)))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, peer: Peer) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError, psycopg.Error):
                if await self._greet(peer):
                    await self._pass_on(Client(peer, peer.start_reading()))
        finally:
            peer.close()

    async def _greet(self, peer: Peer) -> bool:
        """Admit every client, and return whether it has a use for the session."""
        while True:
            size = int.from_bytes(await peer.reader.readexactly(4))
            code = int.from_bytes((await peer.reader.readexactly(size - 4))[:4])
            if code not in {TLS_CODE, GSS_CODE}:
                break
            peer.writer.write(b"N")
        if code != VERSION_3:  # it cancels a query
            return False
        server = await self._take()
        assert server.session is not None
        peer.send(Message(b"R", bytes(4)))
        for name in SHOWN_PARAMETERS:
            value = server.session.pgconn.parameter_status(name.encode()) or b""
            peer.send(Message(b"S", name.encode() + b"\0" + value + b"\0"))
        self._free.append(server)
        peer.send(Message(b"K", bytes(8)))
        peer.send(Message(b"Z", NO_TRANSACTION))
        return True

    async def _pass_on(self, client: Client) -> None:
        """Lend the client a session for each transaction."""
        while True:
            await asyncio.wait([client.reading])
            if client.reading.result().kind == b"X":
                return
            server = await self._take()
            try:
                await self._lend(server, client)
            except BaseException:
                server.close()
                raise
            self._free.append(server)

    async def _lend(self, server: Peer, client: Client) -> None:
        """Pass messages on until the session is free, or raise once a connection ends."""
        answering = server.start_reading()
        try:
            while True:
                await asyncio.wait([client.reading, answering], return_when=asyncio.FIRST_COMPLETED)
                if answering.done():
                    answer = answering.result()
                    client.take_answer(answer)
                    is_over = answer == (b"Z", NO_TRANSACTION) and not client.is_waiting
                    if is_over and self.mode == "transaction":
                        return
                    answering = server.start_reading()
                if client.reading.done():
                    message = client.reading.result()
                    client.send_on(message, server, knows_statements=self._knows_statements)
                    client.reading = client.peer.start_reading()
        finally:
            answering.cancel()

    async def _take(self) -> Peer:
        """Return the session that has been free for longest, or a new one."""
        while self._free:
            server = self._free.popleft()
            if not server.reader.at_eof():
                return server
            server.close()
        session = await asyncio.to_thread(connect, self._database_url)
        raw = socket.socket(fileno=os.dup(session.fileno()))
        raw.settimeout(0)
        reader, writer = await asyncio.open_connection(sock=raw)
        return Peer(reader, writer, session)
