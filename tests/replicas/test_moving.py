"""Replicas that start and stop under load."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.replicas.replica_processes import BUCKETS, read_buckets, wait_until_shared
from tests.support.processes import ServeProcess
from tests.trials.facts import Answer
from tests.trials.judge import judge
from tools.trials.postgres import Server
from tools.trials.waiting import PATIENCE_S

pytestmark = pytest.mark.acceptance

STREAMS = 24
REPORTS_EVERY = 3
"""The number of notes for each report of a reader, explanation and poll."""

SETTINGS: list[dict[str, Any]] = [{"mark_interval_ms": 0}, {}]
"""The settings of streams, in turn: mark every advance, or wait for an interval."""


@dataclass
class Callers:
    """Tasks that call one replica, one for each stream, and never repeat a request.

    `noted` is the last acknowledged time.
    """

    url: str
    streams: list[str]
    refusals: list[str] = field(default_factory=list)
    noted: dict[str, int] = field(default_factory=dict)
    stopping: bool = False
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, client: httpx.AsyncClient) -> None:
        self.tasks = [asyncio.create_task(self._call(client, stream)) for stream in self.streams]

    async def stop(self) -> None:
        """End after the open requests; raises the first error of any task."""
        self.stopping = True
        await asyncio.gather(*self.tasks)

    async def _call(self, client: httpx.AsyncClient, stream: str) -> None:
        """Note rising times to a stream, and now and then ask for something else."""
        count = 0
        while not self.stopping:
            count += 1
            body = {"notes": [{"writer": "w", "time": count, "position": {"0": count}}]}
            answer = await self._ask(client, "POST", f"{stream}/notes", body)
            if answer.status_code == 200:
                assert answer.json()["results"][0]["status"] == "accepted", answer.text
                self.noted[stream] = count
            if count % REPORTS_EVERY == 0:
                position = {"position": {"0": count}}
                await self._ask(client, "PUT", f"{stream}/reader-groups/g/readers/r", position)
                await self._ask(client, "GET", f"{stream}/explain")
                query = f"after={count}&wait_ms=50&limit=1"
                await self._ask(client, "GET", f"{stream}/marks?{query}")
                await self._ask(client, "PUT", stream, {"writer_timeout_ms": 60_000 + count})

    async def wait_for_progress(self) -> None:
        """Wait until every stream has taken more notes."""
        earlier_times = dict(self.noted)
        async with asyncio.timeout(PATIENCE_S):
            while any(
                self.noted.get(stream, 0) <= earlier_times.get(stream, 0) for stream in self.streams
            ):
                failures = [task.exception() for task in self.tasks if task.done()]
                assert (failures, self.refusals) == ([], [])
                await asyncio.sleep(0.02)

    async def _ask(
        self, client: httpx.AsyncClient, method: str, path: str, body: object = None
    ) -> httpx.Response:
        answer = await client.request(method, f"{self.url}/v1/streams/{path}", json=body)
        if answer.status_code != 200:
            self.refusals.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer


async def test_no_request_fails_while_replicas_change(
    server: Server, url: str, tmp_path: Path
) -> None:
    """A third replica starts, then one stops. Each has its share, and every answer is 200.

    The clients call the remaining replica, repeat no request, and find all their notes.
    """
    assert server.port
    streams = [f"s{number}" for number in range(STREAMS)]
    options = ("--database", url)
    with ServeProcess(tmp_path, *options) as stays, ServeProcess(tmp_path, *options) as goes:
        await asyncio.to_thread(wait_until_shared, stays.ready(), goes.ready())
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            for number, stream in enumerate(streams):
                stream_url = f"{stays.url}/v1/streams/{stream}"
                await client.put(stream_url, json=SETTINGS[number % len(SETTINGS)])
            callers = Callers(stays.url, streams)
            callers.start(client)
            await callers.wait_for_progress()
            with ServeProcess(tmp_path, *options) as comes:
                await asyncio.to_thread(comes.ready)
                await asyncio.to_thread(wait_until_shared, stays, goes, comes)
                spread = [read_buckets(replica)["this"] for replica in (stays, goes, comes)]
                await callers.wait_for_progress()
                stop_status, _ = await asyncio.to_thread(goes.stop)
                await asyncio.to_thread(wait_until_shared, stays, comes)
                await callers.wait_for_progress()
                await callers.stop()
                left = [read_buckets(replica)["this"] for replica in (stays, comes)]
                chains = [comes.all_marks(stream) for stream in streams]
                rows = {stream: comes.writers(stream) for stream in streams}

    assert callers.refusals == []
    assert (sorted(spread), sum(spread), left, stop_status) == ([20, 22, 22], BUCKETS, [32, 32], 0)
    noted_times = {stream: rows[stream]["w"]["times"]["default"] for stream in streams}
    assert noted_times == callers.noted
    assert [judge(answers=[Answer(0, chain)]) for chain in chains] == [[]] * STREAMS
