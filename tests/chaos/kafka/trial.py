"""One trial of Kafka, from the start of the broker to the verdict."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from examples.trials.kafka import Record
from tests.chaos import checks
from tests.chaos.calls import Caller, NoAnswerError, comes_true
from tests.chaos.history import Chain, History, Journal, Json, now
from tests.chaos.kafka.arena import (
    FAR,
    OBSERVED,
    OBSERVERS,
    STRAY,
    TOPIC,
    WRITERS,
    KafkaArena,
    Ways,
)
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
from tests.chaos.kafka.seeing import Seeing
from tests.chaos.kafka.writing import Kind
from tests.chaos.pulse import Pulse
from tests.chaos.reading import Reading
from tests.chaos.turns import Plan, Turns
from tests.chaos.verdict import Verdict, verdict
from tests.support.judge import broken_links
from tests.support.kafka_judge import violations

NOTED_FAR = (FAR, "default")
MARKS, OUTPUT = (TOPIC, "default"), (TOPIC, "output")
"""What has to advance: the marks, and the windows that the query gives out."""

MOVES_S = 240.0
"""Longer than a driver takes to start on a busy machine."""

LOOK_S = 0.5
END_MS = 60_000
"""So far ahead of the clock all ends: no record but the last ones is in the last window."""


@dataclass
class KafkaTrial:
    """Producers and a query at work while one turn of faults follows another."""

    arena: KafkaArena
    history: History
    turns: Turns[KafkaArena]
    announce: Callable[[str], None]
    drained: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Do it all; returns when every law has been judged."""
        seeing = Seeing(self.arena.broker.config, OBSERVED)
        async with httpx.AsyncClient(trust_env=False) as http, asyncio.TaskGroup() as tasks:
            caller = Caller(http, [self.arena.url], self.history, random.Random(1))
            for chain in self.history.chains.keys() - {OUTPUT}:
                tasks.create_task(self._follow_marks(caller, *chain))
            tasks.create_task(self._follow_output())
            seen = tasks.create_task(asyncio.to_thread(seeing.run))
            tasks.create_task(self.arena.supervise(self.drained))
            try:
                await self.turns.run()
                await self._drain()
            finally:
                self.drained.set()
                seeing.stop()
        self.announce("judging")
        records = await asyncio.to_thread(self.arena.broker.records, TOPIC)
        marks = await asyncio.to_thread(self.arena.controller.all_marks, TOPIC)
        judge(self.history, records, [dict(mark) for mark in marks], self.arena.batches())
        landed = await asyncio.to_thread(self.arena.broker.records, OBSERVED)
        for by in self.arena.ways:
            noted = await asyncio.to_thread(self.arena.controller.all_marks, OBSERVED, by)
            judged = in_sight(landed, seen.result()) if by == "ingestion" else landed
            judge_others(self.history, (OBSERVED, by), judged, [dict(mark) for mark in noted])
        if NOTED_FAR in self.history.chains:
            far = await asyncio.to_thread(self.arena.far.records, TOPIC)
            marks = await asyncio.to_thread(self.arena.controller.all_marks, FAR)
            judge_others(self.history, NOTED_FAR, far, [dict(mark) for mark in marks])
            known = self.arena.controller.get(TOPIC)["logs"]
            judge_logs(self.history, known, self.arena.controller.writers(TOPIC))

    async def _follow_marks(self, caller: Caller, stream: str, domain: str) -> None:
        try:
            await Reading(self.history, self.drained).follow(caller, stream, domain)
        except NoAnswerError as error:
            self.history.broke("answers", "the controller", error)

    async def _follow_output(self) -> None:
        """See when the query gives windows out, and which is the last."""
        chain = self.history.chains[OUTPUT]
        while not self.drained.is_set():
            seconds = [row.second for runs in self.arena.batches().values() for row in runs[-1]]
            lower = 1000 * max(seconds, default=-1) + WINDOW_MS
            if seconds and (chain.lower is None or lower > chain.lower):
                chain.lower = lower
                chain.grew_at.append(now())
            await asyncio.sleep(LOOK_S)

    async def _drain(self) -> None:
        """Have the producers end, and wait until the query has given out the last window."""
        self.announce("draining")
        end = time.time_ns() // 1_000_000 // WINDOW_MS * WINDOW_MS + END_MS
        self.arena.end_at(end)
        if not await comes_true(lambda: not self.arena.unfinished(), MOVES_S):
            self.history.broke("all drains", "producers", self.arena.unfinished())
        for where in (MARKS, OUTPUT, NOTED_FAR):
            if where in self.history.chains:
                await self._wait_for(where, end)

    async def _wait_for(self, where: tuple[str, str], end: int) -> None:
        chain = self.history.chains[where]
        if not await comes_true(lambda: (chain.lower or 0) >= end, MOVES_S):
            self.history.broke("all drains", "/".join(where), f"{chain.lower}, not {end}")


