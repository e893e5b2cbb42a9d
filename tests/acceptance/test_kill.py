import asyncio
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.judge import all_marks, all_writers, broken_links, lost, over_the_upper, unsound
from tests.support.load import Load, LoadedStream
from tests.support.processes import ServeProcess
from tests.support.waiting import PATIENCE_S

DOWNTIMES_S = (0.0, 1.0, 0.3)
"""How long the controller stays away after each kill."""

ANSWERS = 150
"""How many requests are answered between two kills, at least."""

SETTINGS: dict[str, dict[str, Any]] = {
    "flights": {"mark_interval_ms": 0},
    "trains": {"mark_interval_ms": 50, "returning_writer": "hold"},
    "ships": {"mark_interval_ms": 20, "domains": ["order", "arrival"]},
}


async def worked(load: Load) -> None:
    """Wait until much was answered and the time of every stream advanced in every domain."""
    answered = load.answered
    seen = {chain: len(marks) for chain, marks in load.followed.items()}
    async with asyncio.timeout(60):
        while load.answered < answered + ANSWERS or any(  # noqa: ASYNC110 - no event reports it
            len(marks) <= seen.get(chain, 0) for chain, marks in load.followed.items()
        ):
            await asyncio.sleep(0.05)


async def test_kill_9_under_load_loses_nothing(tmp_path: Path) -> None:
    """Sixty tasks of writers, three kills: what is left keeps every promise of the contract."""
    streams = [
        LoadedStream("flights"),
        LoadedStream("trains", shared=False),
        LoadedStream("ships", ("order", "arrival")),
    ]
    controller = ServeProcess(tmp_path).ready()
    port = controller.port
    load = Load(controller.url, streams)
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(limits=limits, timeout=PATIENCE_S) as client:
        for name, settings in SETTINGS.items():
            (await client.put(f"{load.url}/v1/streams/{name}", json=settings)).raise_for_status()
        load.start(client, singles=50, batches=10)
        await worked(load)
        for downtime_s in DOWNTIMES_S:
            controller.kill()
            await asyncio.sleep(downtime_s)
            controller = ServeProcess(tmp_path, port=port)
            await asyncio.to_thread(controller.ready)
            await worked(load)
        await load.stop()
        chains = {
            (stream.name, domain): await all_marks(client, load.url, stream.name, domain)
            for stream in streams
            for domain in stream.domains
        }
        rows = {s.name: await all_writers(client, load.url, s.name) for s in streams}
    controller.kill()

    assert load.answered >= (1 + len(DOWNTIMES_S)) * ANSWERS
    assert {stream.name: lost(stream, rows[stream.name]) for stream in streams} == {
        stream.name: [] for stream in streams
    }
    for stream in streams:
        for domain in stream.domains:
            marks = chains[stream.name, domain]
            assert [mark for mark in marks if mark["excluded"]] == []
            assert broken_links(marks) == []
            assert unsound(marks, stream.events, domain) == []
            # An event in a shared segment may lie below a cut before its own writer noted it.
            assert stream.shared or over_the_upper(marks, stream.events, domain) == []
            seen = load.followed[stream.name, domain]
            assert seen == marks[: len(seen)]


def test_downtime_times_no_writer_out(tmp_path: Path) -> None:
    """Killed for longer than the writer timeout, it still waits as long as was left before."""
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
        found = httpx.get(url, params={"wait_ms": 30_000}, timeout=PATIENCE_S).json()["marks"]

    left_ms = before[0]["times_out_in_ms"]
    assert [(mark["lower"], mark["excluded"]) for mark in found] == [(5, ["silent"])]
    assert found[0]["written_at"] - started_ms >= left_ms - 200
