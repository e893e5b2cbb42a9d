"""Complete windows, and their late rows."""

import pytest

from controller.aggregation import stream
from controller.service.controller import Controller
from controller.store.records import LateRecord
from noted_time.reading import Tiling
from noted_time.values import HOUR_MS, Late, LateRows, Note
from tests.support.controllers import GivenTime, Watched, deliver, run_controller, serve_stream

WALL = 1_700_000_000_000


async def windows(
    controller: Controller, size_ms: int = 10, domain: str | None = None
) -> list[Late]:
    _, found = await controller.polls.windows(
        "s", domain, Tiling(size_ms), after=0, limit=100, wait_ms=0
    )
    return [window.late for window in found]


async def test_late_reports_of_hostile_writer_merge(
    store: Watched, time: GivenTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports of other writers do not merge."""
    monkeypatch.setattr(stream, "MOST_REPORTS", 40)
    async with serve_stream(store, time, max_time_ahead_ms=None) as controller:
        await deliver(controller, Note("a", 10**9, late=LateRows(3, 12, 12)))
        for number in range(20):
            late = [LateRows(1, at := (number * 20 + n) * HOUR_MS, at) for n in range(20)]
            await deliver(controller, Note("evil", 10**9, late=late))
        reports = list(controller.stream("s").late["default"])
        before = await windows(controller)
        stored = len(store.load(LateRecord, controller.stream("s").id))
    async with run_controller(store.reopen(), time) as controller:
        after = await windows(controller)

    assert (len(reports), stored) == (len({each.place for each in reports}), len(reports))
    assert len(reports) <= 40
    assert sum(each.rows for each in reports if each.writer == "evil") == 400
    assert [(each.rows, each.least) for each in reports if each.writer == "a"] == [(3, 12)]
    assert after == before
