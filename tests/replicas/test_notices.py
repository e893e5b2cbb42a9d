from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.service.bell import Bell
from controller.service.following import Following
from controller.store.notices import (
    MOST_BYTES,
    LeasesChanged,
    Lost,
    Notice,
    Said,
    StreamsChanged,
    StreamsTrimmed,
    listen,
    notice_of,
    tell,
    texts,
)
from controller.store.port import Batch, StoreUnavailable, StreamRecord
from controller.store.postgres import connect_async, postgres_engine
from controller.store.reading import SqlReading
from noted_time import ScaleEvent, StreamSettings
from noted_time.backoff import Backoff
from tests.replicas.conftest import append, make
from tests.support.controllers import until
from tests.support.loops import anyio_backend

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from controller.aggregation.stream import StreamState
    from controller.store.port import Store
    from tests.support.postgres import Server

    MakeStore = Callable[[], Store]

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.anyio

SOON = Backoff(first_s=0.02, cap_s=0.1)
"""When a test's listener connects again."""


@pytest.fixture
def store(make_postgres: MakeStore) -> Iterator[Store]:
    """The store of the controller that aggregates, with a stream `s` of marks 1 to 3."""
    with closing(make_postgres()) as made:
        make(made)
        append(made, 1, 2, 3)
        yield made


def heard(url: str) -> AsyncGenerator[Notice]:
    """Listen to what is said of that database."""
    return listen(lambda: connect_async(url), SOON)


def say(server: Server, url: str, *notices: Said) -> None:
    """Say all that in one transaction, as a commit does."""
    with server.session(url) as session, session.transaction(), session.cursor() as cursor:
        for notice in notices:
            tell(cursor, notice)


async def next_of(notices: AsyncGenerator[Notice], count: int) -> list[Notice]:
    """Return the next notices."""
    async with asyncio.timeout(20):
        return [await anext(notices) for _ in range(count)]


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[tuple[Following, Bell]]:
    """Follow that database, hearing what is said, as a controller does that owns nothing of it."""
    engine = postgres_engine(url)
    with closing(SqlReading(engine)) as reading:
        bell, hears = Bell(), asyncio.Event()
        following = Following(reading, bell)
        hearing = asyncio.create_task(hear(url, following, hears))
        try:
            await hears.wait()
            yield following, bell
        finally:
            hearing.cancel()
            await asyncio.wait([hearing])
            await following.close()


async def hear(url: str, following: Following, hears: asyncio.Event) -> None:
    """Pass on what is heard, and say when that begins."""
    async with aclosing(heard(url)) as notices:
        async for notice in notices:
            hears.set()
            if isinstance(notice, StreamsChanged):
                following.noticed(notice.stream_ids)
            elif isinstance(notice, StreamsTrimmed):
                following.noticed(notice.stream_ids, trimmed=True)
            else:
                following.lost()


async def poll(following: Following, bell: Bell, after: int) -> list[int]:
    """Wait for marks of `s` after a seq, as a long poll does; returns their seqs."""
    async with asyncio.timeout(30):
        while True:
            stream = await following.stream("s")
            found = stream.history(None).after(after, 10_000)
            if found or not await bell.wait(stream.id, 30):
                return [each.seq for each in found]


async def until_it(following: Following, holds: Callable[[StreamState], bool]) -> None:
    """Wait until the stream `s` is shown so."""
    async with asyncio.timeout(20):
        while not holds(await following.stream("s")):  # noqa: ASYNC110 - asks each time
            await asyncio.sleep(0.005)


# What is sent


@given(
    st.sampled_from([StreamsChanged, StreamsTrimmed]),
    st.lists(st.text("0123456789abcdef", min_size=1, max_size=300), max_size=200),
)
def test_every_id_is_sent_in_a_notice_that_the_server_takes(
    kind: type[StreamsChanged | StreamsTrimmed], stream_ids: list[str]
) -> None:
    """However many there are, and in their order."""
    sent = texts(kind(tuple(stream_ids)))
    read = [notice_of(text) for text in sent]

    assert [len(text) for text in sent if len(text) > MOST_BYTES] == []
    assert {type(part) for part in read} <= {kind}
    assert [each for part in read for each in getattr(part, "stream_ids", ("?",))] == stream_ids


# What is heard


async def test_whoever_begins_to_listen_is_told_that_notices_were_missed(
    server: Server, emptied: str
) -> None:
    """Then each notice comes, in the order in which it was said."""
    said = StreamsChanged(("a", "b")), LeasesChanged(), StreamsTrimmed(("c",))
    async with aclosing(heard(emptied)) as notices:
        first = await next_of(notices, 1)
        say(server, emptied, *said)

        assert [*first, *await next_of(notices, 3)] == [Lost(), *said]


async def test_a_thousand_streams_are_heard_of_in_one_commit(server: Server, emptied: str) -> None:
    """They come in several notices, as the server takes only so much in one."""
    stream_ids = tuple(f"{number:032x}" for number in range(1000))
    async with aclosing(heard(emptied)) as notices:
        await next_of(notices, 1)
        say(server, emptied, StreamsChanged(stream_ids))
        found = await next_of(notices, 5)

        assert [each for part in found for each in getattr(part, "stream_ids", ())] == [*stream_ids]


async def test_what_is_undone_is_not_said(server: Server, emptied: str) -> None:
    """A notice goes with the commit of its transaction or not at all."""
    async with aclosing(heard(emptied)) as notices:
        await next_of(notices, 1)
        with server.session(emptied) as session, session.cursor() as cursor:
            cursor.execute("BEGIN")
            tell(cursor, StreamsChanged(("a",)))
            cursor.execute("ROLLBACK")
        say(server, emptied, StreamsChanged(("b",)))

        assert await next_of(notices, 1) == [StreamsChanged(("b",))]


