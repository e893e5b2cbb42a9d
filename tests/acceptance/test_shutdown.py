from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest

from controller.store.sqlite import SqliteStore
from tests.support.processes import ServeProcess

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_sigterm_answers_what_is_in_flight(tmp_path: Path) -> None:
    """Notes that wait for their commit are acknowledged, long polls end empty, the exit is 0."""
    with ServeProcess(tmp_path).ready() as controller:
        url = f"{controller.url}/v1/streams/s"
        async with httpx.AsyncClient(timeout=20) as client:
            await client.put(url)
            polls = [
                asyncio.create_task(client.get(f"{url}/marks", params={"wait_ms": 30_000}))
                for _ in range(5)
            ]
            with closing(sqlite3.connect(tmp_path / "noted-time.db", timeout=10)) as other:
                other.execute("BEGIN IMMEDIATE")
                noted = [
                    asyncio.create_task(
                        client.post(f"{url}/notes", json={"notes": [{"writer": f"w{i}"}]})
                    )
                    for i in range(20)
                ]
                await asyncio.sleep(1.0)
                controller.process.send_signal(signal.SIGTERM)
                await asyncio.gather(*polls)
                early = [each.done() for each in noted]
                other.rollback()
            answers = await asyncio.gather(*noted)
            status, took_s = await asyncio.to_thread(controller.stop)

    store = SqliteStore(tmp_path / "noted-time.db")
    kept = [member.writer for member in store.members(store.streams()[0].id)]
    store.close()
    told = ([answer.status_code for answer in answers], kept)
    assert told == ([200] * 20, sorted(f"w{i}" for i in range(20)))
    assert [poll.result().json()["marks"] for poll in polls] == [[]] * 5
    assert (early, status, took_s < 5) == ([False] * 20, 0, True)


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    """No traceback on the terminal of whoever tries it out."""
    with ServeProcess(tmp_path).ready() as controller:
        controller.process.send_signal(signal.SIGINT)
        status = controller.process.wait(timeout=20)

        events = [line["event"] for line in controller.log()]
    assert (status, events) == (0, ["starting", "started", "serving", "stopped"])


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_told_often_it_ends_as_if_told_once(tmp_path: Path, first: signal.Signals) -> None:
    """Also while the interpreter ends, which is no time for a handler of signals."""
    with ServeProcess(tmp_path).ready() as controller:
        controller.process.send_signal(first)
        deadline = time.monotonic() + 20
        while controller.process.poll() is None and time.monotonic() < deadline:
            controller.process.send_signal(signal.SIGTERM)
            time.sleep(0.001)

        events = [line["event"] for line in controller.log()]
    told = (controller.process.returncode, events)
    assert told == (0, ["starting", "started", "serving", "stopped"])
