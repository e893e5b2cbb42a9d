"""The trial of Kafka: producers and a query at work, and the laws of `docs/explain/chaos.md`."""

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Consumer

from tests.trials.actors.calls import Caller, NoAnswerError, wait_until_true
from tests.trials.actors.history import Chain, History, NoteRecorder, now
from tests.trials.actors.reading import Reading
from tests.trials.chaos.kafka.arena import FAR, OBSERVED, OBSERVERS, STRAY, TOPIC, KafkaArena
from tests.trials.chaos.kafka.faults import KAFKA_FAULTS
from tests.trials.chaos.kafka.tally import WINDOW_MS, count_records, find_output
from tests.trials.chaos.trial import Plan, Trial, keep_silent
from tests.trials.facts import Answer
from tests.trials.judge import judge as judge_facts
from tests.trials.laws import ANSWERS, watermarks_advance
from tools.trials.kafka import Record

OUTPUT = (TOPIC, "output")
"""The windows of the query, which have to advance like marks."""

NOTED = ((TOPIC, "default"), (FAR, "default"))
CHAINS = (*NOTED, *((OBSERVED, by) for by in OBSERVERS))
WHOSE = {TOPIC: "of the topic", FAR: "of the other cluster", OBSERVED: "observed"}

LOOK_S = 0.5
END_MS = 60_000
"""So far ahead of the clock all ends: no record but the last ones is in the last window."""


Seen = Mapping[tuple[int, int], int]
"""When a record was in sight at the latest, in ms, by partition and offset."""


class Queried:
    """Producers and a query at work, and the laws of their marks and output."""

    moves_s = 240.0
    """Longer than a driver takes to start on a busy machine."""

    def __init__(self, arena: KafkaArena) -> None:
        self._arena = arena
        self.history = History({}, chains={key: Chain() for key in (*CHAINS, OUTPUT)})
        self._drained = asyncio.Event()
        self._seen: Seen = {}

    @asynccontextmanager
    async def work(self, _: NoteRecorder, chance: random.Random) -> AsyncIterator[None]:
        """Follow marks and output, and have the query write all windows in the end."""
        arena = self._arena
        stopping = threading.Event()
        async with httpx.AsyncClient(trust_env=False) as http, asyncio.TaskGroup() as tasks:
            caller = Caller(http, [arena.calls.url], self.history, chance)
            for chain in CHAINS:
                tasks.create_task(self._follow_marks(caller, *chain))
            tasks.create_task(self._follow_output())
            look_task = tasks.create_task(
                asyncio.to_thread(see, arena.broker.config, OBSERVED, stopping)
            )
            tasks.create_task(arena.supervise(self._drained))
            try:
                yield
                await self._drain()
            finally:
                self._drained.set()
                stopping.set()
        self._seen = look_task.result()

    async def judge(self) -> None:
        """Hold marks and output against all committed records."""
        arena = self._arena
        history = self.history
        counts = self.history.counts
        topics = {TOPIC: (arena.broker, TOPIC), OBSERVED: (arena.broker, OBSERVED)}
        topics[FAR] = (arena.far, TOPIC)
        records = {
            stream: await asyncio.to_thread(broker.records, topic)
            for stream, (broker, topic) in topics.items()
        }
        for stream, domain in CHAINS:
            rows = records[stream]
            if domain == "ingestion":
                rows = select_seen(rows, self._seen)
            marks = await asyncio.to_thread(arena.calls.all_marks, stream, domain)
            answers = [*history.chains[stream, domain].answers, Answer(0, marks)]
            broken_laws = judge_facts(marks=marks, rows=rows, answers=answers, silent=None)
            history.add_broken(f"{stream}/{domain}", broken_laws)
            counts[f"records {WHOSE[stream]}"] += len(rows)
            counts[f"marks {WHOSE[stream]}"] += len(marks)
        expected = count_records(records[TOPIC])
        batches = arena.batches()
        result = judge_facts(expected=expected, output=find_output(batches), batches=batches)
        logs = arena.calls.get(TOPIC)["logs"]
        members = arena.calls.writers(TOPIC)
        history.add_broken(TOPIC, [*result, *judge_facts(logs=logs, members=members, stray=STRAY)])
        counts["windows checked"] = len(expected)
        counts["batches run again"] = sum(len(runs) > 1 for runs in batches.values())

    def count_tried(self) -> dict[str, int]:
        """Return the counts of the trial."""
        return {count_name: self.history.counts[count_name] for count_name in TRIED}

    async def _follow_marks(self, caller: Caller, stream: str, domain: str) -> None:
        try:
            await Reading(self.history, self._drained).follow(caller, stream, domain)
        except NoAnswerError as error:
            self.history.broke(ANSWERS, "the controller", error)

    async def _follow_output(self) -> None:
        """See when the query gives windows out, and which is the last."""
        chain = self.history.chains[OUTPUT]
        while not self._drained.is_set():
            seconds = [row.second for row in find_output(self._arena.batches())]
            if seconds:
                chain.grow(1000 * max(seconds) + WINDOW_MS, now())
            await asyncio.sleep(LOOK_S)

    async def _drain(self) -> None:
        """Have the producers end, and wait until the query has given out the last window."""
        end = time.time_ns() // 1_000_000 // WINDOW_MS * WINDOW_MS + END_MS
        self._arena.end_at(end)
        if not await wait_until_true(lambda: not self._arena.list_unfinished(), self.moves_s):
            self.history.broke(watermarks_advance, "producers", self._arena.list_unfinished())
        for key in (*NOTED, OUTPUT):
            has_reached = partial(self._has_reached, key, end)
            if not await wait_until_true(has_reached, self.moves_s):
                lower = self.history.chains[key].lower
                self.history.broke(watermarks_advance, "/".join(key), f"{lower}, not {end}")

    def _has_reached(self, key: tuple[str, str], end: int) -> bool:
        return (self.history.chains[key].lower or 0) >= end


