"""The cost of noted time for producers, Spark queries and observers of one real broker.

Each is measured in turn with its floor: a windowed count, the delay from a note to the sink, an
event of a producer, also in Java, and an observer's looks and records.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import httpx
from confluent_kafka import Producer
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from benchmarks.kafka_java import measure_interceptor
from benchmarks.kafka_looks import measure_looks
from benchmarks.processes import TICKS, controller
from benchmarks.spark_rows import BEGUN_MS, DAY_MS, spark_session
from benchmarks.stored import sqlite_url
from noted_time.kafka.noted_topic import name_noted_topic
from reader_client import KafkaRelay
from spark_integration import (
    KafkaRecords,
    Noted,
    WatermarkPolicy,
    read_noted_kafka,
    read_relayed_kafka,
)
from tools.trials.kafka import Broker, connector, is_installed
from tools.trials.waiting import wait_until
from writer_client import KafkaNotedProducer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 4
VALUE = b"EWR to LAX, 17 minutes late, a Boeing 737 of United"
QUEUE = {"queue.buffering.max.messages": 1_000_000}
NOTED = 1000
"""How many events a producer writes between two notes."""

EACH_S = 0.05
"""While a query is watched, an event is written each time that this has passed."""

PATIENCE_S = 120.0
RATE = Target("ratio", "at least", 0.9)
TOPIC_RATE = Target("ratio", "at least", 0.92)
PYTHON = Target("value", "at most", 1.3)
LAG = Target("ratio", "at most", 1.1)
EVENT = Target("value", "at most", 1.5)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A broker, a controller, a Spark session, and a directory for checkpoints."""

    broker: Broker
    url: str
    spark: SparkSession
    directory: Path

    def read_noted(self, topic: str, checkpoint: str) -> DataFrame:
        return read_noted_kafka(
            self.spark,
            KafkaRecords(topic, self.broker.address),
            Noted(controller=self.url),
            checkpoint_location=checkpoint,
            event_time="timestamp",
            policy=WatermarkPolicy(strict=False),
        )

    def read_relayed(self, topic: str, _: str) -> DataFrame:
        """Return the records under noted time, with marks from a topic."""
        return read_relayed_kafka(
            self.spark,
            KafkaRecords(topic, self.broker.address),
            event_time="timestamp",
            policy=WatermarkPolicy(strict=False),
        )

    def read_native(self, topic: str, _: str) -> DataFrame:
        """Return the records under Spark's own watermark without a delay."""
        reader = self.spark.readStream.format("kafka").option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", self.broker.address)
        records = reader.option("startingOffsets", "earliest").load()
        return records.withWatermark("timestamp", "0 seconds")

    def producer(self, topic: str) -> KafkaNotedProducer:
        """Return a topic's producer, its only writer."""
        return KafkaNotedProducer({**self.broker.config, **QUEUE}, topic, "w", controller=self.url)

    def create(self, topic: str) -> None:
        self.broker.create(topic, PARTITIONS)
        httpx.put(f"{self.url}/v1/streams/{topic}", json={}).raise_for_status()

    @contextmanager
    def relay(self, topic: str) -> Iterator[None]:
        """Relay the marks of a topic during the block."""
        self.broker.create(name_noted_topic(topic), 1)
        with KafkaRelay(self.broker.config, topic, controller=self.url, new_partition_ms=0):
            yield

    @contextmanager
    def checkpoint(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            yield directory


Way = Callable[[str, str], Any]
"""Makes the events of a topic, for a query with that checkpoint."""


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of records read, seconds watched, and events produced."""

    rows: int
    seconds: int
    events: int


FULL = Size(4_000_000, 30, 400_000)
QUICK = Size(400_000, 9, 50_000)


def measure(run: Run) -> list[Figure]:
    """Measure all, or report that no broker is installed."""
    if not is_installed():
        run.say("left out: no Kafka broker is installed")
        return []
    with (
        controller(sqlite_url(run.directory / "kafka.db")) as server,
        Broker(run.directory / "kafka") as broker,
        spark_session({"spark.jars": ",".join(connector())}) as spark,
    ):
        cluster = Cluster(broker, f"http://127.0.0.1:{server.port}", spark, run.directory)
        return measure_cluster(cluster, run, QUICK if run.quick else FULL)


def measure_cluster(cluster: Cluster, run: Run, size: Size) -> list[Figure]:
    return [
        *_read(cluster, run, size.rows),
        *_lag(cluster, run, size.seconds),
        _produce(cluster, run, size.events),
        *measure_interceptor(cluster.broker, cluster.url, run, cluster.create, size.events),
        *measure_looks(cluster.broker, run, size.events),
    ]


def _read(cluster: Cluster, run: Run, rows: int) -> list[Figure]:
    run.say(f"Kafka: writing {rows} records")
    cluster.create("counted")
    with cluster.producer("counted") as producer:
        for number in range(rows):
            producer.produce(value=VALUE, event_time=BEGUN_MS + number * DAY_MS // rows)
        producer.note_time(BEGUN_MS + DAY_MS)
        producer.flush()
        producer.finish()
    with cluster.relay("counted"):
        wait_until(lambda: bool(cluster.broker.records(name_noted_topic("counted"))))
    ways = cluster.read_noted, cluster.read_relayed, cluster.read_native
    for way in ways:
        run.say(f"Kafka: warming up {way.__name__}")
        _count(cluster, way, rows)
    rate_samples = []
    cpu_seconds = []
    for number in range(run.repeats(full=5, quick=1)):
        run.say(f"Kafka: reading, round {number + 1}")
        rates, seconds = zip(*(_count(cluster, way, rows) for way in ways), strict=True)
        rate_samples.append(rates)
        cpu_seconds.append(seconds[0] - seconds[-1])
    noted_rates, relayed_rates, native = (
        Samples(tuple(rates)) for rates in zip(*rate_samples, strict=True)
    )
    python = Samples(tuple(cpu_seconds))
    name = "Kafka: windowed count under noted time"
    floor = "Spark's own watermark, same source"
    return [
        Figure(name, "rows/s", noted_rates, native, floor, RATE),
        Figure(f"{name}, marks as a topic", "rows/s", relayed_rates, native, floor, TOPIC_RATE),
        Figure(f"{name}: Python's CPU a run, beyond native's", "s", python, target=PYTHON),
    ]


def _count(cluster: Cluster, way: Way, rows: int) -> tuple[float, float]:
    """Count all records per hour; return rows a second within triggers, and Python's CPU in s.

    Under availableNow, no mark would come ahead. Raises `WrongResult` for other rows.
    """
    begun_s = _python_s()
    with cluster.checkpoint() as checkpoint:
        counts = way("counted", checkpoint).groupBy(F.window("timestamp", "1 hour")).count()
        writer = counts.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.start()
        query.processAllAvailable()
        query.stop()
    batches = query.recentProgress
    read_count = sum(batch.numInputRows for batch in batches)
    if not rows <= read_count <= rows + len(batches):
        raise WrongResult(f"{read_count} rows read of {rows}")
    took_ms = sum(batch.durationMs["triggerExecution"] for batch in batches)
    return rows * 1000 / took_ms, _python_s() - begun_s


def _python_s() -> float:
    """Return the CPU seconds of this process and of all started by Spark's Java."""
    table = _processes()
    java = _java()
    ticks = 0
    waiting = [java]
    while waiting:
        parent = waiting.pop()
        _, own_ticks, ended_ticks = table[parent]
        ticks += ended_ticks
        if parent != java:
            ticks += own_ticks
        waiting += [child for child, (parent_pid, *_) in table.items() if parent_pid == parent]
    return ticks / TICKS + time.process_time()


def _java() -> int:
    own_pids = [
        child for child, (parent_pid, *_) in _processes().items() if parent_pid == os.getpid()
    ]
    (java,) = (
        pid for pid in own_pids if b"SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    return java


def _processes() -> dict[int, tuple[int, int, int]]:
    """Return each process's parent, ticks, and ticks of ended children."""
    processes = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = [int(field) for field in file.read_text().rpartition(")")[2].split()[1:15]]
        except OSError:  # it has ended
            continue
        processes[int(file.parent.name)] = fields[0], sum(fields[10:12]), sum(fields[12:14])
    return processes


def _lag(cluster: Cluster, run: Run, seconds: int) -> list[Figure]:
    lag_samples = []
    for number in range(run.repeats(full=3, quick=1)):
        run.say(f"Kafka: from note to row, round {number + 1}")
        ways = (cluster.read_noted, cluster.read_relayed, cluster.read_native)
        lag_samples.append(
            [_watch(cluster, way, f"{way.__name__}-{number}", seconds) for way in ways]
        )
    noted_lags, relayed_lags, native = (Samples(lags) for lags in zip(*lag_samples, strict=True))
    name = "Kafka: note to row at the sink, 3 s trigger"
    floor = "Spark's own, without a delay"
    remark = "mean of all seconds"
    return [
        Figure(name, "s", noted_lags, native, floor, LAG, remark),
        Figure(f"{name}, marks as a topic", "s", relayed_lags, native, floor, LAG, remark),
    ]


def _watch(cluster: Cluster, way: Way, topic: str, seconds: int) -> float:
    """Return the average seconds from a note to the sink."""
    cluster.create(topic)
    noted_at: dict[int, float] = {}
    given_out_at: dict[int, float] = {}

    def keep(batch: DataFrame, _: int) -> None:
        for row in batch.select(F.unix_seconds("window.end").alias("end")).collect():
            given_out_at[row.end] = time.monotonic()

    relay = cluster.relay(topic) if way == cluster.read_relayed else nullcontext()
    with relay, cluster.checkpoint() as checkpoint, cluster.producer(topic) as producer:
        counts = way(topic, checkpoint).groupBy(F.window("timestamp", "1 second")).count()
        writer = counts.writeStream.foreachBatch(keep).trigger(processingTime="3 seconds")
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            while len(lags := _lags(noted_at, given_out_at)) < seconds:
                _write_a_second(producer, noted_at)
                _check(query, noted_at)
        finally:
            query.stop()
        producer.flush()
        producer.finish()
    return fmean(lags[:seconds])


def _write_a_second(producer: KafkaNotedProducer, noted_at: dict[int, float]) -> None:
    """Write events for a second of the clock, and note it."""
    begun_at = int(time.time())
    while int(now := time.time()) == begun_at:
        producer.produce(value=VALUE, event_time=int(now * 1000))
        time.sleep(EACH_S)
    producer.note_time((begun_at + 1) * 1000)
    noted_at[begun_at + 1] = time.monotonic()


def _lags(noted_at: dict[int, float], given_out_at: dict[int, float]) -> list[float]:
    """Return the lag of each second noted after the first output."""
    first = min(given_out_at.values(), default=0.0)
    return [
        given_at - noted_at[end]
        for end, given_at in sorted(given_out_at.items())
        if noted_at.get(end, 0.0) > first
    ]


def _check(query: StreamingQuery, noted_at: dict[int, float]) -> None:
    if not query.isActive:
        raise WrongResult(str(query.exception()))
    if len(noted_at) > PATIENCE_S:
        raise WrongResult(f"no row for {PATIENCE_S:.0f} s")


def _produce(cluster: Cluster, run: Run, events: int) -> Figure:
    cost_pairs = []
    for number in range(run.repeats(full=7, quick=3)):
        run.say(f"Kafka: producing, round {number + 1}")
        topic = f"produced-{number}"
        cluster.create(topic)
        cost_pairs.append(
            (_measure_noted_us(cluster, topic, events), _measure_bare_us(cluster, topic, events))
        )
    extra = Samples(tuple(noted_us - bare for noted_us, bare in cost_pairs))
    bare = Samples(tuple(bare for _, bare in cost_pairs)).median
    remark = f"a bare produce costs {bare:.2f} µs"
    return Figure("Kafka: extra CPU an event", "µs", extra, target=EVENT, remark=remark)


def _measure_noted_us(cluster: Cluster, topic: str, events: int) -> float:
    """Return the CPU µs of a produced event, noted a thousand at a time."""
    with cluster.producer(topic) as producer:
        first = time.time_ns() // 1_000_000
        begun_s = time.process_time()
        for number in range(events):
            producer.produce(value=VALUE, event_time=first + number)
            if number % NOTED == 0:
                producer.note_time(first + number)
        producer.flush()
        took = time.process_time() - begun_s
        producer.finish()
    return took / events * 1e6


def _measure_bare_us(cluster: Cluster, topic: str, events: int) -> float:
    """Return the same without notes and reports."""
    producer = Producer(
        {"enable.idempotence": True, "log_level": 2, **cluster.broker.config, **QUEUE}
    )
    first = time.time_ns() // 1_000_000
    begun_s = time.process_time()
    for number in range(events):
        producer.produce(topic, VALUE, timestamp=first + number)
        if number % NOTED == 0:
            producer.poll(0)
    producer.flush()
    return (time.process_time() - begun_s) / events * 1e6
