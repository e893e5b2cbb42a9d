"""The answers of the replicas in the end, after all faults."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from noted_time.client import Json, position_from_wire
from tests.trials.actors.calls import Caller, NoAnswerError
from tests.trials.actors.history import History
from tests.trials.actors.load import ScaledStream
from tests.trials.laws import replicas_agree

STALE_S = 10
"""Longer than any replica may lag behind the owner of the stream."""

LONG_ANSWER_S = 60.0
"""Longer than an answer with all marks takes."""

MEMBER_FIELDS = ("state", "times", "position")


@dataclass(frozen=True, slots=True)
class Said:
    """The answers about one stream: its members, its marks by domain, its readers' positions."""

    writers: dict[str, Json]
    marks: dict[str, list[Json]]
    readers: dict[int, int]
    scale_events: list[Json] = field(default_factory=list)


async def ask_all(callers: Sequence[Caller], stream: ScaledStream, history: History) -> Said:
    """Return the answers of all replicas, by a caller of each, once they agree.

    Note it if they do not in time.
    """
    reported_position = history.reported[stream.name]
    for _ in range(STALE_S):
        answers = []
        for caller in callers:
            with suppress(NoAnswerError):
                answers.append(await _ask(caller, stream, reported_position))
        if answers and all(answer == answers[0] for answer in answers):
            return answers[0]
        await asyncio.sleep(1)
    first, *other_answers = answers or [Said({}, {domain: [] for domain in stream.domains}, {})]
    accounts = []
    for other in other_answers:
        for domain in stream.domains:
            for account in replicas_agree(first.marks[domain], other.marks[domain]):
                accounts.append(f"{domain}: {account}")
    history.broke(replicas_agree, stream.name, accounts or f"{len(answers)} replicas answered")
    return first


async def _ask(caller: Caller, stream: ScaledStream, reported_position: Mapping[int, int]) -> Said:
    path = f"/v1/streams/{stream.name}"
    position = {}
    if reported_position:
        position = (await _get(caller, f"{path}/reader-groups/daily"))["position"]
    return Said(
        await _list_writers(caller, path),
        {domain: await _list_marks(caller, path, domain) for domain in stream.domains},
        position_from_wire(position),
        (await _get(caller, path))["scale_events"],
    )


async def _list_marks(caller: Caller, path: str, domain: str) -> list[Json]:
    marks: list[Json] = []
    after = 0
    while page := (await _get(caller, f"{path}/marks", domain=domain, after=after))["marks"]:
        marks += page
        after = page[-1]["seq"]
    return marks


async def _list_writers(caller: Caller, path: str) -> dict[str, Json]:
    rows: list[Json] = []
    start: int | None = 0
    while start is not None:
        page = await _get(caller, f"{path}/writers", start=start, limit=1000)
        rows += page["writers"]
        start = page["next"]
    members = {}
    for row in rows:
        members[row["writer"]] = {field: row[field] for field in MEMBER_FIELDS}
    return members


async def _get(caller: Caller, path: str, **query: object) -> Json:
    return await caller.call("GET", path, wait_s=LONG_ANSWER_S, params=query)
