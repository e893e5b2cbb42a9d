"""Reads, notes and reports of a client of a Connect server."""

import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from spark_integration import (
    KafkaRecords,
    Noted,
    PositionListener,
    WatermarkPolicy,
    read_noted_kafka,
    with_noted_watermark,
)
from tests.support.queries import collect_rows, count_per_second
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.starting import start_query
from tools.trials.waiting import PATIENCE_S, eventually, wait_until

pytestmark = pytest.mark.shows("Spark Connect")


class Results:
    """The output of queries, in a table in the server's memory."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self._spark = spark
        self.checkpoint = str(checkpoint)
        self._name = f"results_{uuid4().hex}"

    def start(self, events: DataFrame) -> StreamingQuery:
        """Start a query."""
        writer = events.writeStream.format("memory").queryName(self._name)
        return start_query(writer.option("checkpointLocation", self.checkpoint).start)

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """All rows so far, sorted."""
        return collect_rows(self._spark.table(self._name))


@pytest.fixture
def results(remote: SparkSession, tmp_path: Path) -> Results:
    """Return the output of a test's query."""
    return Results(remote, tmp_path / "checkpoint")


class Ending(StreamingQueryListener):
    """Sees the last event of a query."""

    def __init__(self) -> None:
        self.seen = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Ignore the event."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Ignore the event."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802, ARG002 - Spark's
        """Record the end of the query."""
        self.seen.set()


@pytest.fixture
def listener(remote: SparkSession, token_controller: Served) -> Iterator[PositionListener]:
    """Return a listener, which the session has until the last event of the test's query."""
    listener = PositionListener(
        "ticks",
        "counters",
        "one",
        controller=token_controller.url,
        token=token_controller.token,
        position=lambda o: {0: o["offset"]},
    )
    ending = Ending()
    remote.streams.addListener(listener)
    remote.streams.addListener(ending)
    yield listener
    # PySpark 4.3 removes its last listener under the lock that a last event needs, and waits for it
    assert ending.seen.wait(PATIENCE_S)
    remote.streams.removeListener(listener)
    remote.streams.removeListener(ending)
    listener.close()


@pytest.mark.usefixtures("listener")
def test_any_source_gets_a_watermark_and_reports_its_position(
    remote: SparkSession, token_controller: Served, results: Results
) -> None:
    """Sources and listeners are registered over Connect. No call goes to Java."""
    token_controller.stream("ticks").note("w", 3000, {0: 30})
    source = remote.readStream.format("rate-micro-batch")
    ticks = with_noted_watermark(
        source.options(rowsPerBatch=10, startTimestamp=0, numPartitions=1).load(),
        "timestamp",
        Noted("ticks", controller=token_controller.url),
        checkpoint_location=results.checkpoint,
        position=lambda offset: {0: offset["offset"]},
        policy=WatermarkPolicy(strict=False),
    )
    query = results.start(count_per_second(ticks, "timestamp"))
    wait_until(lambda: len(results.rows) >= 3)
    query.stop()

    assert results.rows == [(0, 10), (1, 10), (2, 10)]
    assert token_controller.read_group("ticks", "counters")[0]["0"] >= 30


def test_topic_is_read_with_its_marks(
    remote: SparkSession, token_controller: Served, broker: Broker, results: Results
) -> None:
    """The mark comes in the micro-batch of its rows. The server asks broker and controller."""
    name = f"clock-{uuid4().hex[:8]}"
    broker.create(name)
    broker.send(name, [(n % 2, "x", 1000 * n) for n in range(1, 5)])
    token_controller.stream(name).note("w", 4000, {0: 2, 1: 2})
    records = read_noted_kafka(
        remote,
        KafkaRecords(name, broker.address),
        Noted(controller=token_controller.url),
        event_time="timestamp",
        checkpoint_location=results.checkpoint,
        policy=WatermarkPolicy(strict=False),
    )
    query = results.start(count_per_second(records, "timestamp"))

    assert eventually(lambda: results.rows, [(1, 1), (2, 1), (3, 1)])
    query.stop()
