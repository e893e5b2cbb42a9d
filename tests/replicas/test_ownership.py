"""Two controllers of one process on PostgreSQL; `tests/trials/simulation` has the rest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from unittest.mock import Mock

import pytest
from sqlalchemy import event
from structlog.testing import CapturedCall, CapturingLogger

from controller.aggregation import operations
from controller.aggregation.draft import Moment
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.aggregation.owned_streams import NotOwner, OwnedStreams
from controller.service import lease_keeper, ownership
from controller.service.controller import Controller
from controller.service.ownership import HURRY_MS, TURN_MS, Ownership
from controller.store.port import LEASE_MS, Leases
from controller.store.postgres import PostgresStore
from noted_time.values import Note, ScaleEvent
from tests.replicas.one_replica import BUCKETS, is_never_due, name_stream
from tests.support.controllers import GivenTime, run_controller, wait_until_async
from tests.support.scrapes import scrape
from tools.trials.postgres import Server

NAMES = [name_stream(bucket) for bucket in range(BUCKETS)]
"""The names of streams, one for each bucket."""

LIST_QUERIES = 4
"""The number of queries for a list: names, streams, marks, scale events."""


def replica(url: str, called: str = "http://a") -> AbstractAsyncContextManager[Controller]:
    return run_controller(PostgresStore(url), called=called)


@asynccontextmanager
async def run_two(url: str) -> AsyncIterator[tuple[Controller, Controller]]:
    """Serve the database by `http://a` and `http://b`, which share it evenly."""
    async with replica(url) as a, replica(url, "http://b") as b:
        await wait_until_shared(a, b)
        yield a, b


async def wait_until_shared(*controllers: Controller) -> None:
    """Wait until exactly these controllers share all buckets evenly."""
    fair = -(-BUCKETS // len(controllers))

    def are_even() -> bool:
        counts = []
        for controller in controllers:
            leases = controller.ownership.leases
            if len(leases.mine) + len(leases.others) != BUCKETS:
                return False
            counts.append(len(controller._committer.streams.clocks))
        return sum(counts) == BUCKETS and max(counts) <= fair

    await wait_until_async(are_even)


async def test_last_controller_of_database_knows_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second controller acquires all buckets. The log has each acquisition and release."""
    monkeypatch.setattr(ownership, "log", logger := CapturingLogger())
    async with replica(url) as a:
        a.prepare_to_stop()
        await wait_until_async(lambda: a.ownership.is_last)
        async with replica(url, "http://b") as b:
            await wait_until_async(lambda: not a.ownership.is_last)
            await wait_until_async(lambda: len(b._committer.streams.clocks) == BUCKETS)
            await wait_until_async(lambda: a.ownership.owner_url("s") == "http://b")
    acquired_call = CapturedCall("info", ("buckets_acquired",), {"count": BUCKETS, "streams": 0})
    released_call = CapturedCall("info", ("buckets_released",), {"count": BUCKETS, "left": 0})
    assert logger.calls == [acquired_call, released_call] * 2


async def test_controller_shows_no_bucket_after_its_leases(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows this by its clock, because the database may not answer."""
    monkeypatch.setattr(lease_keeper, "RENEW_EVERY_S", 60.0)
    time = GivenTime()
    async with run_controller(PostgresStore(url), time, "http://a") as a:
        before = scrape(a, "noted_time_buckets")["this",]
        time.passes(LEASE_MS)

        after = scrape(a, "noted_time_buckets")
        ready = scrape(a, "noted_time_ready")
    assert (before, after["this",], after["nobody",], ready[()]) == (BUCKETS, 0, BUCKETS, 0)


async def test_nothing_is_read_after_the_session_is_lost(
    url: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewal finds out before a turn does. The next turn acquires the buckets again."""
    monkeypatch.setattr(ownership, "LEASE_MS", 60_000)
    async with replica(url) as a:
        await a.put_stream("s", {})
        due = a.ownership.is_due
        monkeypatch.setattr(a.ownership, "is_due", is_never_due)
        had = a.stream("s").record.name
        server.cut(url)
        await wait_until_async(lambda: not a.ownership.is_sure)
        with pytest.raises(NotOwner):
            a.stream("s")
        monkeypatch.setattr(a.ownership, "is_due", due)
        await wait_until_async(lambda: a.ownership.is_sure and a.owns("s"))

        assert (had, a.stream("s").record.name) == ("s", "s")


# The list of streams of all controllers
async def test_controllers_list_same_streams(url: str) -> None:
    """The list has settings, last marks and scale events, ordered by name."""
    async with run_two(url) as (a, b):
        for number, name in enumerate(NAMES):
            owner = a if a.owns(name) else b
            domains = ("default", "ship_time")[: 1 + number % 2]
            await owner.put_stream(name, {"mark_interval_ms": number % 2, "domains": domains})
            await owner.note(name, [Note("w", 1, {0: 10}), Note("w", 2, {0: 20})])
            if number % 3 == 0:
                await owner.change(
                    name, operations.scale, ANONYMOUS_ORDER, ScaleEvent({0: 30}, {1: (0,)})
                )
        names = [*reversed(NAMES), "nothing"]
        summaries_of_a = await a.summaries(names)
        summaries_of_b = await b.summaries(names)

    assert [summary.record.name for summary in summaries_of_a] == sorted(NAMES)
    assert summaries_of_a == summaries_of_b


async def test_list_of_streams_takes_few_queries(url: str) -> None:
    """Each query is a round trip."""
    statements: list[str] = []
    async with replica(url) as a:
        for name in NAMES:
            await a.put_stream(name, {})
        async with replica(url, "http://b") as b:
            await wait_until_shared(a, b)
            engine = a._store.reading._reading  # type: ignore[attr-defined]
            event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
            summaries = await a.summaries(await a.names())

            assert (len(summaries), len(statements)) == (BUCKETS, LIST_QUERIES), statements


async def test_next_turn_is_soon_while_bucket_is_free() -> None:
    """It is also soon after an owner failed; otherwise it is a second later."""
    free = Leases(2, frozenset(), {}, 1)
    taken_leases = Leases(2, frozenset(), {0: "http://b", 1: "http://b"}, 1)
    store = Mock(local=False)
    store.heartbeat.side_effect = (free, taken_leases)
    store.acquire.return_value = frozenset()
    owner = Ownership(store, GivenTime(steady=0).clocks(), Mock(), asyncio.to_thread)
    owner._keeper.stop()

    def wait_ms() -> int:
        return next(ms for ms in range(TURN_MS + 1) if owner.is_due(Moment(0, 0, ms)))

    waits = []
    for _ in range(2):
        await owner.turn(OwnedStreams())
        waits.append(wait_ms())
    owner.refresh_soon()

    assert [*waits, wait_ms()] == [HURRY_MS, TURN_MS, HURRY_MS]
