"""A real database that lacks the last commits, as a standby that was promoted without them."""

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import CapturingLogger

from controller.service import ownership
from controller.service.controller import Controller
from controller.store.migrate import migrate
from controller.store.port import StoreUnavailable
from noted_time import Note
from tests.replicas.pair import replica
from tests.support.postgres import Server
from tests.support.scrapes import scraped

pytestmark = pytest.mark.acceptance


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


async def noted(controller: Controller, time: int) -> None:
    """Note a time until it is durable."""
    async with asyncio.timeout(60):
        while True:
            try:
                await controller.note("s", [Note("a", time, {0: time})])
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                return


async def test_a_controller_reports_marks_that_its_database_has_lost(
    server: Server, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its log, a metric and the changes of the stream, with the seq that it held."""
    logger = CapturingLogger()
    monkeypatch.setattr(ownership, "log", logger)
    async with replica(own) as controller:
        await controller.put_stream("s", {"mark_interval_ms": 0})
        await noted(controller, 1)
        copy = await asyncio.to_thread(copied, server, own)
        for time in (2, 3, 4):
            await noted(controller, time)
        await asyncio.to_thread(put_in_place, server, copy, own)
        await noted(controller, 5)
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
