"""Two controllers of one process on one PostgreSQL database: which of them owns a stream.

And what becomes of what it knows.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import event
from structlog.testing import CapturingLogger

from controller.aggregation import operations
from controller.aggregation.operations import ANONYMOUS
from controller.aggregation.owned_streams import NotOwner
from controller.aggregation.shown import inspection
from controller.service import maintenance, ownership
from controller.service.controller import Controller
from controller.store import leases
from controller.store.migrate import migrate
from controller.store.port import StoreUnavailable
from controller.store.postgres import PostgresStore
from noted_time import Accepted, Note, ScaleEvent
from tests.replicas.played import BUCKETS, stream_of
from tests.support.controllers import GivenTime, names, running, serve_for, until
from tests.support.postgres import Server
from tests.support.scrapes import scraped
from tests.support.stored import kept

EVERY_ADVANCE = {"mark_interval_ms": 0}

TIMEOUT_MS = 5000

NAMES = [stream_of(bucket) for bucket in range(BUCKETS)]
"""Of streams, one for each bucket."""

LIST_QUERIES = 4
"""The number of queries for a list: names, streams, marks, scale events."""


def replica(
    url: str, called: str = "http://a", time: GivenTime | None = None
) -> AbstractAsyncContextManager[Controller]:
    """Serve the database meanwhile, by the real clocks if no time is given."""
    return running(PostgresStore(url), time, called)


@asynccontextmanager
async def two(url: str) -> AsyncIterator[tuple[Controller, Controller]]:
    """Serve the database by two that share it evenly, called `http://a` and `http://b`."""
    async with replica(url) as a, replica(url, "http://b") as b:
        await shared(a, b)
        yield a, b


async def shared(*controllers: Controller) -> None:
    """Wait until exactly these have all buckets, evenly."""
    fair = -(-BUCKETS // len(controllers))

    def are_even() -> bool:
        counts = [len(each._committer.streams.clocks) for each in controllers]
        seen = [each.ownership.leases for each in controllers]
        known = all(len(leases.mine) + len(leases.others) == BUCKETS for leases in seen)
        return known and sum(counts) == BUCKETS and max(counts) <= fair

    await until(are_even)


async def serve(controller: Controller, time: GivenTime, ms: int) -> None:
    """Let the controller serve that long, to the end of a turn that keeps its clocks."""
    serve_for(controller, time, ms)
    now = controller._clocks.read()
    due = controller._committer.streams.clocks_at(now)
    await until(lambda: _is_kept(controller, due))


def _is_kept(controller: Controller, due: dict[int, int]) -> bool:
    clocks = controller._store.clocks()
    return all(clocks[bucket] == ms for bucket, ms in due.items())


def end_session(server: Server, url: str, called: str) -> None:
    """End the session of the replica that is called so, as one does that finds it silent."""
    ended = "SELECT pg_terminate_backend(pid, 5000) FROM replica JOIN pg_stat_activity USING (pid)"
    assert server.execute(f"{ended} WHERE url = '{called}'", url)


async def noted(controller: Controller, name: str, *notes: Note) -> list[Any]:
    """Hand the notes to a stream in one request."""
    return list(await controller.note(name, notes))


def lowers(controller: Controller, name: str) -> list[tuple[int, int]]:
    """Return seq and lower of the marks that the owner of a stream shows."""
    stream = controller.stream(name)
    return [(mark.seq, mark.lower) for mark in stream.history(None).after(0, 10_000)]


def times_out_in_ms(controller: Controller, name: str) -> int:
    """Return in how many ms of the service clock the first holder is left out."""
    decision = inspection.explain(controller.stream(name), None, controller.now)
    return decision.waiting_for[0].times_out_in_ms


# Shares
# Reading what another aggregates
async def test_the_last_of_a_database_knows_that_it_is(url: str) -> None:
    """Until another comes, which takes everything."""
    async with replica(url) as a:
        a.prepare_to_stop()
        await until(lambda: a.ownership.is_last)
        async with replica(url, "http://b") as b:
            await until(lambda: not a.ownership.is_last)
            await until(lambda: len(b._committer.streams.clocks) == BUCKETS)
            await until(lambda: a.ownership.owner_url("s") == "http://b")


# The list of streams if others own some of them: complete, and read by a few queries
async def test_both_list_the_same_of_all_streams(url: str) -> None:
    """Settings, last marks, scale events of those that are there, in the order of their names."""
    async with two(url) as (a, b):
        for number, name in enumerate(NAMES):
            owner = a if a.owns(name) else b
            domains = ("default", "ship_time")[: 1 + number % 2]
            await owner.put_stream(name, {"mark_interval_ms": number % 2, "domains": domains})
            await owner.note(name, [Note("w", time, {0: 10 * time}) for time in (1, 2)])
            if number % 3 == 0:
                await owner.change(
                    name, operations.scale, ANONYMOUS, ScaleEvent({0: 30}, {1: (0,)})
                )
        asked = [*reversed(NAMES), "nothing"]
        found = [await each.summaries(asked) for each in (a, b)]

    assert [each.record.name for each in found[0]] == sorted(NAMES)
    assert found[0] == found[1]


async def test_a_list_takes_a_few_queries_however_many_others_have(url: str) -> None:
    """Each is a turn with the server."""
    asked: list[str] = []
    async with replica(url) as a:
        for name in NAMES:
            await a.put_stream(name, {})
        async with replica(url, "http://b") as b:
            await shared(a, b)
            engine = a._store.reading._reading  # type: ignore[attr-defined]
            event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
            found = await a.summaries(await a.names())

            assert (len(found), len(asked)) == (BUCKETS, LIST_QUERIES), asked


# Service clocks
async def test_a_bucket_that_is_given_takes_its_clock_along(url: str) -> None:
    """The one that comes later has served for less, but the streams that it gets have not."""
    here, there = GivenTime(), GivenTime()
    async with replica(url, time=here) as a:
        await serve(a, here, 60_000)
        async with replica(url, "http://b", there) as b:
            a.ownership.refresh_soon()
            serve_for(a, here, 100)
            await until(lambda: len(a._committer.streams.clocks) == BUCKETS // 2)
            b.ownership.refresh_soon()
            serve_for(b, there, 100)
            await until(lambda: len(b._committer.streams.clocks) == BUCKETS // 2)
            await serve(b, there, 1000)

            clocks = a._store.clocks()
            assert {clocks[bucket] for bucket in b._committer.streams.clocks} == {61_100}


async def test_time_without_an_owner_counts_against_no_writer(
    url: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No writer could be heard between the last turn of one owner and the first of the next."""
    monkeypatch.setattr(leases, "LEASE_MS", 60_000)
    here, there = GivenTime(), GivenTime()
    async with replica(url, time=here) as a:
        await serve(a, here, 3000)
        async with replica(url, "http://b", there) as b:
            end_session(server, url, "http://a")  # and as its time stands, it does not notice
            serve_for(b, there, 3_600_000)
            await until(lambda: len(b._committer.streams.clocks) == BUCKETS)
            await serve(b, there, 1000)

            assert set(b._store.clocks().values()) == {4000}


