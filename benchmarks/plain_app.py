"""A controller without group commit: each request is one upsert in a transaction of its own.

It decodes the note, writes the row of its writer, and answers; it neither remembers nor
judges nor aggregates. Requests share a few sessions, each in turn with one statement under way.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import uvicorn

from benchmarks.bare_app import CONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

SESSIONS = 16
"""The best of 1, 2, 4, 8, 16 and 30 at 64 connections."""

STREAM_ID = "SELECT id FROM stream WHERE name = %s"
UPSERT = """
INSERT INTO member
(stream_id, writer, state, excluded, position, times, max_times, noted_at, since, sequence, terms,
late)
VALUES (%s, %s, 'live', NULL, %s, %s, %s, 0, 0, 0, NULL, NULL)
ON CONFLICT (stream_id, writer) DO UPDATE SET
state = excluded.state, excluded = excluded.excluded, position = excluded.position,
times = excluded.times, max_times = excluded.max_times, noted_at = excluded.noted_at,
since = excluded.since, sequence = excluded.sequence, terms = excluded.terms,
late = excluded.late
"""
ACCEPTED = b'{"status":"accepted","lower":null}'
JSON = (b"content-type", b"application/json")


class Note(msgspec.Struct):
    """What the load posts."""

    writer: str
    time: int
    position: dict[int, int]
    max_time: int


class Request(msgspec.Struct):
    """The body."""

    notes: list[Note]


_decode = msgspec.json.Decoder(Request).decode
_encode = msgspec.json.encode


class Plain:
    """The ASGI app."""

    def __init__(self, database: str) -> None:
        """Begin without a session; the app's life begins with them."""
        self._database = database
        self._stream_ids: dict[str, str] = {}
        self._idle: asyncio.LifoQueue[psycopg.AsyncConnection[Any]] = asyncio.LifoQueue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the app's life."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body = (await receive())["body"]  # a single note comes in one piece
        notes = _decode(body).notes
        for note in notes:
            await self._write(scope["path"].split("/")[3], note)
        answer = b'{"refused":0,"results":[%b]}' % b",".join([ACCEPTED] * len(notes))
        headers = [JSON, (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        for _ in range(SESSIONS):
            session = await psycopg.AsyncConnection.connect(self._database, autocommit=True)
            self._idle.put_nowait(session)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _write(self, stream: str, note: Note) -> None:
        async with self._session() as session:
            row = (
                await self._stream_id(session, stream),
                note.writer,
                _encode(note.position).decode(),
                _encode({"default": note.time}).decode(),
                _encode({"default": note.max_time}).decode(),
            )
            await session.execute(UPSERT, row)

    async def _stream_id(self, session: psycopg.AsyncConnection[Any], stream: str) -> str:
        if stream not in self._stream_ids:
            found = await (await session.execute(STREAM_ID, (stream,))).fetchone()
            self._stream_ids[stream] = found[0] if found else ""
        return self._stream_ids[stream]

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        session = await self._idle.get()
        try:
            yield session
        finally:
            self._idle.put_nowait(session)


def main(port: int, database: str) -> None:
    """Serve on the loopback as the bare app is served."""
    uvicorn.run(Plain(database), port=port, lifespan="on", **CONFIG)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
