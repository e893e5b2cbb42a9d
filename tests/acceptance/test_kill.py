"""Controllers that are killed or stopped, their callers and their next start."""

import asyncio
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from controller.store.sqlite import SqliteStore
from tests.support.processes import ServeProcess
from tests.support.scrapes import samples
from tools.trials.waiting import PATIENCE_S


def test_downtime_counts_toward_no_writer_timeout(tmp_path: Path) -> None:
    """Downtime longer than the writer timeout leaves the remaining time as it was."""
    notes = [{"writer": "silent"}, {"writer": "a", "time": 5}]
    with ServeProcess(tmp_path).ready() as controller:
        url = f"{controller.url}/v1/streams/s"
        httpx.put(url, json={"writer_timeout_ms": 3000}).raise_for_status()
        httpx.post(f"{url}/notes", json={"notes": notes}).raise_for_status()
        before = httpx.get(f"{url}/explain").json()["waiting_for"]
    time.sleep(3.5)
    started_ms = time.time_ns() // 1_000_000
    with ServeProcess(tmp_path).ready() as controller:
        url = f"{controller.url}/v1/streams/s/marks"
        marks = httpx.get(url, params={"wait_ms": 30_000}, timeout=PATIENCE_S).json()["marks"]

    left_ms = before[0]["times_out_in_ms"]
    assert [(mark["lower"], mark["excluded"]) for mark in marks] == [(5, ["silent"])]
    assert marks[0]["written_at"] - started_ms >= left_ms - 200


POLL_MS = 30_000

"""How long the polls would wait."""


async def wait_for_notes(
    client: httpx.AsyncClient, url: str, count: int
) -> list[asyncio.Task[httpx.Response]]:
    """Post notes while no commit ends; return once all of them wait for theirs."""
    requests: list[asyncio.Task[httpx.Response]] = []

    def note() -> None:
        body = {"notes": [{"writer": f"w{len(requests)}"}]}
        requests.append(asyncio.create_task(client.post(f"{url}/notes", json=body)))

    async def waiting() -> float:
        text = (await client.get(httpx.URL(url).join("/metrics"))).text
        return samples(text, "noted_time_intake_requests")[()]

    while not await waiting():  # the first are in the commit that does not end
        note()
        await asyncio.sleep(0.5)
    committing = len(requests) - 1
    while len(requests) < count:
        note()
    async with asyncio.timeout(PATIENCE_S):
        while await waiting() < count - committing:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.05)
    return requests


async def test_sigterm_answers_requests_in_flight(tmp_path: Path) -> None:
    """Waiting notes are acknowledged, long polls end empty, and the exit status is 0."""
    with ServeProcess(tmp_path).ready() as controller:
        url = f"{controller.url}/v1/streams/s"
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            await client.put(url)
            polls = [
                asyncio.create_task(client.get(f"{url}/marks", params={"wait_ms": POLL_MS}))
                for _ in range(5)
            ]
            with closing(sqlite3.connect(tmp_path / "noted-time.db", timeout=10)) as other:
                other.execute("BEGIN IMMEDIATE")
                requests = await wait_for_notes(client, url, 20)
                controller.process.send_signal(signal.SIGTERM)
                await asyncio.gather(*polls)
                early = [request.done() for request in requests]
                other.rollback()
            answers = await asyncio.gather(*requests)
            status, took_s = await asyncio.to_thread(controller.stop)

    store = SqliteStore(tmp_path / "noted-time.db")
    writers = [member.writer for member in store.members(store.streams()[0].id)]
    store.close()
    statuses_and_writers = ([answer.status_code for answer in answers], writers)
    assert statuses_and_writers == ([200] * 20, sorted(f"w{i}" for i in range(20)))
    assert [poll.result().json()["marks"] for poll in polls] == [[]] * 5
    assert (early, status, took_s < POLL_MS / 1000) == ([False] * 20, 0, True)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_many_signals_end_the_controller_as_one_does(tmp_path: Path, first: signal.Signals) -> None:
    """Signals may arrive while the interpreter ends, when no handler can run."""
    with ServeProcess(tmp_path, is_forked=False).ready() as controller:
        controller.process.send_signal(first)
        deadline = time.monotonic() + 20
        while controller.process.poll() is None and time.monotonic() < deadline:
            controller.process.send_signal(signal.SIGTERM)
            time.sleep(0.001)

        events = [line["event"] for line in controller.log()]
    code_and_events = (controller.process.returncode, events)
    assert code_and_events == (0, ["starting", "started", "serving", "stopped"])