async def test_silence_is_measured_across_owners(url: str) -> None:
    """Three seconds at one and two at the next are a timeout of five; not a moment less."""
    here, there = GivenTime(), GivenTime(steady=1)
    async with replica(url, time=here) as a:
        await a.put_stream("s", {**EVERY_ADVANCE, "writer_timeout_ms": TIMEOUT_MS})
        await noted(a, "s", Note("silent"), Note("w", 5))
        await serve(a, here, 3000)
    there.wall += 7_200_000  # the next owner comes much later
    async with replica(url, "http://b", there) as b:
        serve_for(b, there, 1999)
        await asyncio.sleep(5 * maintenance.TICK_S)
        before = lowers(b, "s"), times_out_in_ms(b, "s")
        serve_for(b, there, 1)
        await until(lambda: bool(b.stream("s").history(None).after(0, 1)))

        (mark,) = b.stream("s").history(None).after(0, 10)
        assert (before, mark.lower, mark.excluded) == (([], 1), 5, ("silent",))


# What fails
async def test_one_that_lost_its_session_starts_again_with_its_share(
    url: str, server: Server
) -> None:
    """What it was sent while it did not know is refused; everything acknowledged is kept."""
    async with two(url) as (a, b):
        name = next(each for each in NAMES if a.owns(each))
        await a.put_stream(name, EVERY_ADVANCE)
        await noted(a, name, Note("w", 5))
        end_session(server, url, "http://a")
        with pytest.raises((StoreUnavailable, NotOwner)):
            await noted(a, name, Note("w", 9))
        await shared(a, b)
        owner = a if a.owns(name) else b

        assert await noted(owner, name, Note("w", 6)) == [Accepted(6)]
        stream = owner.stream(name)
        (member,) = kept(owner._store, stream.id).members
        assert (lowers(owner, name), member) == (
            [(1, 5), (2, 6)],
            stream.aggregator.record("w"),
        )


