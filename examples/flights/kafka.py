"""The carriers on a Kafka broker, each a process with transactions, and how Spark reads them.

Two things go wrong on the way: a partition is added, and a carrier is killed in its transaction.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from examples.flights.replay import EVENT_TIME, PATIENCE_S, SEGMENTS, STREAM, create_stream
from examples.flights.surroundings import SurroundingsError, end, last_words, start
from noted_time.kafka.topic import Topic
from spark_integration import read_noted_kafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from examples.flights.data import Flight
    from examples.flights.schedule import Step
    from examples.flights.stage import Stage

KEPT_FOR_EVER = {"retention.ms": "-1"}
COMMITTED = {"kafka.isolation.level": "read_committed"}


class Carrier:
    """One carrier in a process of its own (`kafka_carrier`), which can be killed."""

    def __init__(self, name: str, stage: Stage) -> None:
        """Start the process, whose log is in the directory of the stage."""
        self._name, self._stage = name, stage
        self._start()

    def take(self, flights: Iterable[Flight], time: int | None) -> None:
        """Begin a stop: write the flights, and note `time`; without one, leave both undone."""
        rows = [[row.departure, {"origin": row.origin, "landing": row.landing}] for row in flights]
        self._lines.write(f"{json.dumps([rows, time])}\n")
        self._lines.flush()

    def wait(self) -> None:
        """Wait until the process has joined, or done its stop."""
        if not self._answers.readline():
            words = last_words(self._name, self._stage.directory)
            raise SurroundingsError(f"the carrier {self._name} ended:\n{words}")

    def kill(self) -> None:
        """Kill the process (-9), and start another one in its place."""
        self._process.kill()
        self.end()
        self._start()
        self.wait()

    def finish(self) -> None:
        """Let the carrier finish."""
        self._lines.close()
        self._process.wait(PATIENCE_S)

    def end(self) -> None:
        """End the process, whatever it is doing."""
        end(self._process)

    def _start(self) -> None:
        where = (self._stage.bootstrap, STREAM, self._stage.url, self._name)
        words = ["-m", "examples.flights.kafka_carrier", *where]
        self._process = start(self._name, words, self._stage.directory, answers=True)
        pipes = self._process.stdin, self._process.stdout
        self._lines, self._answers = cast("tuple[IO[str], IO[str]]", pipes)


class Carriers:
    """The carriers of the topic; a third of the way one partition is added, then one is killed."""

    def __init__(
        self, admin: AdminClient, topic: Topic, carriers: Mapping[str, Carrier], stops: int
    ) -> None:
        self.incidents: list[str] = []
        self._admin, self._topic, self._carriers = admin, topic, carriers
        self._grows_at, self._kills_at = stops // 3, stops * 2 // 3
        self._stops = 0

    def take(self, step: Step) -> Mapping[int, int]:
        """Let every carrier write what landed, then note; returns where each partition ends.

        The notes are durable.
        """
        if self._stops == self._grows_at:
            self._grow()
        if self._stops >= self._kills_at and step.landed and len(self.incidents) == 1:
            self._kill_one(step.landed)
        for name, carrier in self._carriers.items():
            carrier.take(step.landed.get(name, ()), step.notes[name])
        for carrier in self._carriers.values():
            carrier.wait()
        self._stops += 1
        return self._topic.look().ends

    def _grow(self) -> None:
        self._admin.create_partitions([NewPartitions(STREAM, SEGMENTS + 1)])[STREAM].result()
        self.incidents.append(f"A fifth partition was added after {self._stops} stops.")

    def _kill_one(self, landed: Mapping[str, Sequence[Flight]]) -> None:
        name = max(landed, key=lambda each: len(landed[each]))
        self._carriers[name].take(landed[name], None)
        self._carriers[name].wait()
        self._carriers[name].kill()
        self.incidents.append(
            f"{name} was killed (-9) with {len(landed[name])} flights in an open transaction and "
            "started again: Kafka aborted the transaction, and the flights were written again."
        )


@contextmanager
def at_work(stage: Stage, stops: int) -> Iterator[Carriers]:
    """Create the topic and the stream, and yield their carriers, which have all joined.

    At the end they finish.
    """
    create_stream(stage.url, STREAM)
    config: dict[str, Any] = {"bootstrap.servers": stage.bootstrap}
    admin, topic = AdminClient(config), NewTopic(STREAM, SEGMENTS, config=KEPT_FOR_EVER)
    try:
        admin.create_topics([topic], request_timeout=PATIENCE_S)[STREAM].result()
    except KafkaException as error:
        what = error.args[0].str()
        raise SurroundingsError(f"no topic {STREAM} at {stage.bootstrap}: {what}") from error
    with ExitStack() as stack:
        carriers = {name: Carrier(name, stage) for name in stage.flights.carriers}
        for carrier in carriers.values():
            stack.callback(carrier.end)
        for carrier in carriers.values():
            carrier.wait()
        yield Carriers(admin, Topic(config, STREAM), carriers, stops)
        for carrier in carriers.values():
            carrier.finish()


def with_noted_time(stage: Stage, checkpoint: Path) -> DataFrame:
    """Return the flights of the topic under the watermark that the carriers vouch for."""
    return read_noted_kafka(
        stage.spark,
        STREAM,
        bootstrap=stage.bootstrap,
        controller_url=stage.url,
        checkpoint_location=str(checkpoint),
        event_time=EVENT_TIME,
        parse=flights_of,
        strict=False,
        options=COMMITTED,
    )


def written(stage: Stage) -> DataFrame:
    """Return all flights that were committed."""
    reader = stage.spark.read.format("kafka").option("subscribe", STREAM).options(**COMMITTED)
    return flights_of(reader.option("kafka.bootstrap.servers", stage.bootstrap).load())


def flights_of(records: DataFrame) -> DataFrame:
    """Return the flights of a topic: a record's timestamp is the departure."""
    flight = F.from_json(F.col("value").cast("string"), "origin STRING")
    return records.select(F.col("timestamp").alias(EVENT_TIME), flight["origin"].alias("origin"))
