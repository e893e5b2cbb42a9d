"""Two controllers of one process on one PostgreSQL database, and which of them owns a stream."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from controller.aggregation.owned_streams import bucket_of
from controller.service.controller import Controller
from controller.store.postgres import PostgresStore
from tests.support.controllers import GivenTime, running, serve_for, until
from tests.support.postgres import Server

BUCKETS = 64


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


def name_of(controller: Controller, *, other_than: str = "") -> str:
    """Return the name of a stream, made or not yet, that is this controller's."""
    names = (f"stream-{number}" for number in range(10 * BUCKETS))
    return next(name for name in names if name != other_than and controller.owns(name))


def fills(buckets: int = BUCKETS) -> list[str]:
    """Return names of streams, one for each bucket, in the order of the buckets."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < buckets:
        found.setdefault(bucket_of(f"stream-{number}", buckets), f"stream-{number}")
        number += 1
    return [found[bucket] for bucket in range(buckets)]


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
