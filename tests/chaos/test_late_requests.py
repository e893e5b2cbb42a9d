"""What a replica was sent by who gave up, and does only when it wakes up or reaches another."""

from __future__ import annotations

import asyncio
import random
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.chaos.arena import Arena
from tests.chaos.calls import Caller
from tests.chaos.faults import LEASE_S
from tests.chaos.history import History
from tests.support.judge import unsound
from tests.support.load import Event

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.replica import Replica
    from tests.support.postgres import Server

pytestmark = [pytest.mark.acceptance, pytest.mark.anyio]

GIVEN_UP_S = 1.0
HEARD_S = 30.0
STREAMS = [f"s{number}" for number in range(8)]
SOON_S = 1.0
"""How long time has to go on wrongly, before anybody looks."""
HEARD_LATE_S = 3.0
"""How long a replica that reaches another again has to pass on what it was sent."""


class Writers:
    """The writers `w` and `x` in several streams, which note alike in all of them.

    There are so many that the paused replica is not the owner of all. Each request has a number.
    """

    def __init__(self, arena: Arena, story: str) -> None:
        self._http = arena.http
        self._paused = arena.replicas[0]
        self._requests = count(1)
        self._given_up: list[asyncio.Task[httpx.Response]] = []
        self.streams = [f"{story}-{number}" for number in range(6)]
        urls = [replica.url for replica in arena.replicas[1:]]
        self._caller = Caller(arena.http, urls, History({}), random.Random(1))

    async def begin(self) -> None:
        """Make the streams, in which both note 10."""
        for stream in self.streams:
            body = {"mark_interval_ms": 0}
            await self._caller.call("PUT", f"/v1/streams/{stream}", wait_s=10, json=body)
        for name in "wx":
            await self.note(writer=name)
        for name in "wx":
            await self.note(writer=name, time=10, position={"0": 1})

    async def note(self, **note: Any) -> None:  # noqa: ANN401 - any JSON
        """Note by the replicas that are awake, until they take it."""
        for stream in self.streams:
            path = f"/v1/streams/{stream}/notes"
            answer = await self._caller.call(
                "POST", path, wait_s=10, json=lambda: self._request(note)
            )
            assert [each["status"] for each in answer["results"]] == ["accepted"]

    async def note_twice(self, **note: Any) -> None:  # noqa: ANN401 - likewise
        """Note by the replica that is paused, give up, and note by the others.

        Who gives up does not hang up, or is not heard to: nothing tells that the request is old.
        """
        for stream in self.streams:
            url = f"{self._paused.url}/v1/streams/{stream}/notes"
            asked = self._http.post(url, json=self._request(note), timeout=HEARD_S)
            self._given_up.append(asyncio.create_task(asked))
        done, _ = await asyncio.wait(self._given_up, timeout=GIVEN_UP_S)
        assert done == set()
        await self.note(**note)

    async def late(self) -> set[str]:
        """Return what became of the notes that were given up; those refused do no harm."""
        answers = await asyncio.gather(*self._given_up)
        taken = [each.json().get("results", []) for each in answers]
        return {result["status"] for results in taken for result in results}

    def _request(self, note: dict[str, Any]) -> dict[str, Any]:
        return {"notes": [note | {"sequence": next(self._requests)}]}

    async def ask(self, path: str) -> list[dict[str, Any]]:
        """Ask for the same of each stream."""
        paths = [f"/v1/streams/{stream}/{path}" for stream in self.streams]
        return [await self._caller.call("GET", each, wait_s=10) for each in paths]


async def wake(replica: Replica) -> None:
    """Wake the replica after more than a lease."""
    await asyncio.sleep(LEASE_S)
    replica.wake()


async def test_what_a_paused_replica_was_sent_does_no_harm_when_it_wakes_up(
    server: Server, tmp_path: Path
) -> None:
    """Its caller has sent it elsewhere since, and more after it.

    A writer that left does not come back, and time waits for one that is live again. That one was
    idle, and has written an event at 12 since.
    """
    async with Arena(server, tmp_path, random.Random(1)) as arena:
        gone, back = Writers(arena, "gone"), Writers(arena, "back")
        await gone.begin()
        await back.begin()
        arena.replicas[0].pause()
        await gone.note_twice(writer="w", time=12, position={"0": 2})
        await gone.note(writer="w", position={"0": 2}, state="finished")
        await back.note_twice(writer="w", position={"0": 1}, state="idle")
        await back.note(writer="w")
        await wake(arena.replicas[0])
        late = await gone.late() | await back.late()
        rows = await gone.ask("writers")
        await back.note(writer="x", time=20)
        await asyncio.sleep(SOON_S)
        await back.note(writer="w", time=20, position={"0": 2})
        marks = await back.ask("marks?wait_ms=1000&after=1")

    states = [{each["writer"]: each["state"] for each in said["writers"]} for said in rows]
    wrong = [unsound(said["marks"], [Event(0, 1, {"default": 12})], "default") for said in marks]
    assert late <= {"superseded"}
    assert states == [{"w": "finished", "x": "live"}] * len(states)
    assert wrong == [[]] * len(wrong)


async def reported(arena: Arena, replica: Replica, offset: int) -> list[str]:
    """Have a reader of each stream report by that replica; returns what it was told."""

    async def report(stream: str) -> str:
        url = f"{replica.url}/v1/streams/{stream}/reader-groups/g/readers/one"
        try:
            body = {"position": {"0": offset}}
            answer = await arena.http.put(url, json=body, timeout=GIVEN_UP_S)
        except httpx.TimeoutException:
            return "nothing"
        return str(answer.status_code)

    return await asyncio.gather(*(report(stream) for stream in STREAMS))


async def test_a_report_that_was_given_up_does_not_put_its_group_back(
    server: Server, tmp_path: Path
) -> None:
    """It lies in a replica that cannot reach the owner, and its reader has reported more since."""
    async with Arena(server, tmp_path, random.Random(1), count=2) as arena:
        caller = Caller(arena.http, arena.urls, History({}), random.Random(1))
        for stream in STREAMS:
            await caller.call("PUT", f"/v1/streams/{stream}", wait_s=10, json={})
        owner = await arena.busiest()
        other = next(each for each in arena.replicas if each is not owner)
        owner.door.turn("swallowing")
        first = await reported(arena, other, 1)
        owner.door.turn("whole")
        newer = await reported(arena, owner, 2)
        await asyncio.sleep(HEARD_LATE_S)
        paths = [f"/v1/streams/{stream}/reader-groups/g" for stream in STREAMS]
        groups = [await caller.call("GET", path, wait_s=10) for path in paths]

    assert "nothing" in first
    assert newer == ["200"] * len(STREAMS)
    assert [group["position"] for group in groups] == [{"0": 2}] * len(STREAMS)
