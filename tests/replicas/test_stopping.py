"""Replicas that stop or die release their streams and answer open requests."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controller.store.port import Leases, StoreUnavailable
from tests.controller.api.wire import Wire
from tests.replicas.one_replica import (
    BUCKETS,
    HERE,
    OTHER,
    RESULTS,
    THERE,
    Replica,
    list_codes,
    list_statuses,
)
from tests.replicas.replica_processes import note_time, read_buckets, read_lowers
from tests.support.controllers import wait_until_async
from tests.support.http import problem
from tests.support.processes import ServeProcess
from tests.support.scrapes import samples
from tools.trials.calls import HTTP
from tools.trials.ports import listens
from tools.trials.postgres import PASSWORD
from tools.trials.waiting import PATIENCE_S, wait_until

EVERYTHING = dict.fromkeys(range(BUCKETS), OTHER)


# Requests


async def test_waiting_notes_are_committed_before_release(this: Replica) -> None:
    """The callers get their answers from this replica."""
    async with this.store.watch.hold(this.note(HERE)) as first:
        requests = [asyncio.create_task(this.note(HERE, f"v{n}")) for n in range(3)]
        await this.wait_for_depth(3)
        this.controller.prepare_to_stop()
    answers = await asyncio.gather(first, *requests)
    await this.wait_until_released()

    assert (list_statuses(answers), this.owner.frames) == ([200] * 4, [])


async def test_requests_after_release_go_to_new_owner(this: Replica) -> None:
    """Notes and other requests are forwarded unchanged."""
    this.controller.prepare_to_stop()
    await this.wait_until_released()
    note_request = asyncio.create_task(this.note(HERE))
    question = asyncio.create_task(this.explain(HERE))
    await asyncio.sleep(0.1)
    are_answered_early = (note_request.done(), question.done())
    this.store.leases = Leases(BUCKETS, frozenset(), EVERYTHING, 1)
    note_answer, explanation = await asyncio.gather(note_request, question)

    assert are_answered_early == (False, False)
    assert (note_answer.content, explanation.json()) == (RESULTS.body, {})


async def test_last_replica_refuses_later_requests_at_once(this: Replica) -> None:
    """Callers get a 503, because no other replica could answer."""
    this.set_owner(None, replicas=1)
    await wait_until_async(lambda: this.controller.owns(THERE))
    this.controller.prepare_to_stop()
    await wait_until_async(lambda: this.controller.ownership.is_last)
    async with asyncio.timeout(4):  # less than such requests are held otherwise
        answers = [await this.note(HERE), await this.explain(HERE)]

    for answer in answers:
        assert problem(answer)[:2] == (503, "no_owner")
        assert answer.headers["retry-after"] == "1"


async def test_stopping_replica_acquires_no_bucket(this: Replica) -> None:
    """This includes buckets without an owner."""
    this.controller.prepare_to_stop()
    await this.wait_until_released()
    this.controller.ownership.refresh_soon()
    await asyncio.sleep(0.3)

    assert (this.controller._committer.streams.clocks, this.store.leases.mine) == ({}, frozenset())


async def test_streams_are_released_after_failed_commit(this: Replica) -> None:
    """The callers of this commit and of the waiting ones get the error."""
    this.store.watch.failures = [StoreUnavailable("away")]
    async with this.store.watch.hold(this.note(HERE)) as first:
        behind = asyncio.create_task(this.note(HERE))
        await this.wait_for_depth(1)
        this.controller.prepare_to_stop()
    answers = await asyncio.gather(first, behind)
    await wait_until_async(lambda: not this.store.leases.mine)

    assert list_codes(answers) == [(503, "unavailable")] * 2


def send_half(server: ServeProcess, method: str, path: str, body: bytes) -> Wire:
    """Return a connection with a request that lacks its last byte."""
    wire = Wire(server.port)
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    wire.send(f"{head}content-length: {len(body)}\r\nexpect: 100-continue\r\n\r\n".encode())
    assert (wire.line(), wire.line()) == (b"HTTP/1.1 100 Continue\r\n", b"\r\n")
    wire.send(body[:-1])
    return wire


def complete(wire: Wire) -> int:
    """Send the last byte of a body, and return the status of the answer."""
    with wire:
        wire.send(b"}")
        return int(wire.answer()[0])


def count_polls(server: ServeProcess) -> float:
    """Return the number of waiting long polls."""
    return samples(HTTP.get(f"{server.url}/metrics").text, "noted_time_long_polls")[()]


@pytest.mark.acceptance
def test_streams_move_before_open_requests_of_stop_end(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """The other replica takes notes while a poll and slow requests are open at the first.

    No request is refused or repeated, and the slow ones are answered when they are complete.
    """
    path = f"/v1/streams/{name}"
    slow = [
        send_half(a, "POST", f"{path}/notes", b'{"notes":[{"writer":"slow","time":9}]}'),
        send_half(a, "PUT", f"{path}/reader-groups/g/readers/r", b'{"position":{}}'),
    ]
    with ThreadPoolExecutor(1) as beside:
        poll = beside.submit(HTTP.get, f"{a.url}{path}/marks?after=1&wait_ms=15000")
        wait_until(lambda: count_polls(a) == 1)
        a.process.terminate()
        answers = [note_time(b, name, time) for time in range(6, 36)]
        still_open = a.process.poll() is None
        answers.append(poll.result().status_code)
    statuses = [complete(request) for request in slow]
    exit_status = a.process.wait(timeout=PATIENCE_S)

    assert (set(answers), still_open, statuses, exit_status) == ({200}, True, [200] * 2, 0)
    writers = HTTP.get(f"{b.url}{path}/writers").json()["writers"]
    times = {row["writer"]: row["times"]["default"] for row in writers}
    assert (times, read_lowers(b, name)[-1]) == ({"w": 35, "slow": 9}, (31, 35))


@pytest.mark.acceptance
@pytest.mark.parametrize(("shares", "answer"), [(True, 503), (False, 200)])
def test_last_replica_ends_after_its_slow_requests(
    tmp_path: Path, request: pytest.FixtureRequest, answer: int, *, shares: bool
) -> None:
    """Callers of a shared database get a 503, and may try another replica.

    A controller with its database in a file answers them, because no other replica could.
    """
    options = ("--database", request.getfixturevalue("url")) if shares else ()
    with ServeProcess(tmp_path, *options).ready() as only_replica:
        HTTP.put(f"{only_replica.url}/v1/streams/s").raise_for_status()
        slow = send_half(only_replica, "POST", "/v1/streams/s/notes", b'{"notes":[{"writer":"w"}]}')
        only_replica.process.terminate()
        if shares:
            wait_until(lambda: '"buckets_released"' in only_replica.text())
        else:
            wait_until(lambda: not listens(only_replica.port))
        late_answer = complete(slow)
        exit_status = only_replica.process.wait(timeout=PATIENCE_S)

    assert (late_answer, exit_status) == (answer, 0)


# Streams of a killed replica


def note_until_accepted(replica: ServeProcess, name: str, time: int) -> None:
    """Note until it is accepted: a busy machine may delay the takeover."""
    wait_until(lambda: note_time(replica, name, time) == 200)


@pytest.mark.acceptance
def test_notes_for_killed_replica_wait_for_takeover(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """The other replica holds the request until it owns the stream."""
    a.kill()
    note_until_accepted(b, name, 9)
    wait_until(lambda: read_buckets(b)["this"] == 64)

    is_ready = HTTP.get(f"{b.url}/readyz").is_success
    assert (read_lowers(b, name), is_ready) == ([(1, 5), (2, 9)], True)
    assert PASSWORD not in a.text() + b.text()
