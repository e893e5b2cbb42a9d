"""The answers of the replicas in the end, after all faults."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from noted_time.client import Json, position_from_wire
from tests.chaos.calls import Caller
from tests.chaos.history import History
from tests.chaos.scaling import ScaledStream
from tests.trials.laws import replicas_agree

PAGE = 1000
STALE_S = 10.0
"""Longer than any replica may lag behind the owner of the stream."""


@dataclass(frozen=True, slots=True)
class Said:
    """The answers about one stream: its members, its marks by domain, its readers' positions.

    Marks begin at the first that is left, as of the replica that keeps the fewest.
    """

    writers: dict[str, Json]
    marks: dict[str, list[Json]]
    readers: dict[int, int]
    scale_events: list[Json] = field(default_factory=list)


async def ask_all(
    http: httpx.AsyncClient, caller: Caller, stream: ScaledStream, history: History
) -> Said:
    """Ask any replica that answers for all that is known of the stream."""
    marks = {}
    for domain in stream.domains:
        first = await _first(http, caller.urls, stream.name, domain)
        marks[domain] = await _marks(caller, stream.name, domain, first)
    readers: dict[int, int] = {}
    if history.reported[stream.name]:
        path = f"/v1/streams/{stream.name}/reader-groups/daily"
        readers = position_from_wire((await caller.call("GET", path))["position"])
    scale_events = (await caller.call("GET", f"/v1/streams/{stream.name}"))["scale_events"]
    return Said(await _writers(caller, stream.name), marks, readers, scale_events)


async def disagreements(
    http: httpx.AsyncClient, urls: Sequence[str], stream: str, domain: str, marks: Sequence[Json]
) -> list[str]:
    """Return the replicas that answer and, asked for a while, have other marks than these."""
    found = []
    for url in urls:
        async with asyncio.timeout(STALE_S * 3):
            said = await _compare_marks(http, url, stream, domain, marks)
        if said is not None:
            found.append(f"{url} has {said}")
    return found


async def _compare_marks(
    http: httpx.AsyncClient, url: str, stream: str, domain: str, marks: Sequence[Json]
) -> str | None:
    """Return how the last marks differ from the true ones, `None` if they agree in time."""
    kept = marks[-PAGE:]
    after = kept[0]["seq"] - 1 if kept else 0
    query: dict[str, str | int] = {"domain": domain, "after": after, "limit": PAGE + 1}
    differs = None
    for _ in range(int(STALE_S)):
        answer = await http.get(f"{url}/v1/streams/{stream}/marks", params=query, timeout=5.0)
        if not answer.is_success:  # it is a standby
            return None
        differs = next(replicas_agree(kept, answer.json()["marks"]), None)
        if differs is None:
            return None
        await asyncio.sleep(1)
    return differs


async def _first(http: httpx.AsyncClient, urls: Sequence[str], stream: str, domain: str) -> int:
    """Return the first mark, of the replica where they begin last.

    That is the owner of the stream. Others show truncated marks for a while.
    """
    firsts = [1]
    for url in urls:
        query: dict[str, str | int] = {"domain": domain, "limit": 1}
        answer = await http.get(f"{url}/v1/streams/{stream}/marks", params=query, timeout=30.0)
        if answer.is_success:
            firsts += [mark["seq"] for mark in answer.json()["marks"]]
    return max(firsts)


async def _marks(caller: Caller, stream: str, domain: str, first: int) -> list[Json]:
    marks: list[Json] = []
    after = first - 1
    while True:
        query = {"domain": domain, "after": after, "limit": PAGE}
        answer = await caller.call("GET", f"/v1/streams/{stream}/marks", params=query)
        if not answer["marks"]:
            return marks
        marks += answer["marks"]
        after = marks[-1]["seq"]


async def _writers(caller: Caller, stream: str) -> dict[str, Json]:
    rows: dict[str, Json] = {}
    start: int | None = 0
    while start is not None:
        query = {"start": start, "limit": PAGE}
        answer = await caller.call("GET", f"/v1/streams/{stream}/writers", params=query)
        rows |= {row["writer"]: row for row in answer["writers"]}
        start = answer["next"]
    return rows
