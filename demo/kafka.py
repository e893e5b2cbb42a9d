"""The carriers on a Kafka broker, each a process, and how Spark reads them.

Most note what they committed; those of `ways.OBSERVED` do not note, and have a partition of their
own, which an observer watches in their name. Two things go wrong on the way: a partition is added,
and a carrier is killed in its transaction.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, cast

import httpx
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo import java_carrier
from demo.kafka_carrier import Stop, line_of
from demo.replay import DOMAIN, EVENT_TIME, PATIENCE_S, SEGMENTS, STREAM, create_stream
from demo.simulation import BEFORE_ALL_TIME
from demo.surroundings import SurroundingsError, end, last_words, start
from demo.ways import IN_JAVA, ITSELF, OBSERVED, RESOLVED, delays, way_of
from noted_time.kafka import Topic
from noted_time.values import NotedTimeError
from spark_integration import KafkaRecords, Noted, WatermarkPolicy, read_noted_kafka
from writer_client import EventTimeNoter, KafkaResolved, KafkaTimes, WriterClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from confluent_kafka import Producer
    from pyspark.sql import DataFrame, DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

    from demo.data import Flight
    from demo.schedule import Step
    from demo.stage import Stage
    from noted_time.observing import Seen


KEPT_FOR_EVER = {"retention.ms": "-1"}
COMMITTED = {"kafka.isolation.level": "read_committed"}


class Carrier:
    """One carrier in a process of its own, which can be killed."""

    def __init__(self, name: str, program: Sequence[str], directory: Path) -> None:
        """Start the process, whose log is in the directory."""
        self._name, self._program, self._directory = name, program, directory
        self._start()

    def take(self, stop: Stop) -> None:
        """Begin a stop: write the flights, and note the time."""
        self._lines.write(f"{line_of(stop)}\n")
        self._lines.flush()

    def wait(self) -> None:
        """Wait until the process has started, or done its stop."""
        if not self._answers.readline():
            words = last_words(self._name, self._directory)
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
        words = ["-m", *self._program]
        self._process = start(self._name, words, self._directory, answers=True)
        pipes = self._process.stdin, self._process.stdout
        self._lines, self._answers = cast("tuple[IO[str], IO[str]]", pipes)


class Carriers:
    """The carriers at work; a third of the way one partition is added, then one is killed."""

    def __init__(
        self,
        topic: FlightTopic,
        carriers: Mapping[str, Carrier],
        observers: Mapping[str, EventTimeNoter],
        *,
        stops: int,
        lower: Callable[[], int],
    ) -> None:
        """Begin; those that are observed have a partition each, after those of the others."""
        self.incidents: list[str] = []
        self.lowers: list[int] = []
        self._lower = lower
        self._topic, self._carriers, self._observers = topic, carriers, observers
        self._own = {name: SEGMENTS + number for number, name in enumerate(observers)}
        self._ends = topic.ends()
        self._grows_at, self._kills_at = stops // 3, stops * 2 // 3
        self._stops = 0

    def take(self, step: Step) -> Mapping[int, int]:
        """Let every carrier write what landed, and be noted; returns where each partition ends.

        The notes are durable; `lowers` has the lower that they lead to.
        """
        if self._stops == self._grows_at:
            self._grow()
        if self._stops >= self._kills_at and len(self.incidents) == 1:
            self._kill_one(step)
        for name, carrier in self._carriers.items():
            carrier.take(self._stop(name, step.landed.get(name, ()), step.notes.get(name)))
        for carrier in self._carriers.values():
            carrier.wait()
        for observer in self._observers.values():
            observer.look()
            observer.client.flush(PATIENCE_S)
        self._stops += 1
        self._ends = self._topic.ends()
        self.lowers.append(self._lower_after(step))
        return self._ends

    def _lower_after(self, step: Step) -> int:
        """Return the lower, once it is that of the notes, if all carriers have noted."""
        complete = step.notes.keys() == self._carriers.keys()
        expected = min(step.notes.values()) if complete else BEFORE_ALL_TIME
        until = time.monotonic() + PATIENCE_S
        while (lower := self._lower()) < expected and time.monotonic() < until:
            time.sleep(java_carrier.LOOK_S)
        return lower

    def _stop(self, name: str, landed: Sequence[Flight], time: int | None) -> Stop:
        """Return what a carrier writes, and where: to its own partition, or to the shortest."""
        rows = [(each.departure, record(each)) for each in landed]
        if way_of(name) is RESOLVED and time is not None:
            rows.append(resolved(time))
        shared = self._ends.keys() - self._own.values()
        partition = self._own.get(name, min(shared, key=lambda each: (self._ends[each], each)))
        self._ends[partition] += len(rows)
        return Stop(partition, time, rows)

    def _grow(self) -> None:
        self._topic.grow()
        self._ends = self._topic.ends()
        self.incidents.append(f"A partition was added after {self._stops} stops.")

    def _kill_one(self, step: Step) -> None:
        landed = {name: each for name, each in step.landed.items() if way_of(name) is ITSELF}
        if not landed:
            return
        name = max(landed, key=lambda each: len(landed[each]))
        self._carriers[name].take(self._stop(name, landed[name], None))
        self._carriers[name].wait()
        self._carriers[name].kill()
        self.incidents.append(
            f"{name} was killed (-9) with {len(landed[name])} flights in an open transaction and "
            "started again: Kafka aborted the transaction, and the flights were written again."
        )


@contextmanager
def at_work(stage: Stage, stops: int) -> Iterator[Carriers]:
    """Create the topic and the stream, and yield their carriers; time waits for all of them.

    At the end they finish.
    """
    names = stage.flights.carriers
    observed = [name for name in names if name in OBSERVED]
    create_stream(stage.url, STREAM, expected=[name for name in names if name in IN_JAVA])
    with ExitStack() as stack:
        topic = FlightTopic(stage.bootstrap, SEGMENTS + len(observed))
        programs = {name: _program(stage, name) for name in names}
        carriers = {name: Carrier(name, each, stage.directory) for name, each in programs.items()}
        for carrier in carriers.values():
            stack.callback(carrier.end)
        observers = {
            name: stack.enter_context(_observing(stage, name, SEGMENTS + number))
            for number, name in enumerate(observed)
        }
        for carrier in carriers.values():
            carrier.wait()
        calls = stack.enter_context(httpx.Client(base_url=stage.url, trust_env=False))
        yield Carriers(topic, carriers, observers, stops=stops, lower=lambda: _lower(calls))
        for carrier in carriers.values():
            carrier.finish()


def _lower(calls: httpx.Client) -> int:
    mark = calls.get(f"/v1/streams/{STREAM}").json()["marks"][DOMAIN]
    return int(mark["lower"]) if mark else BEFORE_ALL_TIME


def _program(stage: Stage, carrier: str) -> list[str]:
    """Return the module of a carrier, and what it is given."""
    if carrier in IN_JAVA:
        return java_carrier.program(stage, carrier, delays(stage.flights)[carrier])
    noting = [carrier, stage.url] if way_of(carrier) is ITSELF else []
    return ["demo.kafka_carrier", stage.bootstrap, STREAM, *noting]


@contextmanager
def _observing(stage: Stage, carrier: str, partition: int) -> Iterator[EventTimeNoter]:
    """Yield the observer of a carrier's own partition, which notes in its name."""
    config = {"bootstrap.servers": stage.bootstrap}
    times: Callable[[], Seen] = KafkaTimes(config, STREAM, partitions=[partition])
    if way_of(carrier) is RESOLVED:
        times = KafkaResolved(config, STREAM, partitions=[partition])
    with observing(stage, carrier, times, delays(stage.flights).get(carrier, 0)) as observer:
        yield observer