def see(config: Mapping[str, Any], topic: str, stopping: threading.Event) -> Seen:
    """Consume the committed records of a topic until asked to stop, and return all of them.

    After an error of the group all comes once more.
    """
    seen_times: dict[tuple[int, int], int] = {}
    own_config = {
        "group.id": "seeing",
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 1000,
        "log_level": 2,
    }
    consumer = Consumer({**config, **own_config})
    consumer.subscribe([topic])
    while not stopping.is_set():
        messages = consumer.consume(1000, 0.1)
        seen_at = time.time_ns() // 1_000_000
        for message in messages:
            partition = message.partition()
            offset = message.offset()
            if message.error() is None and partition is not None and offset is not None:
                seen_times.setdefault((partition, offset), seen_at)
    consumer.close()
    return seen_times


def select_seen(records: Sequence[Record], seen_times: Seen) -> list[Record]:
    """Return the records that a consumer has seen, each at the time of that."""
    timed_records = (
        (record, seen_times.get((record.partition, record.offset))) for record in records
    )
    return [record._replace(time=time) for record, time in timed_records if time is not None]


TRIED = (
    "rounds written",
    "transactions aborted",
    "records of the topic",
    "marks of the topic",
    "records of the other cluster",
    "marks of the other cluster",
    "records observed",
    "marks observed",
    "strays refused",
    "windows checked",
    "batches run again",
)


def make_kafka_trial(
    directory: Path,
    plan: Plan,
    announce: Callable[[str], None] = keep_silent,
    *,
    relayed: bool = False,
) -> Trial[KafkaArena]:
    """Return a trial of producers of all kinds, with a topic that is observed in each way."""
    arena = KafkaArena(directory, random.Random(f"arena {plan.seed}"), relayed=relayed)
    return Trial(arena, KAFKA_FAULTS, Queried(arena), plan, announce)
