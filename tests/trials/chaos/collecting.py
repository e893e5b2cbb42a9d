"""The answers of the replicas in the end, after all faults."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from noted_time.client import Json, position_from_wire
from tests.trials.chaos.history import History
from tests.trials.chaos.load import ScaledStream
from tests.trials.laws import replicas_agree
from tools.trials.calls import Calls

STALE_S = 10
"""Longer than any replica may lag behind the owner of the stream."""


@dataclass(frozen=True, slots=True)
class Said:
    """The answers about one stream: its members, its marks by domain, its readers' positions."""

    writers: dict[str, Json]
    marks: dict[str, list[Json]]
    readers: dict[int, int]
    scale_events: list[Json] = field(default_factory=list)


async def ask_all(urls: Sequence[str], stream: ScaledStream, history: History) -> Said:
    """Return the answers of all replicas, once they agree; note it if they do not in time."""
    reported = history.reported[stream.name]
    for _ in range(STALE_S):
        found = []
        for url in urls:
            with suppress(httpx.HTTPError):  # it is a standby
                found.append(await asyncio.to_thread(_ask, Calls(url), stream, reported))
        if found and all(each == found[0] for each in found):
            return found[0]
        await asyncio.sleep(1)
    first, *others = found or [Said({}, {domain: [] for domain in stream.domains}, {})]
    accounts = [
        f"{domain}: {account}"
        for other in others
        for domain in stream.domains
        for account in replicas_agree(first.marks[domain], other.marks[domain])
    ]
    history.broke(replicas_agree, stream.name, accounts or f"{len(found)} replicas answered")
    return first


def _ask(calls: Calls, stream: ScaledStream, reported: Mapping[int, int]) -> Said:
    group = calls.get(f"{stream.name}/reader-groups/daily") if reported else {"position": {}}
    return Said(
        calls.writers(stream.name),
        {domain: calls.all_marks(stream.name, domain) for domain in stream.domains},
        position_from_wire(group["position"]),
        calls.get(stream.name)["scale_events"],
    )