@contextmanager
def observing(
    stage: Stage, writer: str, times: Callable[[], Seen], delay_ms: int, domain: str = DOMAIN
) -> Iterator[EventTimeNoter]:
    """Yield an observer by timestamps, which time waits for; at the end it finishes.

    It waits for a partition however long that is quiet, as at night.
    """
    with WriterClient(stage.url, STREAM, writer, domains=[domain]) as client:
        observer = EventTimeNoter(
            client, times, delay_ms=delay_ms, idle_timeout_ms=0, domain=domain
        )
        client.flush(PATIENCE_S)
        yield observer
        client.join(times().ends)  # no note has those of rows that left the time as it was
        client.finish(timeout=PATIENCE_S)


class FlightTopic:
    """The topic of the flights, which it creates; each partition has a leader."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        """Raises `SurroundingsError` if there is one already, or no broker."""
        config: dict[str, Any] = {"bootstrap.servers": bootstrap}
        self._admin, self._topic = AdminClient(config), Topic(config, STREAM)
        new = NewTopic(STREAM, partitions, config=KEPT_FOR_EVER)
        try:
            self._admin.create_topics([new], request_timeout=PATIENCE_S)[STREAM].result()
        except KafkaException as error:
            what = error.args[0].str()
            raise SurroundingsError(f"no topic {STREAM} at {bootstrap}: {what}") from error
        self._wait_for(partitions)

    def ends(self) -> dict[int, int]:
        """Return where each partition ends."""
        return dict(self._topic.look().ends)

    def grow(self) -> None:
        """Add a partition."""
        partitions = len(self.ends()) + 1
        self._admin.create_partitions([NewPartitions(STREAM, partitions)])[STREAM].result()
        self._wait_for(partitions)

    def _wait_for(self, partitions: int) -> None:
        until, found = time.monotonic() + PATIENCE_S, 0
        while found < partitions and time.monotonic() < until:
            with suppress(NotedTimeError):  # a topic just created may be unknown for a moment
                found = len(self.ends())


def produce(producer: Producer, flight: Flight, partition: int) -> None:
    """Produce one flight without noting; its timestamp is the departure."""
    producer.produce(STREAM, record(flight), partition=partition, timestamp=flight.departure)


def record(flight: Flight) -> str:
    """Return the value of a flight's record."""
    return json.dumps({"origin": flight.origin, "landing": flight.landing})


