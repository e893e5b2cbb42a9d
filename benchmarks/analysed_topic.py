"""The time and memory of `noted-time analyse kafka` for ten million records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from noted_time.kafka.connecting import FATAL_ONLY
from noted_time.kafka.records import BATCH_RECORDS, CONSUMER_SETTINGS
from tools.trials.kafka import Broker, is_installed

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = "analysed"
PARTITIONS = 12
BEGUN_MS = 1_357_034_400_000
BEHIND_MS = 60_000
VALUE = '{"id": %d, "carrier": "UA", "origin": "EWR", "departure": %d, "delay": 17}'
WAYS = {"by timestamp": (), "by a field": ("--field", "departure", "--who", "key")}
TOOK = Target("value", "at most", 60)
MEMORY = Target("value", "at most", 1200)


def measure(run: Run, records: int = 10_000_000) -> list[Figure]:
    """Write the topic, then judge it each way in a process, and read it bare.

    Nothing is measured without a broker, which is reported.
    """
    if run.quick:
        records //= 20
    if not is_installed():
        run.say("left out: no Kafka broker is installed")
        return []
    with Broker(run.directory / "kafka") as broker:
        run.say(f"analyse: writing {records:,} records")
        write(broker, records)
        figures: list[Figure] = []
        for way in WAYS:
            figures += measure_analysis(broker, run, way, records)
        return figures


def write(broker: Broker, records: int) -> None:
    """Write records a second apart, some up to a minute behind."""
    broker.create(TOPIC, PARTITIONS)
    producer = Producer({**broker.config, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        stamp = BEGUN_MS + number - number * 7919 % BEHIND_MS
        while True:
            try:
                producer.produce(
                    TOPIC,
                    VALUE % (number, stamp),
                    key=str(number % 100),
                    partition=number % PARTITIONS,
                    timestamp=stamp,
                )
                break
            except BufferError:
                producer.poll(1)
    producer.flush()


def measure_analysis(broker: Broker, run: Run, way: str, records: int) -> list[Figure]:
    """Return the duration, a bare consumer's, and the largest memory."""
    took = []
    memory = []
    bare = []
    for number in range(run.repeats(full=3, quick=1)):
        run.say(f"analyse: {way}, round {number + 1}")
        seconds, mb = _analyse(broker, WAYS[way], records)
        took.append(seconds)
        memory.append(mb)
        bare.append(_bare(broker, records))
    ours = Samples(tuple(took))
    floor = Samples(tuple(bare))
    floor_is = "a consumer of the values alone"
    name = f"analyse {records:,} records of Kafka {way}"
    return [
        Figure(name, "s", ours, floor, floor_is, TOOK),
        Figure(f"{name}: memory", "MB", Samples(tuple(memory)), target=MEMORY),
    ]


def _analyse(broker: Broker, words: Sequence[str], records: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "noted_time_cli", "analyse", "kafka", broker.address, TOPIC]
    begun_s = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([*command, *words, "--json"], stdout=out)  # noqa: S603 - our own
        _, process.returncode, used = os.wait4(process.pid, 0)
        out.seek(0)
        analysis = json.load(out)
    if analysis["rows"] != records:
        raise WrongResult(f"{analysis['rows']} of {records} records were judged")
    return time.monotonic() - begun_s, used.ru_maxrss / 1000


def _bare(broker: Broker, records: int) -> float:
    consumer = Consumer({"log_level": FATAL_ONLY, **broker.config, **CONSUMER_SETTINGS})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    begun_s = time.monotonic()
    read_count = 0
    while read_count < records:
        messages = consumer.consume(BATCH_RECORDS, 1)
        read_count += sum(
            message.value() is not None for message in messages if message.error() is None
        )
    consumer.close()
    return time.monotonic() - begun_s
