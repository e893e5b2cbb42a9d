"""Queries on a real Kafka broker and a real controller."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import eventually
from tests.support.page import Session
from tests.support.queries import collect_rows
from tests.support.query_output import QueryOutput

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

PAGE = "docs/guides/spark.md"


def send(broker: Broker, topic: str, rows: Sequence[str]) -> None:
    """Send values to a partition of a new topic."""
    broker.create(topic)
    broker.send(topic, [(0, value, 0) for value in rows])


def test_function_of_the_page_maps_two_topics_to_segments() -> None:
    """Partition 1 of `tb` is segment 101."""
    position = Session(PAGE, {}).run("def position(offset)")["position"]

    ends = {"ta": {"0": 7, "1": 5}, "tb": {"1": 3}}
    assert position(ends) == {0: 7, 1: 5, 101: 3}


@pytest.fixture
def guide(spark: SparkSession, broker: Broker, served: Served, tmp_path: Path) -> Session:
    """Return the page with the addresses and paths of a test."""
    elsewhere = {
        "kafka:9092": broker.address,
        "http://controller:7464": served.url,
        "/data/": f"{tmp_path}/",
    }
    return Session(PAGE, elsewhere, spark=spark)


def test_query_of_the_page_gives_out_an_hour_once_it_is_over(
    spark: SparkSession, guide: Session, broker: Broker, served: Served, tmp_path: Path
) -> None:
    """The same query with a delay of six hours has no output yet."""
    rows = [f'{{"departure": "2013-01-01T{hour}:00Z", "origin": "EWR"}}' for hour in HOURS]
    send(broker, "flights", rows)
    served.create("flights")
    served.note("flights", TEN + 1, {"0": len(rows)})
    flights = guide.run("records = topic.")["flights"].withWatermark("departure", "6 hours")
    counted = flights.groupBy(F.window("departure", "1 hour"), "origin").count().writeStream
    guessed_at = counted.option("checkpointLocation", str(tmp_path / "guessed-counts"))
    guessed = guessed_at.format("parquet").start(str(tmp_path / "guessed-hourly"))
    guessed.processAllAvailable()
    query = guide.run("timed.groupBy")["query"]

    assert eventually(lambda: read_counts(spark, tmp_path / "hourly"), [(NINE, 2)])
    assert read_counts(spark, tmp_path / "guessed-hourly") == []
    query.stop()
    guessed.stop()


def test_union_of_the_page_counts_every_row_of_two_topics(
    guide: Session, broker: Broker, served: Served, tmp_path: Path, output: QueryOutput
) -> None:
    """The refusals name this remedy. The departures are an hour behind."""
    for name, noted in ("arrivals", 2 * TEN - NINE), ("departures", TEN + 1):
        rows = [f'{{"at": "2013-01-01T{hour}:00Z", "airport": "EWR"}}' for hour in HOURS]
        send(broker, name, rows)
        served.create(name)
        served.note(name, noted, {"0": len(rows)})
    counts = guide.run("movements =")["movements"]
    hourly = counts.groupBy(F.window("at", "1 hour")).count()
    output.checkpoint = tmp_path / "movements"
    output.catch_up(hourly.select(F.unix_millis("window.start"), "count"))

    assert output.rows == [(NINE, 4)]


NINE, TEN = 1_357_030_800_000, 1_357_034_400_000
HOURS = ("09:00", "09:59", "10:00")


def read_counts(spark: SparkSession, directory: Path) -> list[tuple[object, ...]]:
    """Return (start of the window, count) of each row that a query has committed there."""
    if not (directory / "_spark_metadata" / "0").exists():
        return []
    schema = "window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, count LONG"
    counts = spark.read.schema(schema).parquet(str(directory))
    return collect_rows(counts.select(F.unix_millis("window.start"), "count"))
