"""Queries on a real Kafka broker, whose marks come from the real controller."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo.trials.kafka import Broker
from spark_integration import Noted, WatermarkPolicy, with_noted_watermark
from spark_integration.checkpoint.source_positions import PositionOf
from tests.support.page import Session
from tests.support.queries import per_second, rows_of
from tests.support.query_output import QueryOutput
from tests.support.served import Served
from tests.support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

PAGE = "docs/guides/spark.md"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Return a controller without streams."""
    with Served() as served:
        yield served


class Topics:
    """Writes topics in rounds, and reads them forty events at a time."""

    def __init__(self, spark: SparkSession, broker: Broker, served: Served) -> None:
        self._spark = spark
        self._broker = broker
        self._address = broker.address
        self._served = served
        self._checkpoint = ""
        self._written: dict[str, int] = {}
        self._created: set[str] = set()

    def of(self, output: QueryOutput) -> Topics:
        """Return these topics for a query with that output."""
        self._checkpoint = str(output.checkpoint)
        return self

    def write(self, topic: str, *seconds: int) -> None:
        """Write ten events of each of these seconds to both partitions; note what is complete."""
        rows = [
            (partition, json.dumps({"ms": 1000 * second + 50 * n}))
            for second in seconds
            for n in range(10)
            for partition in (0, 1)
        ]
        self.send(topic, rows)
        written = self._written[topic] = self._written.get(topic, 0) + 10 * len(seconds)
        if written == 10 * len(seconds):
            self._served.create(topic)
        offsets = {"0": written, "1": written}
        self._served.note(topic, 1000 * (max(seconds) + 1), offsets)

    def send(self, topic: str, rows: Sequence[tuple[int, str]]) -> None:
        """Send values to the two partitions of a topic, which the first of them creates."""
        if topic not in self._created:
            self._broker.create(topic)
            self._created.add(topic)
        self._broker.send(topic, [(partition, value, 0) for partition, value in rows])

    def read(self, topics: str) -> DataFrame:
        """Return the events of topics, with commas between."""
        reader = self._spark.readStream.format("kafka").option("subscribe", topics)
        reader = reader.option("kafka.bootstrap.servers", self._address)
        reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=40)
        event = F.from_json(F.col("value").cast("string"), "ms LONG")
        return reader.load().select(F.timestamp_millis(event["ms"]).alias("time"))

    def timed(
        self, events: DataFrame, stream: str, position: PositionOf | None = None
    ) -> DataFrame:
        """Return the events under the marks of a stream, exact for windows."""
        return with_noted_watermark(
            events,
            "time",
            Noted(self._served.url, stream),
            checkpoint_location=self._checkpoint,
            position=position,
            policy=WatermarkPolicy(strict=False),
        )


@pytest.fixture(scope="module")
def all_topics(spark: SparkSession, broker: Broker, served: Served) -> Topics:
    """Return two topics: in `ta` time is far ahead of `tb`."""
    topics = Topics(spark, broker, served)
    topics.write("ta", *range(20, 26))
    topics.write("tb", *range(6))
    return topics


@pytest.fixture
def topics(all_topics: Topics, output: QueryOutput) -> Topics:
    """Return the two topics, for the query of a test."""
    return all_topics.of(output)


TWENTY_EACH = [(second, 20) for second in (*range(6), *range(20, 26))]


def test_the_pages_function_maps_two_topics_to_the_segments_of_one_stream(
    topics: Topics, output: QueryOutput, served: Served
) -> None:
    """Partition 1 of `tb` is segment 101: the second remedy."""
    position = Session(PAGE, {}).run("def position(offset)")["position"]
    served.create("both")
    served.note("both", 26_000, {"0": 60, "1": 60, "100": 60, "101": 60})
    output.catch_up(per_second(topics.timed(topics.read("ta,tb"), "both", position)))

    assert output.rows == TWENTY_EACH


@pytest.fixture
def guide(spark: SparkSession, broker: Broker, served: Served, tmp_path: Path) -> Session:
    """Return the page with the addresses and paths of a test."""
    elsewhere = {
        "kafka:9092": broker.address,
        "http://controller:7464": served.url,
        "/data/": f"{tmp_path}/",
    }
    return Session(PAGE, elsewhere, spark=spark)


def test_the_pages_query_gives_out_an_hour_when_a_time_after_it_is_noted(
    spark: SparkSession, guide: Session, topics: Topics, served: Served, tmp_path: Path
) -> None:
    """One ms after it; the same query with a delay of six hours has given out nothing by then."""
    rows = [f'{{"departure": "2013-01-01T{hour}:00Z", "origin": "EWR"}}' for hour in HOURS]
    topics.send("flights", [(0, row) for row in rows])
    served.create("flights")
    served.note("flights", TEN + 1, {"0": len(rows)})
    flights = guide.run("records = topic.")["flights"].withWatermark("departure", "6 hours")
    counted = flights.groupBy(F.window("departure", "1 hour"), "origin").count().writeStream
    guessed_at = counted.option("checkpointLocation", str(tmp_path / "guessed-counts"))
    guessed = guessed_at.format("parquet").start(str(tmp_path / "guessed-hourly"))
    guessed.processAllAvailable()
    query = guide.run("timed.groupBy")["query"]

    assert eventually(lambda: written(spark, tmp_path / "hourly"), [(NINE, 2)])
    assert written(spark, tmp_path / "guessed-hourly") == []
    query.stop()
    guessed.stop()


def test_the_pages_union_of_two_topics_counts_every_row(
    guide: Session, topics: Topics, served: Served, tmp_path: Path, output: QueryOutput
) -> None:
    """The remedy that the refusals name; the departures are an hour behind."""
    for name, noted in ("arrivals", 2 * TEN - NINE), ("departures", TEN + 1):
        rows = [f'{{"at": "2013-01-01T{hour}:00Z", "airport": "EWR"}}' for hour in HOURS]
        topics.send(name, [(0, row) for row in rows])
        served.create(name)
        served.note(name, noted, {"0": len(rows)})
    counts = guide.run("movements =")["movements"]
    hourly = counts.groupBy(F.window("at", "1 hour")).count()
    output.checkpoint = tmp_path / "movements"
    output.catch_up(hourly.select(F.unix_millis("window.start"), "count"))

    assert output.rows == [(NINE, 4)]


NINE, TEN = 1_357_030_800_000, 1_357_034_400_000
HOURS = ("09:00", "09:59", "10:00")


def written(spark: SparkSession, directory: Path) -> list[tuple[object, ...]]:
    """Return (start of the window, count) of what a query has committed there."""
    if not (directory / "_spark_metadata" / "0").exists():
        return []
    schema = "window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, count LONG"
    counts = spark.read.schema(schema).parquet(str(directory))
    return rows_of(counts.select(F.unix_millis("window.start"), "count"))