async def test_another_schema_is_not_heard(server: Server, emptied: str) -> None:
    """Several controllers may share a database, each with tables of its own."""
    with server.session(emptied) as session:
        session.execute("CREATE SCHEMA IF NOT EXISTS elsewhere")
    async with aclosing(heard(emptied)) as notices:
        await next_of(notices, 1)
        say(server, f"{emptied}?options=-csearch_path%3Delsewhere", StreamsChanged(("a",)))
        say(server, emptied, StreamsChanged(("b",)))

        assert await next_of(notices, 1) == [StreamsChanged(("b",))]


async def test_a_session_that_is_cut_is_replaced(server: Server, emptied: str) -> None:
    """What was said meanwhile is gone, which is said."""
    async with aclosing(heard(emptied)) as notices:
        await next_of(notices, 1)
        server.cut(emptied)
        again = await next_of(notices, 1)
        say(server, emptied, LeasesChanged())

        assert [*again, *await next_of(notices, 1)] == [Lost(), LeasesChanged()]


async def test_a_server_that_is_away_is_waited_for(server: Server, emptied: str) -> None:
    """As soon as it is back there is a notice that notices were missed."""
    async with aclosing(heard(emptied)) as notices:
        await next_of(notices, 1)
        server.stop()
        waiting = asyncio.create_task(anext(notices))
        try:
            await asyncio.sleep(0.3)
            early = waiting.done()
        finally:
            await asyncio.to_thread(server.start)
        async with asyncio.timeout(20):
            found = await waiting

        assert (early, found) == (False, Lost())


def listeners(server: Server) -> int:
    """Return how many sessions listen."""
    ((count,),) = server.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    return int(count)


async def test_who_stops_in_the_middle_of_what_it_hears_leaves_no_session(
    server: Server, emptied: str
) -> None:
    """The rest of it is nobody's."""
    async with aclosing(heard(emptied)) as notices:
        await next_of(notices, 1)
        say(server, emptied, LeasesChanged(), StreamsChanged(("a",)), StreamsChanged(("b",)))
        await next_of(notices, 1)
        during = listeners(server)
    await until(lambda: listeners(server) == 0)

    assert during == 1


async def test_who_is_cancelled_while_it_waits_leaves_no_session(
    server: Server, emptied: str
) -> None:
    """A controller that stops ends its listener so."""
    notices = heard(emptied)
    await next_of(notices, 1)
    waiting = asyncio.create_task(next_of(notices, 1))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
    await until(lambda: listeners(server) == 0)

    assert waiting.cancelled()


# What a replica does with it


async def test_a_mark_that_another_commits_reaches_who_waits(
    store: Store, server: Server, emptied: str
) -> None:
    """Long before a poll would look by itself."""
    async with replica(emptied) as (following, bell):
        waiting = asyncio.create_task(poll(following, bell, after=3))
        await until(lambda: len(bell) == 1)
        append(store, 4)
        say(server, emptied, StreamsChanged(("id-1",)))

        assert await waiting == [4]


async def test_a_mark_committed_while_nobody_heard_reaches_who_waits(
    store: Store, server: Server, emptied: str
) -> None:
    """When notices are heard again, whoever waits looks."""
    async with replica(emptied) as (following, bell):
        waiting = asyncio.create_task(poll(following, bell, after=3))
        await until(lambda: len(bell) == 1)
        append(store, 4)
        server.cut(emptied)

        assert await waiting == [4]


async def test_what_becomes_of_a_stream_is_shown(
    store: Store, server: Server, emptied: str
) -> None:
    """Its scale events, settings, and that it was made again."""
    async with replica(emptied) as (following, _):
        await following.stream("s")
        store.commit(
            Batch(
                scales=[("id-1", 0, ScaleEvent({0: 20}, {1: (0,)}))],
                streams=[StreamRecord("id-1", "s", StreamSettings(keys=("default", "k")))],
            )
        )
        say(server, emptied, StreamsChanged(("id-1",)))
        await until_it(following, lambda stream: len(stream.histories) == 2)
        scaled = (await following.stream("s")).window({1: 0}, None).lower_seq
        store.commit(Batch(dropped=["id-1"]))
        make(store, stream_id="id-2")
        append(store, 1, stream_id="id-2")
        say(server, emptied, StreamsChanged(("id-1",)))
        await until_it(following, lambda stream: stream.id == "id-2")

        assert (scaled, (await following.stream("s")).history(None).last_seq) == (2, 1)


async def test_marks_that_went_are_not_shown(store: Store, server: Server, emptied: str) -> None:
    """As soon as it is said, though the stream was read a moment before."""
    async with replica(emptied) as (following, _):
        await following.stream("s")
        store.commit(Batch(forgotten=[("id-1", "default", 2)]))
        say(server, emptied, StreamsTrimmed(("id-1",)))
        await until_it(following, lambda stream: stream.history(None).first_seq == 3)

        assert (await following.stream("s")).history(None).last_seq == 3


async def test_while_the_server_is_away_who_asks_is_told_so(
    store: Store, server: Server, emptied: str
) -> None:
    """And when it is back the stream is shown again."""
    async with replica(emptied) as (following, _):
        await following.stream("s")
        store.close()
        server.stop()
        try:
            following.lost()
            with pytest.raises(StoreUnavailable):
                await following.stream("s")
        finally:
            await asyncio.to_thread(server.start)

        assert (await following.stream("s")).history(None).last_seq == 3
