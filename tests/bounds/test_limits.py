"""Limits on a controller's load: excess requests are refused, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from controller.aggregation.groups import GroupLimits
from controller.aggregation.stream import PartedMark
from controller.api.wire.bodies import EXPLAINED_BYTES
from controller.service.controller import Controller
from controller.service.limits import Limits
from noted_time.values import SEGMENTS_PER_POSITION, Accepted, Note, Refused
from tests.support.controllers import WatchedMemory, deliver, serve_stream, wait_until_async
from tests.support.gates import Door, Guarded, serve_gate
from tests.support.http import Caller, places, problem, serve_app

JOINED = Accepted(None, timeout_ms=60_000)

S = "/v1/streams/s"

MARKS = f"{S}/marks"


@asynccontextmanager
async def serve(limits: Limits, store: WatchedMemory | None = None) -> AsyncIterator[Caller]:
    """Serve an app with these limits and the stream `s`."""
    async with serve_app(Controller(store or WatchedMemory(), limits=limits)) as caller:
        await caller.controller.put_stream("s", {"mark_interval_ms": 0})
        yield caller


async def test_stream_beyond_the_limit_is_refused() -> None:
    """The error has the limit, and existing streams can be changed."""
    async with serve(Limits(streams=2)) as call:
        put_answer = await call.put("/v1/streams/t")
        refusal = await call.put("/v1/streams/u")
        change_answer = await call.put("/v1/streams/t", {"writer_timeout_ms": 7})

        says = "the limit of 2 streams is reached: remove one, or raise --max-streams"
        assert problem(refusal) == (422, "limit_reached", says)
        assert (put_answer.status_code, change_answer.status_code, refusal.json()["limit"]) == (
            201,
            200,
            2,
        )


async def test_writer_beyond_the_limit_is_refused() -> None:
    """The notes of members count, in the same request."""
    async with serve(Limits(writers=2)) as call:
        notes = (Note("a"), Note("b", 4), Note("c", 5), Note("a", 6), Note("b", 7))
        answers = await deliver(call.controller, *notes)

        refused = Refused("too_many_writers", 2)
        assert answers == [JOINED, Accepted(None), refused, Accepted(4), Accepted(6)]


async def test_a_position_of_too_many_segments_is_refused(call: Caller) -> None:
    """The error has the place in the request."""
    wide = {str(segment): 1 for segment in range(SEGMENTS_PER_POSITION + 1)}
    refusal = await call.post(f"{S}/notes", {"notes": [{"writer": "a", "position": wide}]})

    status, code, says = problem(refusal)
    assert (status, code, places(refusal)) == (422, "invalid_request", ["body.notes.0.position"])
    assert str(SEGMENTS_PER_POSITION) in says


@pytest.mark.parametrize(
    ("limits", "what"),
    [(Limits(waiting_requests=3), "3 requests"), (Limits(waiting_notes=4), "4 notes")],
)
async def test_over_the_intake_writers_are_asked_to_retry(limits: Limits, what: str) -> None:
    """While a commit takes long, excess requests are refused at once; accepted ones are kept."""
    store = WatchedMemory()
    async with serve(limits, store) as call:
        body = {"notes": [{"writer": "a"}, {"writer": "b"}]}
        async with store.watch.hold(call.post(f"{S}/notes", body)) as first:
            tasks = [asyncio.create_task(call.post(f"{S}/notes", body)) for _ in range(5)]
            await wait_until_async(lambda: any(task.done() for task in tasks))
        answers = await asyncio.gather(first, *tasks)

    refusals = [answer for answer in answers if answer.status_code == 503]
    assert len(refusals) == (2 if limits.waiting_requests == 3 else 3)
    for answer in answers:
        if answer in refusals:
            assert problem(answer)[1:] == ("overloaded", f"{what} wait already; try again")
            assert answer.headers["retry-after"] == "1"
        else:
            assert answer.status_code == 200


async def test_request_larger_than_the_bound_is_served_alone() -> None:
    """Otherwise a large request would never be accepted."""
    async with serve(Limits(waiting_notes=1)) as call:
        answers = await deliver(call.controller, Note("a"), Note("b"))

        assert answers == [JOINED, JOINED]


async def test_notes_of_held_requests_count_as_waiting() -> None:
    """A stream whose mark takes many commits takes no notes meanwhile."""
    async with serve(Limits(waiting_notes=1)) as call:
        stream = call.controller.stream("s")
        committer = call.controller._committer
        stream._parted = PartedMark("default")
        held_request = asyncio.create_task(deliver(call.controller, Note("a")))
        await wait_until_async(lambda: bool(committer._held))
        refusal = await call.post(f"{S}/notes", {"notes": [{"writer": "b"}]})
        stream._parted = None
        committer.wake()

        assert problem(refusal) == (503, "overloaded", "1 notes wait already; try again")
        assert await held_request == [JOINED]


async def test_long_poll_beyond_the_limit_is_refused() -> None:
    """A caller that does not wait is answered."""
    async with serve(Limits(long_polls=1)) as call:
        waits = asyncio.create_task(call.get(MARKS, wait_ms=20_000))
        await wait_until_async(lambda: len(call.controller._notifier) == 1)
        refusal = await call.get(MARKS, wait_ms=20_000)
        at_once = await call.get(MARKS)
        await call.note({"writer": "a", "time": 5})
        poll_answer = await waits

        assert problem(refusal) == (503, "overloaded", "1 long polls wait already; try again")
        assert refusal.headers["retry-after"] == "1"
        assert (at_once.json()["marks"], len(poll_answer.json()["marks"])) == ([], 1)


async def test_ended_long_poll_frees_its_place() -> None:
    """Whether it was woken or its time was over."""
    async with serve(Limits(long_polls=1)) as call:
        for _ in range(3):
            poll = await call.get(MARKS, wait_ms=10)
            assert poll.status_code == 200


# An operator gets through where everything is taken


POLLS = 8

POLL = f"{MARKS}?wait_ms=20000"

LIMITS = Limits(long_polls=POLLS, readers=GroupLimits(groups=POLLS))

OVERLOADED = (503, "overloaded")


@asynccontextmanager
async def hold_polls(door: Door, token: str | None, count: int) -> AsyncIterator[None]:
    """Keep that many long polls of a token waiting."""
    waiting = len(door.controller.polls)
    tasks = [asyncio.create_task(door.call("GET", POLL, token)) for _ in range(count)]
    await wait_for_polls(door, waiting + count)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await wait_for_polls(door, waiting)


async def wait_for_polls(door: Door, count: int) -> None:
    await wait_until_async(lambda: len(door.controller.polls) == count)


async def test_admin_gets_a_long_poll_beyond_the_limit() -> None:
    """A token for reading does not, nor does a caller where tokens are off."""
    guarded_gate = Guarded()
    reading = guarded_gate.token("read")
    admin = guarded_gate.token("admin")
    async with (
        serve_gate(guarded_gate.gate, limits=LIMITS) as door,
        hold_polls(door, reading, POLLS),
    ):
        assert await door.call("GET", POLL, reading) == OVERLOADED
        async with hold_polls(door, admin, 1):
            pass
    async with serve_gate(Guarded().gate, limits=LIMITS) as door, hold_polls(door, None, POLLS):
        assert await door.call("GET", POLL) == OVERLOADED


async def test_admin_creates_a_reader_group_beyond_the_limit() -> None:
    """Other readers can still report to existing groups."""
    guarded_gate = Guarded()
    reading = guarded_gate.token("read")
    admin = guarded_gate.token("admin")
    async with serve_gate(guarded_gate.gate, limits=LIMITS) as door:

        async def report(token: str, group: str) -> tuple[int, str]:
            path = f"{S}/reader-groups/{group}/readers/r"
            return await door.call("PUT", path, token, {"position": {}})

        answers = [await report(reading, f"g{number}") for number in range(POLLS + 1)]
        answers += [await report(reading, "g0"), await report(admin, "theirs")]

    ok = (200, "")
    assert answers == [ok] * POLLS + [(422, "limit_reached"), ok, ok]


# No single request holds the event loop for long: no unneeded work is done


MANY = 50_000

WRONG: dict[str, str] = {}
TEXTS: dict[str, str] = {}
UNKNOWN: dict[str, int] = {}
for field_number in range(MANY):
    WRONG[str(field_number)] = "x"
    TEXTS[f"d{field_number:05}"] = "x"
    UNKNOWN[f"no{field_number:05}"] = 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", S, {"expected_writers": [f"{number} {'x' * 80}" for number in range(10_000)]}),
        ("PUT", S, {"domains": list(WRONG)}),
        ("PUT", S, UNKNOWN),
        ("POST", f"{S}/notes", {"notes": [{"writer": "a", "position": WRONG}]}),
        ("POST", f"{S}/notes", {"notes": [{"writer": "a", "max_times": TEXTS}]}),
        ("POST", f"{S}/time-window", {"position": WRONG}),
        ("POST", f"{S}/segment-times", {"position": WRONG}),
        ("POST", f"{S}/completeness", {"read": {"position": WRONG}}),
        ("POST", f"{S}/truncate", {"cut": WRONG}),
        ("POST", f"{S}/scale", {"sealed": WRONG}),
        ("POST", f"{S}/scale", {"created": WRONG}),
        ("POST", f"{S}/scale", {"created": {str(each): ["x"] * 4000 for each in range(50)}}),
        ("POST", f"{S}/seal", {"cut": WRONG}),
        ("POST", f"{S}/seal", {"final_times": TEXTS}),
        ("POST", f"{S}/writers/a/suspension", {"for_ms": 1} | UNKNOWN),
        ("PUT", f"{S}/reader-groups/g", {"backlog": UNKNOWN}),
        ("PUT", f"{S}/reader-groups/g/readers/r", {"position": WRONG}),
    ],
)
async def test_validation_stops_at_the_first_error(
    call: Caller, method: str, path: str, body: dict[str, Any]
) -> None:
    """The answer would have up to ten errors if the validator had built more."""
    content = msgspec.json.encode(body)
    answer = await call.client.request(
        method, path, content=content, headers={"Content-Type": "application/json"}
    )

    assert len(content) > EXPLAINED_BYTES
    assert problem(answer)[:2] == (422, "invalid_request")
    assert len(answer.json()["errors"]) == 1


async def test_unchanged_settings_write_nothing() -> None:
    """Neither members nor a change are written; the answer is the stream as usual."""
    memory = WatchedMemory()
    async with serve_stream(memory) as controller:
        await controller.note("s", [Note("a", 5), Note("b", 6)])
        before = len(memory.watch.batches)
        stream, is_new = await controller.put_stream("s", {"writer_timeout_ms": 60_000})

        assert (stream.settings.writer_timeout_ms, is_new) == (60_000, False)
        assert len(memory.watch.batches) == before
