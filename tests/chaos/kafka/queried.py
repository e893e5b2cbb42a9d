"""The trial of Kafka: producers and a query at work, and the laws of `docs/explain/chaos.md`."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from demo.trials.kafka import Record
from noted_time.client import Json
from tests.chaos.calls import Caller, NoAnswerError, wait_until_true
from tests.chaos.history import Chain, History, Journal, now
from tests.chaos.kafka.arena import FAR, OBSERVED, OBSERVERS, STRAY, TOPIC, WRITERS, KafkaArena
from tests.chaos.kafka.faults import KAFKA_FAULTS
from tests.chaos.kafka.seeing import Seeing, Seen
from tests.chaos.kafka.tally import WINDOW_MS, Batches, count_records, find_output
from tests.chaos.kafka.writing import Kind
from tests.chaos.reading import Reading
from tests.chaos.trial import Trial
from tests.chaos.turns import Plan
from tests.trials.facts import Answer
from tests.trials.judge import judge as judge_facts
from tests.trials.laws import ANSWERS, watermarks_advance

NOTED_FAR = (FAR, "default")
MARKS, OUTPUT = (TOPIC, "default"), (TOPIC, "output")
"""The chains that have to advance: the marks, and the windows of the query."""

LOOK_S = 0.5
END_MS = 60_000
"""So far ahead of the clock all ends: no record but the last ones is in the last window."""


class Queried:
    """Producers and a query at work, and the laws of their marks and output."""

    moves_s = 240.0
    """Longer than a driver takes to start on a busy machine."""

    def __init__(self, arena: KafkaArena, chains: Iterable[tuple[str, str]]) -> None:
        self._arena = arena
        self.history = History({}, chains={each: Chain() for each in chains})
        self._drained = asyncio.Event()
        self._seen: Seen = {}

    @asynccontextmanager
    async def work(self, _: Journal, chance: random.Random) -> AsyncIterator[None]:
        """Follow marks and output, and have the query write all windows in the end."""
        arena = self._arena
        seeing = Seeing(arena.broker.config, OBSERVED)
        async with httpx.AsyncClient(trust_env=False) as http, asyncio.TaskGroup() as tasks:
            caller = Caller(http, [arena.url], self.history, chance)
            for chain in self.history.chains.keys() - {OUTPUT}:
                tasks.create_task(self._follow_marks(caller, *chain))
            tasks.create_task(self._follow_output())
            seen = tasks.create_task(asyncio.to_thread(seeing.run))
            tasks.create_task(arena.supervise(self._drained))
            try:
                yield
                await self._drain()
            finally:
                self._drained.set()
                seeing.stop()
        self._seen = seen.result()

    async def judge(self) -> None:
        """Hold marks and output against all committed records."""
        arena = self._arena
        records = await asyncio.to_thread(arena.broker.records, TOPIC)
        judge(self.history, records, await _marks(arena, *MARKS), arena.batches())
        landed = await asyncio.to_thread(arena.broker.records, OBSERVED)
        for by in OBSERVERS:
            judged = select_seen(landed, self._seen) if by == "ingestion" else landed
            judge_others(self.history, (OBSERVED, by), judged, await _marks(arena, OBSERVED, by))
        if NOTED_FAR in self.history.chains:
            far = await asyncio.to_thread(arena.far.records, TOPIC)
            judge_others(self.history, NOTED_FAR, far, await _marks(arena, *NOTED_FAR))
            logs, members = arena.controller.get(TOPIC)["logs"], arena.controller.writers(TOPIC)
            self.history.add_broken(TOPIC, judge_facts(logs=logs, members=members, stray=STRAY))

    def count_tried(self) -> dict[str, int]:
        """Return the counts of the trial."""
        counts = self.history.counts
        return {
            **{each: counts[each] for each in TRIED},
            "windows wrong": counts["broke results are exact"],
            "records below a lower and beyond its cut": counts["broke marks are sound"],
        }

    async def _follow_marks(self, caller: Caller, stream: str, domain: str) -> None:
        try:
            await Reading(self.history, self._drained).follow(caller, stream, domain)
        except NoAnswerError as error:
            self.history.broke(ANSWERS, "the controller", error)

    async def _follow_output(self) -> None:
        """See when the query gives windows out, and which is the last."""
        chain = self.history.chains[OUTPUT]
        while not self._drained.is_set():
            seconds = [row.second for runs in self._arena.batches().values() for row in runs[-1]]
            lower = 1000 * max(seconds, default=-1) + WINDOW_MS
            if seconds and (chain.lower is None or lower > chain.lower):
                chain.lower = lower
                chain.grew_at.append(now())
            await asyncio.sleep(LOOK_S)

    async def _drain(self) -> None:
        """Have the producers end, and wait until the query has given out the last window."""
        end = time.time_ns() // 1_000_000 // WINDOW_MS * WINDOW_MS + END_MS
        self._arena.end_at(end)
        if not await wait_until_true(lambda: not self._arena.list_unfinished(), self.moves_s):
            self.history.broke(watermarks_advance, "producers", self._arena.list_unfinished())
        for where in (MARKS, OUTPUT, NOTED_FAR):
            if where in self.history.chains:
                await self._wait_for(where, end)

    async def _wait_for(self, where: tuple[str, str], end: int) -> None:
        chain = self.history.chains[where]
        if not await wait_until_true(lambda: (chain.lower or 0) >= end, self.moves_s):
            self.history.broke(watermarks_advance, "/".join(where), f"{chain.lower}, not {end}")


def judge(
    history: History, records: Sequence[Record], marks: Sequence[Json], batches: Batches
) -> None:
    """Compare marks and output with all committed records, and note the broken laws."""
    _judge_marks(history, MARKS, records, marks)
    expected = count_records(records)
    facts = {"expected": expected, "output": find_output(batches), "batches": batches}
    history.add_broken(TOPIC, judge_facts(**facts))
    history.counts["records committed"] = len(records)
    history.counts["marks checked"] = len(marks)
    history.counts["windows checked"] = len(expected)
    history.counts["batches run again"] = sum(len(runs) > 1 for runs in batches.values())


def judge_others(
    history: History, where: tuple[str, str], records: Sequence[Record], marks: Sequence[Json]
) -> None:
    """Compare the marks of an observer, or of the other cluster, with the records they are of."""
    _judge_marks(history, where, records, marks)
    whose = "of the other cluster" if where == NOTED_FAR else "observed"
    history.counts[f"records {whose}"] += len(records)
    history.counts[f"marks {whose}"] += len(marks)


def _judge_marks(
    history: History, where: tuple[str, str], records: Sequence[Record], marks: Sequence[Json]
) -> None:
    answers = [*history.chains[where].answers, Answer(0, marks)]
    found = judge_facts(marks=marks, rows=records, answers=answers, silent=None)
    history.add_broken("/".join(where), found)


async def _marks(arena: KafkaArena, stream: str, domain: str) -> list[Json]:
    marks = await asyncio.to_thread(arena.controller.all_marks, stream, domain)
    return [dict(mark) for mark in marks]


def select_seen(records: Sequence[Record], seen: Seen) -> list[Record]:
    """Return the records that a consumer has seen, each at the time of that."""
    found = ((record, seen.get((record.partition, record.offset))) for record in records)
    return [record._replace(time=time) for record, time in found if time is not None]


TRIED = (
    "rounds written",
    "transactions aborted",
    "records committed",
    "marks checked",
    "records observed",
    "marks observed",
    "records of the other cluster",
    "marks of the other cluster",
    "strays refused",
    "windows checked",
    "batches run again",
)


def make_kafka_trial(
    directory: Path,
    plan: Plan,
    announce: Callable[[str], None] = lambda _: None,
    writers: Mapping[str, Kind] = WRITERS,
    *,
    relayed: bool = False,
) -> Trial[KafkaArena]:
    """Return a trial of these writers, with a topic that is observed in each way."""
    chance = random.Random(f"arena {plan.seed}")
    arena = KafkaArena(directory, chance, writers, relayed=relayed)
    far = [NOTED_FAR] if "far" in writers.values() else []
    chains = [MARKS, OUTPUT, *far, *((OBSERVED, by) for by in OBSERVERS)]
    return Trial(arena, KAFKA_FAULTS, Queried(arena, chains), plan, announce)
