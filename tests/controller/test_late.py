"""Complete windows, and their late rows."""

import pytest

from controller.aggregation import operations, retention, stream
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.service.controller import Controller
from controller.store.records import LateRecord
from noted_time.reading import Tiling
from noted_time.values import DAY_MS, HOUR_MS, Late, LateRows, LateWriter, Note
from tests.support.controllers import (
    GivenTime,
    Watched,
    deliver,
    run_controller,
    serve_stream,
    skip_served_time,
)
from tests.support.http import Caller, serve_app

WALL = 1_700_000_000_000
WINDOWS = "/v1/streams/s/windows"


async def windows(
    controller: Controller, size_ms: int = 10, domain: str | None = None
) -> list[Late]:
    _, found = await controller.polls.windows(
        "s", domain, Tiling(size_ms), after=0, limit=100, wait_ms=0
    )
    return [window.late for window in found]


def cut(controller: Controller, complete_to: int, since: int | None = None) -> Late:
    mark = controller.stream("s").history(None).complete_to(complete_to)
    return controller.stream("s").coverage(None).assess_mark(mark, since, complete_to).late


def rows(found: Late) -> list[tuple[str, int, bool]]:
    return [(each.writer, each.rows, each.at_most) for each in found.writers]


async def test_live_writer_with_late_rows_is_named(store: Watched, time: GivenTime) -> None:
    """Windows and cuts name it at once, also after a restart."""
    async with serve_stream(store, time) as controller:
        await deliver(controller, Note("pos", 10), Note("pos", 40))
        time.wall += 5
        await deliver(controller, Note("pos", 41, late=LateRows(112, 12, 18)))
        before = await windows(controller), [cut(controller, 40, since) for since in (None, 19)]
        was = controller.stream("s").record
    async with run_controller(store.reopen(), time) as controller:
        after = await windows(controller), [cut(controller, 40, since) for since in (None, 19)]

    named = Late((LateWriter("pos", 112, 12, 18, WALL + 5),), 1, is_known=True)
    nobody = Late(is_known=True)
    assert before == ([nobody, named, nobody, nobody], [named, nobody])
    assert (after, was.first_lowers) == (before, {"default": 10})


async def test_reports_of_hour_merge_and_are_listed_once(store: Watched, time: GivenTime) -> None:
    async with serve_stream(store, time, max_time_ahead_ms=None) as controller:
        await deliver(controller, Note("pos", HOUR_MS))
        for second in range(20):
            late = LateRows(2, second, second)
            await deliver(controller, Note("pos", HOUR_MS + 1 + second, late=late))
            time.wall += 1000
        reports = list(controller.stream("s").late["default"])
        entries = await controller.views.ledger("s", None, after=0, limit=99, newest_first=False)

    assert [(each.rows, each.least, each.most) for each in reports] == [(40, 0, 19)]
    assert [(each.first_seen, each.last_seen) for each in reports] == [(WALL, WALL + 19_000)]
    assert entries == []


async def test_repeated_request_is_counted_once(store: Watched, time: GivenTime) -> None:
    """All notes of the first delivery count."""
    at = 2 * HOUR_MS
    request = (
        Note("pos", at, sequence=7, late=LateRows(3, 12, 12)),
        Note("pos", at, sequence=7, late=(LateRows(1, 12, 12), LateRows(5, HOUR_MS, HOUR_MS))),
    )
    async with serve_stream(store, time) as controller:
        await deliver(controller, Note("pos", HOUR_MS, sequence=6))
        await deliver(controller, *request)
        await deliver(controller, *request)
        once = await windows(controller, HOUR_MS)
    async with run_controller(store.reopen(), time) as controller:
        await deliver(controller, *request)
        again = await windows(controller, HOUR_MS)
        record = controller.stream("s").aggregator.record("pos")
        await deliver(controller, Note("pos", at, sequence=8, late=LateRows(1, 12, 12)))
        more = await windows(controller, HOUR_MS)

    assert ([rows(each) for each in once], again) == (
        [[("pos", 4, False)], [("pos", 5, False)]],
        once,
    )
    assert record.late == {"default": LateRows(9, 12, HOUR_MS)}
    assert rows(more[0]) == [("pos", 5, False)]


@pytest.mark.parametrize(
    ("notes", "is_named"),
    [
        ([Note("b", 50)], False),
        ([Note("b", 50, {0: 0})], True),
        ([Note("b", 39)], True),
        ([Note("b", 50, since=12)], True),
        ([Note("b", 50), Note("b", 50, late=LateRows(3, 12, 12))], True),
    ],
    ids=["above the lower", "with a position", "below the lower", "since a time", "with rows"],
)
async def test_removed_writer_is_named_only_if_it_can_have_late_rows(
    store: Watched, time: GivenTime, notes: list[Note], *, is_named: bool
) -> None:
    """A restart does not change this. Before its removal, the writer always counts."""
    async with serve_stream(store, time, max_time_ahead_ms=None) as controller:
        await deliver(controller, Note("a", 40), *notes)
        before = cut(controller, 40)
        await controller.change("s", operations.remove, ANONYMOUS_ORDER, "b")
        after = cut(controller, 40)
    async with run_controller(store.reopen(), time) as controller:
        restarted = cut(controller, 40)

    assert (before.count, after.count) == (1, int(is_named))
    assert restarted == after


async def test_late_rows_are_forgotten_with_ledger(store: Watched, time: GivenTime) -> None:
    """Windows then show that not all late rows are known."""
    async with serve_stream(store, time) as controller:
        await deliver(controller, Note("a", 40), Note("a", 40, late=LateRows(3, 12, 12)))
        skip_served_time(controller, retention.RECORDS_KEPT_MS)
        await controller._committer.submit(retention.forget_old_records)
        kept = await windows(controller)
        skip_served_time(controller, 1)
        await controller._committer.submit(retention.forget_old_records)
        now = await windows(controller)
    async with run_controller(store.reopen(), time) as controller:
        after = await windows(controller)

    assert [rows(each) for each in kept] == [[], [("a", 3, False)], [], []]
    assert [(each.count, each.is_known) for each in now] == [
        (0, False),
        (0, False),
        (0, True),
        (0, True),
    ]
    assert after == now


async def test_changes_are_known_while_reports_are_kept(store: Watched, time: GivenTime) -> None:
    """The wall clock may be right, set back, or ahead; set back, later reports look older."""
    late = {"rows": 3, "least": 12, "most": 12}

    async def ask(call: Caller) -> list[bool]:
        asked = [await call.get(WINDOWS, changed_since=at) for at in (WALL, WALL + 1)]
        return [each.json()["changes_are_known"] for each in asked]

    found = []
    async with serve_app(Controller(store, time.clocks())) as call:
        await call.put("/v1/streams/s", {"mark_interval_ms": 0})
        await call.note({"writer": "a", "time": 40}, {"writer": "a", "late": late})
        skip_served_time(call.controller, retention.RECORDS_KEPT_MS + 1)
        await call.controller._committer.submit(retention.forget_old_records)
        for step in (0, -400 * DAY_MS, 800 * DAY_MS):
            time.wall += step
            found.append(await ask(call))
    async with serve_app(Controller(store.reopen(), time.clocks())) as call:
        found.append(await ask(call))

    assert found == [[False, True], [False, False], [False, True], [False, True]]


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
