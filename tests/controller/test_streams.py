"""Creation, changes and removal of streams, and pages of their writers."""

import asyncio

import pytest
from msgspec import structs

from controller.aggregation.draft import Draft, Moment
from controller.aggregation.stream import StreamState
from controller.aggregation.views.inspection import writers
from controller.service.controller import Controller
from controller.store.port import StoreUnavailable
from controller.store.records import ChangeSet, StoredMember, StreamRecord
from noted_time.values import Accepted, LateRows, Note, StreamSettings
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    deliver,
    list_marks,
    run_controller,
    serve_for,
    serve_stream,
)
from tests.support.counting import count_cost
from tests.support.http import Caller, serve_app


async def test_changed_settings_write_only_affected_writers(memory: Watched) -> None:
    """Writing all of 50,000 would take seconds."""
    written_writers = []
    async with serve_stream(memory) as controller:
        await deliver(controller, Note("late", 5, {0: 1}), Note("prompt", 9, {0: 2}))
        await deliver(controller, Note("late", state="idle"), Note("prompt", 10))
        await deliver(controller, Note("late", 6))
        for changes in ({"mark_retention_ms": 60_000}, {"returning_writer": "exclude"}):
            await controller.put_stream("s", changes)
            members = memory.watch.batches[-1].list_puts(StoredMember)
            written_writers.append([stored_member.member.writer for stored_member in members])

    assert written_writers == [[], ["late"]]


async def test_stream_is_recreated_within_one_commit(store: Watched) -> None:
    async with serve_stream(store) as controller:
        old_id = controller.stream("s").id
        before, _, _, after = await asyncio.gather(
            deliver(controller, Note("a", 9)),
            controller.drop_stream("s"),
            controller.put_stream("s", {"mark_interval_ms": 0}),
            deliver(controller, Note("a", 3)),
        )
    async with run_controller(store.reopen()) as controller:
        lowers = [mark.lower for mark in list_marks(controller)]

        assert (before, after, lowers) == ([Accepted(9)], [Accepted(3)], [3])
        assert controller.stream("s").id != old_id


FEW = 100
MANY = 10_000

DOMAINS = ("default", "other")

NOW = Moment(0, 0, 0)


def crowd(members: int, *, domains: tuple[str, ...] = DOMAINS, holds: bool = True) -> StreamState:
    stream = StreamState(StreamRecord("id", "s", StreamSettings(domains=domains)))
    draft = Draft(Moment(0, 0, 0))
    joining_notes = [Note(f"{number:05}") for number in range(members)]
    idle_notes = [] if holds else [Note(note.writer, state="idle") for note in joining_notes]
    stream.take_notes([*joining_notes, *idle_notes], draft, members)
    return stream


def page(stream: StreamState, start: int, limit: int) -> list[str]:
    return [row.writer for row in writers(stream, NOW, range(start, start + limit)).writers]


def cost(members: int, *, holds: bool) -> int:
    """Return the bytecodes of the last page of ten writers."""
    stream = crowd(members, holds=holds)
    with count_cost() as counting:
        assert len(page(stream, members - 10, 10)) == 10
    return counting.bytecodes


@pytest.mark.parametrize("holds", [True, False], ids=["holders", "idle"])
def test_page_of_writers_costs_same_with_many_writers(holds: bool) -> None:  # noqa: FBT001
    assert cost(MANY, holds=holds) == cost(FEW, holds=holds)


def test_unix_time_of_moment_ignores_rounding() -> None:
    """So a client sees that it is one exclusion."""
    stream = StreamState(StreamRecord("id", "s", StreamSettings()))
    readings = [Moment(1000, 5000, 0), Moment(1010, 5011, 0), Moment(1020, 5019, 0)]
    after_downtime = Moment(1030, 605_000, 0)

    shifts = [stream.unix_shift(now) for now in (*readings, after_downtime)]

    assert shifts == [4000, 4000, 4000, 603_970]


async def test_reports_of_before_are_not_known(memory: WatchedMemory, time: GivenTime) -> None:
    """A database of before dates them by the wall clock. The next note begins the service clock."""
    async with serve_stream(memory, time) as controller:
        await deliver(controller, Note("a", 40), Note("a", late_rows=LateRows(1, 12, 12)))
    (record,) = memory.reopen().streams()
    memory.commit(ChangeSet(structs.replace(record, report_clock=None)))
    looks = []
    async with serve_app(Controller(memory, time.clocks())) as call:
        serve_for(call.controller, time, 5000)
        looks.append(await look(call, time.wall))
        await call.note({"writer": "a", "time": 41})
        looks += [await look(call, time.wall - ago_ms) for ago_ms in (5000, 1, 0)]

    looked_at = time.wall - 3000
    assert looks == [
        *[(False, None, 1), (False, looked_at, 1)],
        *[(False, looked_at, 0), (True, looked_at, 0)],
    ]


async def look(call: Caller, since_at: int) -> tuple[bool, int | None, int]:
    """Return whether the changes are known, the time of the look, and the number of windows."""
    answer = await call.get("/v1/streams/s/windows", size_ms=10, changed_since=since_at)
    page = answer.json()
    return page["changes_are_known"], page["looked_at"], len(page["windows"])


async def test_controller_starts_without_settings_of_its_database(
    memory: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the warning of a risk is missing."""

    def away() -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(memory, "risk", away)
    async with serve_stream(memory) as controller:
        assert controller.owns("s")
