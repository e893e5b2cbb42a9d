"""A producer in a separate process, which keeps its promise and ends when anything fails.

A supervisor starts it again, under the same name. It writes and notes until the file `end` says at
which time all is to end; then it writes a last record below that time, notes it and finishes.
Producers to the observed topic do not note.
"""

import json
import os
import random
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from confluent_kafka import Producer

from noted_time import AnotherLog
from tools.trials import java
from tools.trials.java import JavaProducer
from writer_client import KafkaNotedProducer

Kind = Literal["transactions", "plain", "java", "far", "astray", "landing"]

TRANSACTION_MS = 10_000
"""After this long without a word of its producer the broker aborts a transaction."""

RECORDS = range(1, 60)
STRAY_S = 2.0
PAUSE_S = (0.02, 0.25)
"""How long a producer rests between two rounds, and amid a transaction."""

NOTES = 0.6
ABORTS = 0.15
FLUSHES = 0.1
COMMITS = 0.3
"""How often a round of records ends with a note, in an abort, is flushed, or ends a transaction."""


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a producer: `kind` says how it writes, `end` is the file to look for.

    `config` connects it. One in Java has the interceptor, which notes the clock, and knows nothing
    of noted time. One that is far writes to the other cluster, and one that went astray would note
    of that to the stream of the first.
    """

    config: Mapping[str, str]
    controller: str
    topic: str
    stream: str
    writer: str
    kind: Kind
    end: str

    def ends_at(self) -> int | None:
        """Return the end of the trial, `None` before that is known."""
        file = Path(self.end)
        return int(file.read_text()) if file.exists() else None


class Aborted(Exception):
    """The transaction is given up, as a program may decide."""


def write_in_java(parameters: Given) -> None:
    """Do the same by a process in Java, which notes by itself and is idle at its end.

    Raises `RuntimeError` if that ends otherwise, or notes no more.
    """
    settings = {**parameters.config, "linger.ms": 20}
    directory = Path(parameters.end).with_name(f"java-{parameters.writer}-{os.getpid()}")
    own_settings = settings | java.interceptor(parameters.controller, parameters.writer)
    producer = JavaProducer(directory, parameters.topic, own_settings)
    chance = random.Random()
    while (end := parameters.ends_at()) is None:
        producer.send(*[(None, "")] * chance.choice(RECORDS))
        if chance.random() < FLUSHES:
            producer.flush()
        _count("rounds written")
        time.sleep(chance.uniform(*PAUSE_S))
    producer.send((end - 1, ""))
    if producer.close() or "no more is noted" in producer.log():
        raise RuntimeError(producer.log())


def write(parameters: Given) -> None:
    """Write rounds of records until the end is near, then the last record."""
    with _producer(parameters) as producer:
        noted = _now_ms()
        chance = random.Random()
        while (end := parameters.ends_at()) is None:
            try:
                noted = _round(producer, parameters, noted, chance)
            except Aborted:
                _count("transactions aborted")
            else:
                _count("rounds written")
            time.sleep(chance.uniform(*PAUSE_S))
        with _transaction(producer, parameters):
            producer.produce(value=b"", event_time=end - 1)
        producer.flush()
        producer.note_time(end)
        producer.finish()


def write_astray(parameters: Given) -> None:
    """Try to note of another cluster's topic again and again; raises if that begins."""
    while parameters.ends_at() is None:
        try:
            with _producer(parameters):
                raise RuntimeError(f"writer {parameters.writer!r} notes of another log")
        except AnotherLog:
            _count("strays refused")
        time.sleep(STRAY_S)


def land(parameters: Given) -> None:
    """Write records that the broker stamps: two producers in transactions, which overlap."""
    config = {**parameters.config, "topic.metadata.refresh.interval.ms": 1000, "linger.ms": 0}
    limit = {"transaction.timeout.ms": TRANSACTION_MS}
    plain = Producer(config)
    chance = random.Random()
    open_producers = set[Producer]()
    transactional = [
        Producer({**config, **limit, "transactional.id": f"{parameters.writer}-{n}"})
        for n in range(2)
    ]
    for each in transactional:
        each.init_transactions(60)
    while parameters.ends_at() is None:
        producer = chance.choice([plain, *transactional])
        if producer not in {plain, *open_producers}:
            producer.begin_transaction()
            open_producers.add(producer)
        for _ in range(chance.choice(RECORDS)):
            producer.produce(parameters.topic, b"")
        producer.flush(60)
        if producer in open_producers and chance.random() < COMMITS:
            open_producers.remove(producer)
            is_aborted = chance.random() < ABORTS
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(60)
        time.sleep(chance.uniform(*PAUSE_S))
    for each in open_producers:
        each.commit_transaction(60)


def _producer(parameters: Given) -> KafkaNotedProducer:
    config: dict[str, object] = dict(parameters.config)
    if parameters.kind == "transactions":
        config |= {"transactional.id": parameters.writer, "transaction.timeout.ms": TRANSACTION_MS}
    return KafkaNotedProducer(
        config,
        parameters.topic,
        parameters.writer,
        controller=parameters.controller,
        stream=parameters.stream,
        wait=0 if parameters.kind == "plain" else None,
    )


def _round(
    producer: KafkaNotedProducer, parameters: Given, min_time: int, chance: random.Random
) -> int:
    """Write some records from the noted time on, in any order; return the time noted last."""
    upto = _now_ms()
    with _transaction(producer, parameters):
        for _ in range(chance.choice(RECORDS)):
            producer.produce(value=b"", event_time=chance.randint(min_time, upto))
        if parameters.kind == "transactions":
            time.sleep(chance.uniform(*PAUSE_S))
        if chance.random() < NOTES:
            producer.note_time(upto)
            min_time = upto
        if parameters.kind == "transactions" and chance.random() < ABORTS:
            raise Aborted
    if parameters.kind in {"plain", "far"} and chance.random() < FLUSHES:
        producer.flush()
    return min_time


def _transaction(producer: KafkaNotedProducer, parameters: Given) -> AbstractContextManager[None]:
    return producer.transaction() if parameters.kind == "transactions" else nullcontext()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _count(name: str) -> None:
    print(json.dumps(name), flush=True)  # noqa: T201 - the trial counts these lines


if __name__ == "__main__":
    asked = Given(**json.loads(sys.argv[1]))
    {"java": write_in_java, "astray": write_astray, "landing": land}.get(asked.kind, write)(asked)
