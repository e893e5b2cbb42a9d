"""Which of two controllers owns a stream, and what becomes of what it knows."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
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
from noted_time import Accepted, Note, ScaleEvent
from tests.replicas.pair import BUCKETS, end_session, fills, name_of, replica, serve, shared, two
from tests.support.controllers import GivenTime, names, serve_for, until
from tests.support.postgres import Server
from tests.support.scrapes import scraped
from tests.support.stored import kept

EVERY_ADVANCE = {"mark_interval_ms": 0}

TIMEOUT_MS = 5000


async def noted(controller: Controller, name: str, *notes: Note) -> list[Any]:
    """Hand the notes to a stream in one request."""
    return list(await controller.note(name, notes))


def lowers(controller: Controller, name: str) -> list[tuple[int, int]]:
    """Return seq and lower of the marks that the owner of a stream shows."""
    stream = controller.stream(name)
    return [(mark.seq, mark.lower) for mark in stream.history(None).after(0, 10_000)]


def in_memory(controller: Controller, name: str) -> dict[str, Any]:
    """Return what the owner of a stream remembers of its members."""
    state = controller.stream(name)
    writers = state.aggregator.writers()
    return {writer: state.aggregator.record(writer) for writer in writers}


def in_store(controller: Controller, name: str) -> dict[str, Any]:
    """Return what is committed of the members of a stream."""
    found = kept(controller._store, controller.stream(name).id)
    return {member.writer: member for member in found.members}


def times_out_in_ms(controller: Controller, name: str) -> int:
    """Return in how many ms of the service clock the first holder is left out."""
    decision = inspection.explain(controller.stream(name), None, controller.now)
    return decision.waiting_for[0].times_out_in_ms


# Shares
async def test_every_stream_is_with_one_of_two(url: str) -> None:
    """Whichever replica created them: each has half of the buckets, and both list all streams."""
    names = fills()
    async with replica(url) as a:
        for name in names:
            await a.put_stream(name, {})
        async with replica(url, "http://b") as b:
            await shared(a, b)

            here, there = (
                [stream.record.name for stream in each._committer.streams] for each in (a, b)
            )
            assert (len(here), len(there), sorted(here + there)) == (32, 32, sorted(names))
            assert await a.names() == await b.names() == sorted(names)


async def test_one_that_stops_hands_its_streams_back(url: str) -> None:
    """The other continues with everything acknowledged, well before any lease is over."""
    async with replica(url) as a:
        async with replica(url, "http://b") as b:
            await shared(a, b)
            name = name_of(b)
            await b.put_stream(name, EVERY_ADVANCE)
            await noted(b, name, Note("w", 5, {0: 3}))
        await until(lambda: a.owns(name))
        after = await noted(a, name, Note("w", 4), Note("w", 7))

        refused, accepted = after
        assert (refused.status, accepted, lowers(a, name)) == (
            "invalid_time",
            Accepted(7),
            [(1, 5), (2, 7)],
        )


@pytest.mark.parametrize("mark_interval_ms", [0, 200])
async def test_a_bucket_goes_with_nothing_under_way(url: str, mark_interval_ms: int) -> None:
    """The next owner starts from everything that was acknowledged while buckets moved.

    No caller is refused meanwhile, except with a redirect to the other.
    """
    names = fills()[::2]
    acknowledged = dict.fromkeys(names, 0)
    moved: set[str] = set()

    async def write(replicas: list[Controller], name: str) -> None:
        while not (len(moved) > 8 and acknowledged[name] > 50):
            number = acknowledged[name] + 1
            for controller in replicas:
                try:
                    result = await noted(controller, name, Note("w", number, {0: number}))
                except NotOwner:
                    moved.add(name)
                    await asyncio.sleep(0.01)
                else:
                    assert isinstance(result[0], Accepted)
                    acknowledged[name] = number
                    break

    async with replica(url) as a:
        for name in names:
            await a.put_stream(name, {"mark_interval_ms": mark_interval_ms})
        replicas = [a]
        writing = [asyncio.create_task(write(replicas, name)) for name in names]
        await until(lambda: min(acknowledged.values()) > 5)
        async with replica(url, "http://b") as b:
            replicas.append(b)
            await asyncio.gather(*writing)
            await shared(a, b)

            found = {}
            for name in names:
                owner = a if a.owns(name) else b
                assert in_memory(owner, name) == in_store(owner, name)
                found[name] = in_memory(owner, name)["w"].times["default"]
                assert mark_interval_ms or lowers(owner, name) == [
                    (seq, seq) for seq in range(1, found[name] + 1)
                ]
            assert (found, len(moved) > 8) == (acknowledged, True)


async def test_a_stream_that_is_not_here_takes_no_change(url: str) -> None:
    """A replica that is not the owner does nothing, whatever it is asked; the owner does it."""
    async with two(url) as (a, b):
        name = name_of(b)
        changes: list[Callable[[Controller], Awaitable[Any]]] = [
            lambda each: each.put_stream(name, EVERY_ADVANCE),
            lambda each: noted(each, name, Note("w", 5, {0: 3})),
            lambda each: each.report(name, "g", "r", {0: 3}),
            lambda each: each.offline(name, "g", "r", {0: 1}),
            lambda each: each.change(
                name, operations.scale, ANONYMOUS, ScaleEvent({0: 9}, {1: (0,)})
            ),
            lambda each: each.change(name, operations.truncate, ANONYMOUS, {0: 3}),
            lambda each: each.drop_stream(name),
        ]
        for change in changes:
            with pytest.raises(NotOwner):
                await change(a)
            await change(b)

        assert await b.names() == []


# Reading what another aggregates
async def test_a_poll_is_sent_on_when_its_stream_goes(url: str) -> None:
    """A caller that waits at the old owner is redirected to the next at once."""
    names = fills()
    async with replica(url) as a:
        for name in names:
            await a.put_stream(name, EVERY_ADVANCE)
        polls = {
            name: asyncio.create_task(a.polls.marks(name, None, after=0, wait_ms=30_000))
            for name in names
        }
        await until(lambda: len(a._notifier) == BUCKETS)
        async with replica(url, "http://b") as b:
            await shared(a, b)
            theirs = [polls[name] for name in names if b.owns(name)]
            for name in names:
                await noted(a if a.owns(name) else b, name, Note("w", 5))

            async with asyncio.timeout(20):
                found = await asyncio.gather(*polls.values(), return_exceptions=True)
        kinds = {type(poll.exception()) for poll in theirs}
        lowers_here = [
            next(each.history.following(0)).lower
            for each in found
            if not isinstance(each, BaseException)
        ]
        assert (kinds, lowers_here) == ({NotOwner}, [5] * (BUCKETS // 2))


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


async def test_a_writer_that_was_heard_at_the_last_owner_is_not_silent(url: str) -> None:
    """What it reported there counts, though the next owner has never heard it."""
    here, there = GivenTime(), GivenTime()
    async with replica(url, time=here) as a:
        await a.put_stream("s", {**EVERY_ADVANCE, "writer_timeout_ms": TIMEOUT_MS})
        await noted(a, "s", Note("slow"), Note("w", 5))
        await serve(a, here, 4000)
        await noted(a, "s", Note("slow"))
    async with replica(url, "http://b", there) as b:
        serve_for(b, there, 4000)
        await asyncio.sleep(5 * maintenance.TICK_S)

        assert (lowers(b, "s"), times_out_in_ms(b, "s")) == ([], 1000)


# What fails
async def test_after_a_failed_commit_memory_is_what_the_database_has(
    url: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the session lives, its buckets stay; nothing of the batch does, in memory or below."""
    monkeypatch.setattr(leases, "PATIENCE_MS", 100)
    async with replica(url) as a:
        await a.put_stream("s", EVERY_ADVANCE)
        await noted(a, "s", Note("w", 5, {0: 3}))
        with server.session(url) as other, other.transaction():
            other.execute("LOCK TABLE mark IN SHARE MODE")
            with pytest.raises(StoreUnavailable):
                await noted(a, "s", Note("w", 9, {0: 7}), Note("late"))
        await until(lambda: a._committer.ready)

        found = in_memory(a, "s"), lowers(a, "s"), len(a._committer.streams.clocks)
        assert found == (in_store(a, "s"), [(1, 5)], BUCKETS)
        assert await noted(a, "s", Note("w", 6)) == [Accepted(6)]


async def test_one_that_lost_its_session_starts_again_with_its_share(
    url: str, server: Server
) -> None:
    """What it was sent while it did not know is refused; everything acknowledged is kept."""
    async with two(url) as (a, b):
        name = name_of(a)
        await a.put_stream(name, EVERY_ADVANCE)
        await noted(a, name, Note("w", 5))
        end_session(server, url, "http://a")
        with pytest.raises((StoreUnavailable, NotOwner)):
            await noted(a, name, Note("w", 9))
        await shared(a, b)
        owner = a if a.owns(name) else b

        assert await noted(owner, name, Note("w", 6)) == [Accepted(6)]
        assert (lowers(owner, name), in_memory(owner, name)) == (
            [(1, 5), (2, 6)],
            in_store(owner, name),
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