def judge(
    history: History,
    records: Sequence[Record],
    marks: Sequence[Json],
    batches: Batches,
) -> None:
    """Hold marks and output against all committed records, and remember what broke."""
    true, output = true_tally(records), output_tally(batches)
    found: dict[str, Sequence[object]] = {
        "marks are sound": violations(marks, records),
        "chains": broken_links(marks),
        "marks stay": checks.changed(history.chains[MARKS].seen, marks),
        "no writer is excluded": checks.excluded(marks, silent=None),
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
    found: dict[str, Sequence[object]] = {
        "others are sound": violations(marks, records),
        "chains": broken_links(marks),
        "marks stay": checks.changed(history.chains[where].seen, marks),
        "no writer is excluded": checks.excluded(marks, silent=None),
    }
    history.judged("/".join(where), found)
    whose = "of the other cluster" if where == NOTED_FAR else "observed"
    history.counts[f"records {whose}"] += len(records)
    history.counts[f"marks {whose}"] += len(marks)


def judge_logs(history: History, logs: Sequence[str], writers: Mapping[str, Json]) -> None:
    """Check that the stream knows one log, and that the stray producer is no member."""
    strays = [] if len(logs) == 1 and STRAY not in writers else [(logs, sorted(writers))]
    history.judged(TOPIC, {"streams are of one log": strays})


def in_sight(records: Sequence[Record], seen: Mapping[tuple[int, int], int]) -> list[Record]:
    """Return the records that a consumer has seen, each at the time of that."""
    found = ((record, seen.get((record.partition, record.offset))) for record in records)
    return [record._replace(time=time) for record, time in found if time is not None]


def tried(history: History, kills: int) -> dict[str, int]:
    """Return how much there was of everything, and what was lost of it."""
    counts = history.counts
    return {
        "processes killed (-9)": kills,
        **{each: counts[each] for each in TRIED},
        "windows wrong": counts["broke windows are true"],
        "records below a lower and beyond its cut": counts["broke marks are sound"]
        + counts["broke others are sound"],
    }


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


async def hold(  # noqa: PLR0913 - all but two have defaults
    directory: Path,
    plan: Plan,
    announce: Callable[[str], None] = lambda _: None,
    writers: Mapping[str, Kind] = WRITERS,
    ways: Ways = OBSERVERS,
    *,
    relayed: bool = False,
) -> Verdict:
    """Hold a trial, and leave its history in the directory."""
    begun, chance, history = now(), random.Random(plan.seed), History({})
    far = [NOTED_FAR] if "far" in writers.values() else []
    chains = [MARKS, OUTPUT, *far, *((OBSERVED, by) for by in ways)]
    history.chains |= {each: Chain() for each in chains}
    with Journal(directory) as journal, Pulse() as pulse:
        arena = KafkaArena(
            directory, random.Random(chance.random()), writers, ways, relayed=relayed
        )
        try:
            async with arena:
                turns = Turns(arena, KAFKA_FAULTS, history, chance, plan, announce, MOVES_S)
                await KafkaTrial(arena, history, turns, announce).run()
        finally:
            history.counts.update(arena.counts)
            journal.keep(history)
    return verdict(
        history,
        seed=plan.seed,
        seconds=now() - begun,
        tried=tried(history, arena.kills),
        share=pulse.share,
    )
