"""The Spark examples of the guides. The pages of `tests/pages` are not repeated here."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from tests.support.kafka_judge import count_covered, judge_marks
from tests.support.page import BINDING, Session
from tests.support.queries import collect_rows
from tests.support.query_output import QueryOutput
from tools.trials import java
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import eventually, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

GUIDE = "docs/guides/spark.md"
NINE = 1_357_030_800_000
TEN = 1_357_034_400_000
HOURS = ("09:00", "09:59", "10:00")


def elsewhere(tmp_path: Path, url: str) -> dict[str, str]:
    """Return the addresses and paths that stand for the pages' own in a test."""
    urls = {"http://controller:7464": url, BINDING: url}
    return {**urls, "/data/": f"{tmp_path}/", '"log"': f'"{tmp_path}/log"'}


def send(broker: Broker, topic: str, rows: Sequence[str]) -> None:
    """Send values to a partition of a new topic."""
    broker.create(topic)
    broker.send(topic, [(0, value, 0) for value in rows])


def test_function_of_the_page_maps_two_topics_to_segments() -> None:
    """Partition 1 of `tb` is segment 101."""
    position = Session(GUIDE, {}).run("def position(offset)")["position"]

    ends = {"ta": {"0": 7, "1": 5}, "tb": {"1": 3}}
    assert position(ends) == {0: 7, 1: 5, 101: 3}


@pytest.fixture
def guide(spark: SparkSession, broker: Broker, served: Served, tmp_path: Path) -> Session:
    """Return the page with the addresses and paths of a test."""
    places = {"kafka:9092": broker.address, **elsewhere(tmp_path, served.url)}
    return Session(GUIDE, places, spark=spark)


def test_query_of_the_page_gives_out_an_hour_once_it_is_over(
    spark: SparkSession, guide: Session, broker: Broker, served: Served, tmp_path: Path
) -> None:
    """The same query with a delay of six hours has no output yet."""
    rows = [f'{{"departure": "2013-01-01T{hour}:00Z", "origin": "EWR"}}' for hour in HOURS]
    send(broker, "flights", rows)
    served.create("flights")
    served.note("flights", TEN + 1, {"0": len(rows)})
    flights = guide.run("records = topic.")["flights"].withWatermark("departure", "6 hours")
    counts_writer = flights.groupBy(F.window("departure", "1 hour"), "origin").count().writeStream
    guessed_at = counts_writer.option("checkpointLocation", str(tmp_path / "guessed-counts"))
    guessed_query = guessed_at.format("parquet").start(str(tmp_path / "guessed-hourly"))
    guessed_query.processAllAvailable()
    query = guide.run("timed.groupBy")["query"]

    assert eventually(lambda: read_counts(spark, tmp_path / "hourly"), [(NINE, 2)])
    assert read_counts(spark, tmp_path / "guessed-hourly") == []
    query.stop()
    guessed_query.stop()


def test_union_of_the_page_counts_every_row_of_two_topics(
    guide: Session, broker: Broker, served: Served, tmp_path: Path, output: QueryOutput
) -> None:
    """The refusals name this remedy. The departures are an hour behind."""
    for name, noted_time in ("arrivals", 2 * TEN - NINE), ("departures", TEN + 1):
        rows = [f'{{"at": "2013-01-01T{hour}:00Z", "airport": "EWR"}}' for hour in HOURS]
        send(broker, name, rows)
        served.create(name)
        served.note(name, noted_time, {"0": len(rows)})
    counts = guide.run("movements =")["movements"]
    hourly = counts.groupBy(F.window("at", "1 hour")).count()
    output.checkpoint = tmp_path / "movements"
    output.catch_up(hourly.select(F.unix_millis("window.start"), "count"))

    assert output.rows == [(NINE, 4)]


def read_counts(spark: SparkSession, directory: Path) -> list[tuple[object, ...]]:
    """Return (start of the window, count) of each row that a query has committed there."""
    if not (directory / "_spark_metadata" / "0").exists():
        return []
    schema = "window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, count LONG"
    counts = spark.read.schema(schema).parquet(str(directory))
    return collect_rows(counts.select(F.unix_millis("window.start"), "count"))


@pytest.mark.skipif(java.compiler() is None, reason=java.MISSING)
def test_notes_of_the_pages_sink_cover_its_rows_over_a_restart(
    spark: SparkSession, broker: Broker, controller: Served, tmp_path: Path
) -> None:
    """Two tasks of a micro-batch share one producer, and so does the restarted query."""
    broker.create("raw")
    broker.create("counts")
    controller.create("counts")
    reading = {"subscribe": "raw", "kafka.bootstrap.servers": broker.address}
    reading |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
    raw = spark.readStream.format("kafka").options(**reading).load()
    places = {
        "127.0.0.1:9092": broker.address,
        BINDING: controller.url,
        '"kafka.noted.time.delay.ms", 1000': '"kafka.noted.time.period.ms", 50',
        "counts-checkpoint": str(tmp_path / "checkpoint"),
    }
    page = Session("docs/guides/java.md", places, counts=raw.select("value"))
    for _ in range(2):
        broker.send("raw", [(row % 2, "any", 0) for row in range(400)])
        query = page.run("kafka.interceptor.classes")["query"]
        query.processAllAvailable()
        query.stop()

    wait_until(lambda: count_covered(controller, "counts") == 800)
    assert judge_marks(broker, "counts", controller=controller).violations == ()
    assert len(controller.writers("counts")) == 1
