"""The cost of observing a Kafka topic: looks at a hundred partitions, and reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from noted_time.kafka.connecting import FATAL_ONLY
from noted_time.kafka.records import BATCH_RECORDS, CONSUMER_SETTINGS
from noted_time_extensions.observe import KafkaFields
from writer_client import KafkaEnds, KafkaTimes

if TYPE_CHECKING:
    from tools.trials.kafka import Broker

MANY = 100
FEW = 4
LOOKS = 20
VALUE = '{"id": %d, "carrier": "UA", "origin": "EWR", "departure": %d, "delay": 17}'
BEGUN_MS = 1_357_034_400_000
LOOK = Target("value", "at most", 2.0)
READ = Target("value", "at least", 600_000)


def measure_looks(broker: Broker, run: Run, records: int) -> list[Figure]:
    """Measure looks that read nothing, and reads of so many records."""
    return [*_looks(broker, run), _fields(broker, run, records)]


def _looks(broker: Broker, run: Run) -> Iterator[Figure]:
    broker.create("looked-at", MANY)
    rows = [(partition, "", BEGUN_MS) for partition in range(MANY)]
    for source, look in (
        ("ingestion", KafkaEnds(broker.config, "looked-at")),
        ("timestamp", KafkaTimes(broker.config, "looked-at")),
    ):
        run.say(f"Kafka: looking by {source}")
        look_samples = [_look_ms(broker, look, rows) for _ in range(run.repeats(full=7, quick=3))]
        name = f"Kafka: CPU of a look at {MANY} partitions by {source}"
        remark = "each has a new record at each look"
        yield Figure(name, "ms", Samples(tuple(look_samples)), target=LOOK, remark=remark)


def _look_ms(broker: Broker, look: Callable[[], object], rows: list[tuple[int, str, int]]) -> float:
    """Return the average CPU ms of a look."""
    spent_s = 0.0
    for _ in range(LOOKS):
        broker.send("looked-at", rows)
        begun_s = time.process_time()
        look()
        spent_s += time.process_time() - begun_s
    return spent_s / LOOKS * 1000


def _fields(broker: Broker, run: Run, records: int) -> Figure:
    run.say(f"Kafka: writing {records} records with a time in them")
    broker.create("fields", FEW)
    _write(broker, records)
    field_rates = []
    bare = []
    for number in range(run.repeats(full=5, quick=1)):
        run.say(f"Kafka: reading times, round {number + 1}")
        field = KafkaFields(broker.config, "fields", "departure", start="earliest")
        field_rates.append(_rate(records, _positions(field)))
        bare.append(_rate(records, _bare(broker)))
    ours = Samples(tuple(field_rates))
    floor = Samples(tuple(bare))
    name = "Kafka: times in records, a second of CPU"
    floor_is = "a consumer of the values alone"
    return Figure(name, "records/s", ours, floor, floor_is, READ)


def _write(broker: Broker, records: int) -> None:
    producer = Producer({**broker.config, "queue.buffering.max.messages": records + 1})
    for number in range(records):
        value = VALUE % (number, BEGUN_MS + number)
        producer.produce("fields", value, partition=number % FEW, timestamp=BEGUN_MS + number)
    producer.flush()


def _positions(field: KafkaFields) -> Iterator[int]:
    """Yield how many records were read so far."""
    while True:
        look_result = field()
        _check(look_result.newest)
        yield sum(look_result.ends.values())


def _check(newest: Mapping[int, int | None]) -> None:
    if any(time is not None and time < BEGUN_MS for time in newest.values()):
        raise WrongResult(f"the newest times are {newest}")


def _bare(broker: Broker) -> Iterator[int]:
    consumer = Consumer({"log_level": FATAL_ONLY, **broker.config, **CONSUMER_SETTINGS})
    consumer.assign([TopicPartition("fields", partition, 0) for partition in range(FEW)])
    read_count = 0
    while True:
        messages = consumer.consume(BATCH_RECORDS, 1)
        read_count += sum(
            message.value() is not None for message in messages if message.error() is None
        )
        yield read_count


def _rate(records: int, read_counts: Iterator[int]) -> float:
    """Return the records a second of CPU."""
    begun_s = time.process_time()
    for so_far in islice(read_counts, 10_000):
        if so_far >= records:
            return records / (time.process_time() - begun_s)
    raise WrongResult(f"not all of {records} records were read")
