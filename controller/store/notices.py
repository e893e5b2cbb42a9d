"""How a commit in PostgreSQL tells other processes that there is something new to read.

A notice says what to look at, never what is there: who hears it reads the database. It is sent when
its transaction commits, and not at all when that is undone. A listener that was away has missed
some, so it is told `Lost` first, whenever it begins to listen.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.sql import SQL, Identifier

from noted_time.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator

    from psycopg import AsyncConnection
    from psycopg.abc import Query

    Connect = Callable[[], Awaitable[AsyncConnection[Any]]]

MOST_BYTES = 7999
"""How long the text of one notice may be; the server refuses 8000 bytes."""

AGAIN = Backoff(first_s=0.05, cap_s=2.0)
"""When to connect again after the connection was lost."""

# One channel for each schema, as each may hold the tables of a controller.
_CHANNEL = "'noted_time_' || hashtext(current_schema())"

_NOTIFY = f"SELECT pg_notify({_CHANNEL}, %s)"

_STREAMS, _TRIMMED, _LEASES = "streams", "trimmed", "leases"


@dataclass(frozen=True, slots=True)
class StreamsChanged:
    """The streams of these ids have new marks, or other news."""

    stream_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamsTrimmed:
    """The streams of these ids have lost their oldest marks: their histories begin later."""

    stream_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeasesChanged:
    """Other controllers may have the buckets now."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Notices may have been missed: anything may have changed."""


Said = StreamsChanged | StreamsTrimmed | LeasesChanged
"""What one controller says to the others."""

Notice = Said | Lost
"""What one hears: that it was away it knows by itself."""


def tell(cursor: Any, notice: Said) -> None:  # noqa: ANN401 - psycopg's
    """Send the notice when the transaction of the cursor commits."""
    for text in texts(notice):
        cursor.execute(_NOTIFY, (text,))


def texts(notice: Said) -> list[str]:
    """Return what is sent of a notice, in as many pieces as it takes.

    >>> texts(StreamsChanged(("a1", "b2"))), texts(StreamsTrimmed(("a1",))), texts(LeasesChanged())
    (['streams a1 b2'], ['trimmed a1'], ['leases'])
    >>> [len(text) for text in texts(StreamsChanged(("a" * 32,) * 300))]
    [7993, 1921]
    """
    if isinstance(notice, LeasesChanged):
        return [_LEASES]
    kind = _STREAMS if isinstance(notice, StreamsChanged) else _TRIMMED
    return [" ".join((kind, *ids)) for ids in _packed(kind, notice.stream_ids)]


def notice_of(text: str) -> Notice:
    """Return the notice that a text is; what another version may say could mean anything.

    >>> notice_of("streams a1 b2"), notice_of("trimmed a1")
    (StreamsChanged(stream_ids=('a1', 'b2')), StreamsTrimmed(stream_ids=('a1',)))
    >>> notice_of("leases"), notice_of("tea is ready")
    (LeasesChanged(), Lost())
    """
    kind, *stream_ids = text.split(" ")
    if kind == _STREAMS:
        return StreamsChanged(tuple(stream_ids))
    if kind == _TRIMMED:
        return StreamsTrimmed(tuple(stream_ids))
    return LeasesChanged() if text == _LEASES else Lost()


async def listen(
    connect: Connect, again: Backoff = AGAIN, chance: Callable[[], float] = random.random
) -> AsyncGenerator[Notice]:
    """Yield every notice, for as long as it is asked, and `Lost` whenever it begins to hear.

    `connect` returns a session in autocommit mode, which is lost without harm: another is made. Who
    stops before it ends by being cancelled has to close it (`contextlib.aclosing`).
    """
    failures = 0
    while True:
        try:
            async with await connect() as session:
                await session.execute(await _listening(session))
                failures = 0
                yield Lost()
                async with aclosing(session.notifies()) as heard:
                    async for notify in heard:
                        yield notice_of(notify.payload)
        except (psycopg.Error, OSError):
            failures += 1
            await asyncio.sleep(again.delay_s(failures, chance=chance()))


async def _listening(session: AsyncConnection[Any]) -> Query:
    found = await (await session.execute(f"SELECT {_CHANNEL}")).fetchone()
    assert found is not None  # noqa: S101 - a row always comes
    return SQL("LISTEN {}").format(Identifier(found[0]))


def _packed(kind: str, stream_ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield the ids in runs that fit into one notice of that kind each."""
    packed: list[str] = []
    room = MOST_BYTES - len(kind)
    for stream_id in stream_ids:
        size = 1 + len(stream_id.encode())
        if size > room:
            yield packed
            packed, room = [], MOST_BYTES - len(kind)
        packed.append(stream_id)
        room -= size
    if packed:
        yield packed
