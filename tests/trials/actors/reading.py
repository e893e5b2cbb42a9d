"""Readers: some follow the marks, some read the log in groups and ask for time windows."""

import asyncio
import random
from collections.abc import Mapping
from itertools import count

from noted_time.client import Json, position_from_wire, position_to_wire
from noted_time.values import reaches
from tests.trials.actors.calls import Caller
from tests.trials.actors.history import History, now
from tests.trials.actors.load import ScaledStream, without_the_sealed
from tests.trials.facts import Look, WindowSeen, complete

WAIT_MS = 1000
READERS = ("one", "two")
PAUSE_S = (0.4, 1.2)
"""How long a group reads before it asks again."""

KNOWN_S = 10.0
"""After this time, every replica that answers knows an acknowledged change."""

RESUMES = 8
"""How often a follower looks until it resumes from an earlier mark."""

READ_SHARE = 0.7
"""How often a reader continues in one of its segments."""

BREATH_S = 0.2
"""How long a follower leaves the marks it has, so that several come at once."""


class Reading:
    """The readers of one trial, until asked to stop."""

    def __init__(self, history: History, stopping: asyncio.Event) -> None:
        self._history = history
        self._stopping = stopping

    async def follow(self, caller: Caller, stream: str, domain: str) -> None:
        """Long-poll the marks of a domain; now and then, resume from where it was half way."""
        chain = self._history.chains[stream, domain]
        after = 0
        number = len(chain.followers)
        chain.followers.append(after)
        path = f"/v1/streams/{stream}/marks"
        for look in count(1):
            if self._stopping.is_set():
                return
            asked_after = after if look % RESUMES else after // 2
            query = {"domain": domain, "after": asked_after, "wait_ms": WAIT_MS}
            answer = await caller.call("GET", path, wait_s=WAIT_MS / 1000, params=query)
            marks = answer["marks"]
            chain.see(asked_after, marks, now())
            if not answer.get("has_more"):
                last = marks[-1] if marks else chain.seen.get(asked_after, {"lower": None})
                chain.looks.append(Look(caller.begun, now(), last["lower"]))
            chain.followers[number] = after = max([after, *(mark["seq"] for mark in marks)])
            await asyncio.sleep(BREATH_S)

    async def read(self, caller: Caller, stream: ScaledStream) -> None:
        """Act as a group of readers that share the segments and ask for their time window."""
        chance = caller.chance
        heard = self._history.reported.setdefault(stream.name, {})
        sent_offsets = self._history.reporting.setdefault(stream.name, {})
        while not self._stopping.is_set():
            reader = chance.choice(READERS)
            for segment, offset in self._read_on(stream, reader, sent_offsets, chance).items():
                sent_offsets[segment] = offset
            mine = {s: o for s, o in sent_offsets.items() if _reader_of(s) == reader}
            path = f"/v1/streams/{stream.name}/reader-groups/daily"
            report = {"position": position_to_wire(mine)}
            due = self._due(stream)
            answer = await caller.call("PUT", f"{path}/readers/{reader}", json=report)
            self._group(stream, answer, due)
            heard.update(mine)
            self._group(stream, await caller.call("GET", path), due)
            await self._ask(caller, stream)
            await asyncio.sleep(chance.uniform(*PAUSE_S))

    def _read_on(
        self, stream: ScaledStream, reader: str, read_offsets: dict[int, int], chance: random.Random
    ) -> dict[int, int]:
        """Return the next offsets of the reader, in its segments.

        None is read before all that came before it.
        """
        next_offsets = {}
        for segment, end in stream.ends.items():
            if _reader_of(segment) != reader or chance.random() >= READ_SHARE:
                continue
            if stream.may_be_read(segment, read_offsets):
                next_offsets[segment] = chance.randint(read_offsets.get(segment, 0), end)
        return next_offsets

    def _due(self, stream: ScaledStream) -> dict[str, int]:
        """Return by domain the first mark that truncations left for the group, if beyond it."""
        chains = self._history.chains_of(stream).items()
        return {domain: chain.first_heard for domain, chain in chains if chain.first_heard > 1}

    def _group(self, stream: ScaledStream, answer: Json, due: Mapping[str, int]) -> None:
        """Record the windows that a group was given."""
        position = position_from_wire(answer["position"])
        stands = complete(position, stream.scalings)
        for domain, window in answer["windows"].items():
            chain = self._history.chains[stream.name, domain]
            min_lower = None
            if domain in due and reaches(stands, chain.cut(due[domain])):
                min_lower = chain.seen[due[domain]]["lower"]
            chain.windows.append(WindowSeen(position, window, min_lower))

    async def _ask(self, caller: Caller, stream: ScaledStream) -> None:
        """Ask for the window of a position that is a mark's cut, or near to it.

        Sealed segments are named, or left out once every replica knows of them.
        """
        chance = caller.chance
        domain = chance.choice(stream.domains)
        chain = self._history.chains[stream.name, domain]
        mark = chain.seen.get(chance.randint(1, len(chain.seen) + 1))
        if mark is None:
            return
        near = (-1, 0, 0, 0, 0, 0, 0, 1)
        cut = position_from_wire(mark["cut"])
        position = {s: max(0, end + chance.choice(near)) for s, end in cut.items()}
        position = complete(position, stream.scalings)
        if chance.random() < 0.5:
            position = without_the_sealed(position, stream.list_known(now() - KNOWN_S))
        answer = await caller.call(
            "POST",
            f"/v1/streams/{stream.name}/time-window",
            json={"position": position_to_wire(position), "domain": domain},
        )
        chain.windows.append(WindowSeen(position, answer))


def _reader_of(segment: int) -> str:
    return READERS[segment % len(READERS)]