async def test_an_owner_that_does_not_know_yet_contradicts_no_other(
    url: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows marks that are there, acknowledges nothing, and then knows that another owns it."""
    monkeypatch.setattr(leases, "LEASE_MS", 60_000)
    here = GivenTime()
    async with replica(url, time=here) as a:
        await a.put_stream("s", EVERY_ADVANCE)
        await noted(a, "s", Note("w", 5))
        async with replica(url, "http://b") as b:
            end_session(server, url, "http://a")  # as its time stands, it does not notice
            await until(lambda: b.owns("s"))
            await noted(b, "s", Note("w", 9))
            stale = lowers(a, "s")
            with pytest.raises(StoreUnavailable):
                await noted(a, "s", Note("w", 7))
            await until(lambda: a._committer.ready)

            assert (stale, a.owns("s"), lowers(b, "s")) == ([(1, 5)], False, [(1, 5), (2, 9)])


async def test_a_controller_closes_though_its_session_is_lost(url: str, server: Server) -> None:
    """Then nothing has to be given back, and no replica is waited for."""
    async with asyncio.timeout(20):
        async with replica(url) as a:
            await a.put_stream("s", {})
            end_session(server, url, "http://a")
        async with replica(url, "http://b") as b:
            found = names(b)

    assert found == ["s"]


# A real database that lacks the last commits, as a standby that was promoted without them


@pytest.fixture
def own(server: Server) -> Iterator[str]:
    """A migrated database of one test, which may be renamed."""
    url = server.make_database()
    migrate(url)
    yield url
    server.cut(url)


def copied(server: Server, url: str) -> str:
    """Copy the database while nobody is connected to it; returns the name of the copy."""
    name = url.rpartition("/")[2]
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    server.cut(url)
    server.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}")
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    return f"{name}_copy"


def put_in_place(server: Server, copy: str, url: str) -> None:
    """Have the copy take the database's place."""
    name = url.rpartition("/")[2]
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    server.cut(url)
    server.execute(f"ALTER DATABASE {name} RENAME TO {name}_lost")
    server.execute(f"ALTER DATABASE {copy} RENAME TO {name}")


async def noted_durably(controller: Controller, time: int) -> None:
    """Note a time until it is durable."""
    async with asyncio.timeout(60):
        while True:
            try:
                await controller.note("s", [Note("a", time, {0: time})])
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                return


@pytest.mark.acceptance
async def test_a_controller_reports_marks_that_its_database_has_lost(
    server: Server, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its log, a metric and the changes of the stream, with the seq that it held."""
    logger = CapturingLogger()
    monkeypatch.setattr(ownership, "log", logger)
    async with replica(own) as controller:
        await controller.put_stream("s", {"mark_interval_ms": 0})
        await noted_durably(controller, 1)
        copy = await asyncio.to_thread(copied, server, own)
        for time in (2, 3, 4):
            await noted_durably(controller, time)
        await asyncio.to_thread(put_in_place, server, copy, own)
        await noted_durably(controller, 5)
        change = (await controller.views.changes("s", before=None, limit=1))[0][1]
        lost = scraped(controller, "noted_time_lost_marks_total")

    said = [call for call in logger.calls if call.args == ("went_back",)]
    held, found = {"domain": "default", "seq": 4}, {"domain": "default", "seq": 1}
    facts = {"stream": "s", "domain": "default", "held": 4, "found": 1}
    assert [(each.method_name, each.kwargs) for each in said] == [("error", facts)]
    assert (change.action, change.was, change.became, lost) == (
        "went_back",
        held,
        found,
        {("s",): 3.0},
    )
