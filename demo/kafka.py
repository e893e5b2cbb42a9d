"""The carriers on a Kafka broker, as producers with transactions.

A partition is added meanwhile, and a carrier is killed in its transaction.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.readwriter import DataStreamReader

from demo.data import Flight
from demo.replay import DOMAIN, EVENT_TIME, PATIENCE_S, SEGMENTS, STREAM, close_soon, create_stream
from demo.schedule import Step
from noted_time.kafka import Topic
from spark_integration import KafkaRecords, Noted, WatermarkPolicy, read_noted_kafka
from tools.trials.kafka import Broker
from writer_client import KafkaNotedProducer

KEPT_FOR_EVER = {"retention.ms": -1}
COMMITTED = {"kafka.isolation.level": "read_committed"}


class Carriers:
    """The carriers of a new topic; time waits for all."""

    def __init__(self, broker: Broker, controller_url: str, names: Sequence[str]) -> None:
        self._broker = broker
        self._url = controller_url
        broker.create(STREAM, SEGMENTS, KEPT_FOR_EVER)
        create_stream(controller_url, expected=names)
        self._topic = Topic(broker.config, STREAM)
        self._partitions = SEGMENTS
        self._producers = {name: self._producer(name) for name in names}

    def take(self, step: Step) -> Mapping[int, int]:
        """Let every carrier produce its landed flights, and note; return the ends of partitions."""
        for number, (name, producer) in enumerate(self._producers.items()):
            with producer.transaction():
                for flight in step.landed.get(name, ()):
                    partition = (flight.landing + number) % self._partitions
                    producer.produce(
                        value=record(flight), event_time=flight.departure, partition=partition
                    )
                producer.note_time(step.notes[name])
        for producer in self._producers.values():
            producer.flush(PATIENCE_S)
        return self._topic.look().ends

    def finish(self) -> None:
        """Let the carriers finish, after their notes are durable."""
        for producer in self._producers.values():
            producer.finish(PATIENCE_S)

    def close(self) -> None:
        for producer in self._producers.values():
            close_soon(producer)

    def grow(self) -> str:
        """Add a partition, and return a sentence."""
        self._partitions += 1
        self._broker.grow(STREAM, self._partitions)
        for producer in self._producers.values():
            while _count_partitions(producer) < self._partitions:
                continue  # a producer refuses a partition that it has not seen
        return "A partition was added."

    def kill_one(self, flights_by_name: Mapping[str, Sequence[Flight]]) -> str:
        """Let a process take over a carrier's name, and kill it in its transaction."""

        def count_flights(carrier: str) -> int:
            return len(flights_by_name[carrier])

        name = max(flights_by_name, key=count_flights)
        self._producers[name].close()
        rows = json.dumps([(flight.departure, record(flight)) for flight in flights_by_name[name]])
        words = ["-m", "demo.killed_carrier", self._broker.address, STREAM, self._url, name, rows]
        with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE) as carrier:
            assert carrier.stdout is not None  # noqa: S101 - it is a pipe
            carrier.stdout.readline()
            carrier.kill()
        self._producers[name] = self._producer(name)
        return (
            f"{name} was killed (-9) with {count_flights(name)} flights in an open "
            "transaction and started again: Kafka aborted the transaction, and the flights were "
            "written again."
        )

    def _producer(self, name: str) -> KafkaNotedProducer:
        config = {**self._broker.config, "transactional.id": name}
        return KafkaNotedProducer(config, STREAM, name, controller=self._url)


def _count_partitions(producer: KafkaNotedProducer) -> int:
    """Return how many partitions of the topic a producer sees."""
    return len(producer.kafka.list_topics(STREAM).topics[STREAM].partitions)


@contextmanager
def start_carriers(broker: Broker, controller_url: str, names: Sequence[str]) -> Iterator[Carriers]:
    """Yield the carriers of a new topic, which finish at the end."""
    with ExitStack() as stack:
        carriers = Carriers(broker, controller_url, names)
        stack.callback(carriers.close)
        yield carriers
        carriers.finish()


def read_noted(
    spark: SparkSession, bootstrap: str, url: str, checkpoint: str, domain: str = DOMAIN
) -> DataFrame:
    """Return the flights of the topic under the noted watermark of a domain."""
    return read_noted_kafka(
        spark,
        KafkaRecords(STREAM, bootstrap, parse=parse_flights, options=COMMITTED),
        Noted(controller=url),
        checkpoint_location=checkpoint,
        event_time=EVENT_TIME,
        domain=domain,
        policy=WatermarkPolicy(strict=False),
    )


def read(reader: DataFrameReader | DataStreamReader, bootstrap: str) -> DataFrame:
    """Return the committed flights of the topic without a watermark."""
    options = {"subscribe": STREAM, "kafka.bootstrap.servers": bootstrap, **COMMITTED}
    return parse_flights(reader.format("kafka").options(**options).load())


def record(flight: Flight) -> str:
    """Return the value of a flight's record, whose timestamp is the departure."""
    return json.dumps({"origin": flight.origin, "landing": flight.landing})


def parse_flights(records: DataFrame) -> DataFrame:
    flight = F.from_json(F.col("value").cast("string"), "origin STRING")
    return records.select(F.col("timestamp").alias(EVENT_TIME), flight["origin"].alias("origin"))
