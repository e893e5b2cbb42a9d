"""Faults of the database and of the controller; `calls/*.txt` has faults of requests."""

import asyncio
from math import inf
from unittest.mock import Mock

import pytest
from structlog.testing import CapturedCall, CapturingLogger

from controller.service import committer
from controller.store.port import StoreUnavailable
from noted_time.values import MarkConflict
from tests.support.controllers import WatchedMemory, wait_until_async
from tests.support.http import Caller, problem
from tests.support.scrapes import scrape

S = "/v1/streams/s"

NOW = 1_700_000_000_000


async def test_405_names_every_method_of_path(call: Caller) -> None:
    answer = await call.send("PATCH", S, b"")

    assert answer.headers["allow"] == "DELETE, GET, PUT"


async def test_unavailable_database_is_503(call: Caller, memory: WatchedMemory) -> None:
    """The problem has the reason and a delay on both kinds of routes, and so has readiness."""
    full = "the database reports an error: database or disk is full"
    memory.watch.failures = [StoreUnavailable(full)]
    memory.watch.loads = [StoreUnavailable(full)] * 1000
    first = await call.post(f"{S}/notes", {"notes": [{"writer": "a"}]})
    other_answers = [await call.put(S, {}), await call.get("/readyz")]

    problems = [
        (problem(answer), answer.headers["retry-after"]) for answer in (first, *other_answers)
    ]
    assert problems == [((503, "unavailable", full), "1")] * 3


async def test_internal_fault_asks_for_restart(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting callers are answered, liveness fails, and the log has the traceback."""
    logger = CapturingLogger()
    fault = ZeroDivisionError()
    monkeypatch.setattr(committer, "log", logger)
    monkeypatch.setattr(call.controller._committer, "_drain", Mock(side_effect=fault))
    note = await call.post(f"{S}/notes", {"notes": [{"writer": "a"}]})
    ready = await call.get("/readyz")
    alive = await call.get("/healthz")

    assert [problem(answer) for answer in (note, ready, alive)] == [
        (503, "unavailable", "the controller failed; try again"),
        (503, "unavailable", "the controller failed (see its log); restart it"),
        (503, "unavailable", "the controller failed (see its log); restart it"),
    ]
    assert logger.calls == [CapturedCall("critical", ("committer_failed",), {"exc_info": fault})]


async def test_controller_of_closed_database_is_not_ready(
    call: Caller, memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "PROOF_LASTS_S", 0.0)
    memory.close()
    ready = await call.get("/readyz")
    alive = await call.get("/healthz")

    answers = (problem(ready), alive.status_code)
    assert answers == ((503, "unavailable", "the store is closed"), 200)


async def test_probes_share_ping_of_database(
    call: Caller, memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer counts for a while, like a commit."""
    monkeypatch.setattr(memory, "ping", ping := Mock())
    after_a_commit = await call.get("/readyz")
    first_count = ping.call_count
    call.controller._committer._proved_at = -inf
    answers = await asyncio.gather(*(call.get("/readyz") for _ in range(20)))

    assert (first_count, ping.call_count) == (0, 1)
    assert {answer.status_code for answer in (after_a_commit, *answers)} == {200}


async def test_notes_are_answered_while_database_hangs(
    call: Caller, memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note was committed all the same, so its repetition is accepted."""
    limits = {"PROOF_LASTS_S": 0, "PING_TIMEOUT_S": 0.01, "COMMIT_TIMEOUT_S": 0.3}
    for name, seconds in limits.items():
        monkeypatch.setattr(committer, name, seconds)
    names = ("noted_time_ready", "noted_time_commit_age_seconds")
    body = {"notes": [{"writer": "a", "time": 5}]}
    async with memory.watch.hold(call.post(f"{S}/notes", body)) as noting:
        ready = await call.get("/readyz")
        note = await noting
        later_note = await call.post(f"{S}/notes", body)
        state, age = (scrape(call.controller, name)[()] for name in names)
        monkeypatch.setattr(committer, "PING_TIMEOUT_S", 60)
    await wait_until_async(lambda: not scrape(call.controller, names[1])[()])
    repeated_note = await call.post(f"{S}/notes", body)

    ready_problem, *note_problems = (problem(answer) for answer in (ready, note, later_note))
    assert ready_problem == (503, "unavailable", committer.DATABASE_UNAVAILABLE)
    assert note_problems == [(503, "unavailable", committer.OVERDUE)] * 2
    assert (state, age >= 0.3, repeated_note.status_code) == (0.0, True, 200)


async def test_mark_of_another_owner_is_409(call: Caller, memory: WatchedMemory) -> None:
    memory.watch.failures = [MarkConflict("s", "default", 1)]
    refusal = await call.post(f"{S}/notes", {"notes": [{"writer": "a", "time": 5}]})

    says = "mark 1 of stream 's', domain 'default' was appended by another"
    assert problem(refusal) == (409, "conflict", says)


@pytest.mark.parametrize("path", ["cut?complete_to=1700000000", "windows?after=1700000000"])
async def test_poll_in_seconds_is_refused_after_first_mark(call: Caller, path: str) -> None:
    """The poll began before the first mark."""
    poll = asyncio.create_task(call.client.get(f"{S}/{path}&wait_ms=30000"))
    await wait_until_async(lambda: len(call.controller._notifier) == 1)
    await call.note({"writer": "a", "time": NOW})

    assert problem(await poll)[:2] == (422, "implausible_time")
