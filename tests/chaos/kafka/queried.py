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
from tests.chaos import checks
from tests.chaos.calls import Caller, NoAnswerError, comes_true
from tests.chaos.history import Chain, History, Journal, now
from tests.chaos.kafka.arena import FAR, OBSERVED, OBSERVERS, STRAY, TOPIC, WRITERS, KafkaArena
from tests.chaos.kafka.checks import (
    WINDOW_MS,
    Batches,
    changed_batches,
    lost_rows,
    output_tally,
    repeated_windows,
    true_tally,
    wrong_windows,
)
from tests.chaos.kafka.faults import KAFKA_FAULTS
from tests.chaos.kafka.seeing import Seeing, Seen
from tests.chaos.kafka.writing import Kind
from tests.chaos.reading import Reading
from tests.chaos.trial import Trial
from tests.chaos.turns import Plan
from tests.support.following import Answer, find_contradictions
from tests.support.kafka_judge import find_violations

NOTED_FAR = (FAR, "default")
MARKS, OUTPUT = (TOPIC, "default"), (TOPIC, "output")
"""What has to advance: the marks, and the windows that the query gives out."""

LOOK_S = 0.5
END_MS = 60_000
"""So far ahead of the clock all ends: no record but the last ones is in the last window."""


class Queried:
    """Producers and a query at work, and what the query's output and all marks have to be."""

    moves_s = 240.0
    """Longer than a driver takes to start on a busy machine."""

    def __init__(self, arena: KafkaArena, chains: Iterable[tuple[str, str]]) -> None:
        self._arena = arena
        self.history = History({}, chains={each: Chain() for each in chains})
        self._drained = asyncio.Event()
        self._seen: Seen = {}

    @asynccontextmanager
    async def at_work(self, _: Journal, chance: random.Random) -> AsyncIterator[None]:
        """Follow what comes of it, and have the query give out all in the end."""
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
            judged = in_sight(landed, self._seen) if by == "ingestion" else landed
            judge_others(self.history, (OBSERVED, by), judged, await _marks(arena, OBSERVED, by))
        if NOTED_FAR in self.history.chains:
            far = await asyncio.to_thread(arena.far.records, TOPIC)
            judge_others(self.history, NOTED_FAR, far, await _marks(arena, *NOTED_FAR))
            known = arena.controller.get(TOPIC)["logs"]
            judge_logs(self.history, known, arena.controller.writers(TOPIC))

    def tried(self) -> dict[str, int]:
        """Return how much there was of everything, and what was lost of it."""
        counts = self.history.counts
        return {
            **{each: counts[each] for each in TRIED},
            "windows wrong": counts["broke windows are true"],
            "records below a lower and beyond its cut": counts["broke marks are sound"]
            + counts["broke others are sound"],
        }

    async def _follow_marks(self, caller: Caller, stream: str, domain: str) -> None:
        try:
            await Reading(self.history, self._drained).follow(caller, stream, domain)
        except NoAnswerError as error:
            self.history.broke("answers", "the controller", error)

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
        if not await comes_true(lambda: not self._arena.unfinished(), self.moves_s):
            self.history.broke("all drains", "producers", self._arena.unfinished())
        for where in (MARKS, OUTPUT, NOTED_FAR):
            if where in self.history.chains:
                await self._wait_for(where, end)

    async def _wait_for(self, where: tuple[str, str], end: int) -> None:
        chain = self.history.chains[where]
        if not await comes_true(lambda: (chain.lower or 0) >= end, self.moves_s):
            self.history.broke("all drains", "/".join(where), f"{chain.lower}, not {end}")


def judge(
    history: History, records: Sequence[Record], marks: Sequence[Json], batches: Batches
) -> None:
    """Hold marks and output against all committed records, and remember what broke."""
    _judge_marks(history, MARKS, records, marks)
    true, output = true_tally(records), output_tally(batches)
    found = {
        "windows are true": wrong_windows(true, output),
        "windows come once": repeated_windows(batches),
        "batches stay": changed_batches(batches),
    }
    history.judged(TOPIC, found)
    history.counts["records committed"] = len(records)
    history.counts["marks checked"] = len(marks)
    history.counts["windows checked"] = len(true)
    history.counts["rows lost"] = lost_rows(true, output)
    history.counts["batches run again"] = sum(len(runs) > 1 for runs in batches.values())


def judge_others(
    history: History, where: tuple[str, str], records: Sequence[Record], marks: Sequence[Json]
) -> None:
    """Hold the marks of an observer, or of the other cluster, against what their time is of."""
    _judge_marks(history, where, records, marks)
    whose = "of the other cluster" if where == NOTED_FAR else "observed"
    history.counts[f"records {whose}"] += len(records)
    history.counts[f"marks {whose}"] += len(marks)


def _judge_marks(
    history: History, where: tuple[str, str], records: Sequence[Record], marks: Sequence[Json]
) -> None:
    found: dict[str, Sequence[object]] = {
        "marks are sound" if where == MARKS else "others are sound": find_violations(
            marks, records
        ),
        "followers": find_contradictions([*history.chains[where].answers, Answer(0, marks)]),
        "no writer is excluded": checks.excluded(marks, silent=None),
    }
    history.judged("/".join(where), found)


async def _marks(arena: KafkaArena, stream: str, domain: str) -> list[Json]:
    marks = await asyncio.to_thread(arena.controller.all_marks, stream, domain)
    return [dict(mark) for mark in marks]


def judge_logs(history: History, logs: Sequence[str], writers: Mapping[str, Json]) -> None:
    """Check that the stream knows one log, and that the stray producer is no member."""
    strays = [] if len(logs) == 1 and STRAY not in writers else [(logs, sorted(writers))]
    history.judged(TOPIC, {"streams are of one log": strays})


def in_sight(records: Sequence[Record], seen: Seen) -> list[Record]:
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
    "rows lost",
)


def of_kafka(
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