def resolved(time: int) -> tuple[int, str]:
    """Return what CockroachDB writes: nothing below this time follows in the partition."""
    return time, json.dumps({"resolved": f"{time}000000.0000000000"})


def with_noted_time(stage: Stage, checkpoint: Path, domain: str = DOMAIN) -> DataFrame:
    """Return the flights of the topic under the watermark that is noted in a domain."""
    return read_noted_kafka(
        stage.spark,
        KafkaRecords(STREAM, stage.bootstrap, parse=flights_of, options=COMMITTED),
        Noted(stage.url),
        checkpoint_location=str(checkpoint),
        event_time=EVENT_TIME,
        domain=domain,
        policy=WatermarkPolicy(strict=False),
    )


def written(stage: Stage) -> DataFrame:
    """Return all flights that were committed."""
    return _read(stage, stage.spark.read)


def arriving(stage: Stage) -> DataFrame:
    """Return the stream of all flights, without a watermark."""
    return _read(stage, stage.spark.readStream.option("startingOffsets", "earliest"))


def _read(stage: Stage, reader: DataFrameReader | DataStreamReader) -> DataFrame:
    options = {"subscribe": STREAM, "kafka.bootstrap.servers": stage.bootstrap, **COMMITTED}
    return flights_of(reader.format("kafka").options(**options).load())


def flights_of(records: DataFrame) -> DataFrame:
    """Return the flights of a topic: a record's timestamp is the departure."""
    flight = F.from_json(F.col("value").cast("string"), "origin STRING")
    flights = records.select(F.col("timestamp").alias(EVENT_TIME), flight["origin"].alias("origin"))
    return flights.where("origin IS NOT NULL")  # others say how far a carrier's flights go
