"""The longest wait of the event loop while marks move a million writers.

A controller and a task that beats each millisecond share one event loop. Before the
first mark, all writers note distinct times twice, so each has an outdated queue entry. Before the
second mark, all note the same time, so all hold again.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.aggregation import KEY, SEGMENTS, tune_collector
from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from controller.service.controller import Controller
from noted_time.values import Accepted, Note
from tools.trials.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

MANY = 1_000_000
STREAM = "beside"
BATCH = 1000
BEAT_S = 0.001
HOUR_MS = 3_600_000
LONGEST_MS = 50
"""The longest piece of work that may keep the event loop from other requests."""


class Crowd:
    """The writers of one stream; writer 0 holds time while the others note."""

    def __init__(self, controller: Controller, members: int) -> None:
        self.members = members
        self._controller = controller

    async def note_distinct(self, first_time: int) -> None:
        """Let all writers but the first note times of their own, many a request."""
        for numbers in self._split():
            await self._post([_note(number, first_time + number) for number in numbers])

    async def note_equal(self, time: int) -> None:
        """Let all writers but the first note the same time, many a request."""
        for numbers in self._split():
            await self._post([_note(number, time) for number in numbers])

    async def join(self) -> None:
        """Let all writers join, many a request."""
        await self._post([_note(0, None)])
        for numbers in self._split():
            await self._post([_note(number, None) for number in numbers])

    def _split(self) -> Iterator[range]:
        """Yield the numbers of all writers but the first, by request."""
        for start in range(1, self.members, BATCH):
            yield range(start, min(start + BATCH, self.members))

    async def let_go(self, time: int, lower: int, holders: int) -> float:
        """Let writer 0 note; return the longest gap in ms until so many hold at `lower`."""
        domain = self._controller.stream(STREAM).aggregator.domains[KEY]
        async with heartbeat() as gaps:
            await self._post([_note(0, time)])
            aim = (lower, holders)
            while not gaps or (domain.lower, len(domain.holding_back)) != aim:  # noqa: ASYNC110 - no event
                await asyncio.sleep(BEAT_S)
        return max(gaps)

    async def _post(self, notes: list[Note]) -> None:
        answers = await self._controller.note(STREAM, notes)
        if not all(type(answer) is Accepted for answer in answers):
            raise WrongResult("notes were refused")


def _note(writer: int, time: int | None) -> Note:
    return Note(str(writer), time, {} if time is None else {writer % SEGMENTS: time})


@asynccontextmanager
async def heartbeat() -> AsyncIterator[list[float]]:
    """Beat during the block, and yield the times between beats in ms."""
    gaps: list[float] = []

    async def beat() -> None:
        before = perf_counter()
        while True:
            await asyncio.sleep(BEAT_S)
            now = perf_counter()
            gaps.append((now - before) * 1e3)
            before = now

    task = asyncio.create_task(beat())
    try:
        yield gaps
    finally:
        task.cancel()


async def longest_gaps(members: int) -> tuple[float, float]:
    """Return the longest gaps in ms of a mark of distinct times, and of one past all writers."""
    controller = Controller(MemoryStore())
    await controller.start()
    try:
        await controller.put_stream(STREAM, {"writer_timeout_ms": HOUR_MS})
        crowd = Crowd(controller, members)
        await crowd.join()
        with tune_collector():
            await crowd.note_distinct(0)
            await crowd.note_distinct(members)
            distinct = await crowd.let_go(3 * members, members + 1, 1)
            await crowd.note_equal(4 * members)
            past_all = await crowd.let_go(4 * members, 4 * members, members)
        return distinct, past_all
    finally:
        await controller.close()


def measure(run: Run, members: int | None = None) -> list[Figure]:
    """Measure both marks once, in some minutes."""
    many = members or run.repeats(full=MANY, quick=MANY // 10)
    run.say(f"a heartbeat during marks of {many:,} writers")
    gaps = asyncio.run(longest_gaps(many))
    return [
        Figure(
            f"the event loop's longest gap, {many:,} writers{ending}",
            "ms",
            Samples((gap,)),
            target=Target("value", "at most", LONGEST_MS),
        )
        for ending, gap in zip((" at times of their own", " at one time"), gaps, strict=True)
    ]
