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

NOTES, ABORTS, FLUSHES, COMMITS = 0.6, 0.15, 0.1, 0.3
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


def write_in_java(given: Given) -> None:
    """Do the same by a process in Java, which notes by itself and is idle at its end.

    Raises `RuntimeError` if that ends otherwise, or notes no more.
    """
    settings = {**given.config, "linger.ms": 20}
    directory = Path(given.end).with_name(f"java-{given.writer}-{os.getpid()}")
    own = settings | java.interceptor(given.controller, given.writer)
    producer, chance = JavaProducer(directory, given.topic, own), random.Random()
    while (end := given.ends_at()) is None:
        producer.send(*[(None, "")] * chance.choice(RECORDS))
        if chance.random() < FLUSHES:
            producer.flush()
        _count("rounds written")
        time.sleep(chance.uniform(*PAUSE_S))
    producer.send((end - 1, ""))
    if producer.close() or "no more is noted" in producer.log():
        raise RuntimeError(producer.log())


def write(given: Given) -> None:
    """Write rounds of records until the end is near, then the last record."""
    with _producer(given) as producer:
        noted, chance = _now_ms(), random.Random()
        while (end := given.ends_at()) is None:
            try:
                noted = _round(producer, given, noted, chance)
            except Aborted:
                _count("transactions aborted")
            else:
                _count("rounds written")
            time.sleep(chance.uniform(*PAUSE_S))
        with _transaction(producer, given):
            producer.produce(value=b"", event_time=end - 1)
        producer.flush()
        producer.note_time(end)
        producer.finish()


def write_astray(given: Given) -> None:
    """Try to note of another cluster's topic again and again; raises if that begins."""
    while given.ends_at() is None:
        try:
            with _producer(given):
                raise RuntimeError(f"writer {given.writer!r} notes of another log")
        except AnotherLog:
            _count("strays refused")
        time.sleep(STRAY_S)


def land(given: Given) -> None:
    """Write records that the broker stamps: two producers in transactions, which overlap."""
    config = {**given.config, "topic.metadata.refresh.interval.ms": 1000, "linger.ms": 0}
    limit = {"transaction.timeout.ms": TRANSACTION_MS}
    plain, chance, begun = Producer(config), random.Random(), set[Producer]()
    transactional = [
        Producer({**config, **limit, "transactional.id": f"{given.writer}-{n}"}) for n in range(2)
    ]
    for each in transactional:
        each.init_transactions(60)
    while given.ends_at() is None:
        producer = chance.choice([plain, *transactional])
        if producer not in {plain, *begun}:
            producer.begin_transaction()
            begun.add(producer)
        for _ in range(chance.choice(RECORDS)):
            producer.produce(given.topic, b"")
        producer.flush(60)
        if producer in begun and chance.random() < COMMITS:
            begun.remove(producer)
            is_aborted = chance.random() < ABORTS
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(60)
        time.sleep(chance.uniform(*PAUSE_S))
    for each in begun:
        each.commit_transaction(60)


def _producer(given: Given) -> KafkaNotedProducer:
    config: dict[str, object] = dict(given.config)
    if given.kind == "transactions":
        config |= {"transactional.id": given.writer, "transaction.timeout.ms": TRANSACTION_MS}
    return KafkaNotedProducer(
        config,
        given.topic,
        given.controller,
        given.writer,
        stream=given.stream,
        wait=0 if given.kind == "plain" else None,
    )


def _round(producer: KafkaNotedProducer, given: Given, noted: int, chance: random.Random) -> int:
    """Write some records from the noted time on, in any order; return the time noted last."""
    upto = _now_ms()
    with _transaction(producer, given):
        for _ in range(chance.choice(RECORDS)):
            producer.produce(value=b"", event_time=chance.randint(noted, upto))
        if given.kind == "transactions":
            time.sleep(chance.uniform(*PAUSE_S))
        if chance.random() < NOTES:
            producer.note_time(upto)
            noted = upto
        if given.kind == "transactions" and chance.random() < ABORTS:
            raise Aborted
    if given.kind in {"plain", "far"} and chance.random() < FLUSHES:
        producer.flush()
    return noted


def _transaction(producer: KafkaNotedProducer, given: Given) -> AbstractContextManager[None]:
    return producer.transaction() if given.kind == "transactions" else nullcontext()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _count(what: str) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 - the trial counts these lines


if __name__ == "__main__":
    asked = Given(**json.loads(sys.argv[1]))
    {"java": write_in_java, "astray": write_astray, "landing": land}.get(asked.kind, write)(asked)
