"""Events of other sources under the watermark of the writers."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from spark_integration import Noted, WatermarkPolicy, with_noted_watermark
from tests.support.disorder import disorder, replay
from tests.support.file_stream import find_position
from tests.support.noted_stream import NotedStream
from tests.support.object_store import ObjectStore
from tests.support.queries import collect_rows, count_per_second, read_all
from tests.support.query_output import QueryOutput
from tests.support.spark_sessions import wait_for_end
from tools.trials.served import Served
from tools.trials.starting import retry_start

pytestmark = [pytest.mark.spark, pytest.mark.shows("with_noted_watermark")]


class Ticks:
    """A source of ten events in each second and micro-batch, as one segment."""

    def __init__(self, spark: SparkSession, controller: Served, checkpoint: Path) -> None:
        self.marks = controller.stream("ticks")
        self._spark = spark
        self._noted = Noted("ticks", controller=controller.url, token=controller.token)
        self._checkpoint = str(checkpoint)

    def events(self) -> DataFrame:
        """Return the events of one source."""
        source = self._spark.readStream.format("rate-micro-batch")
        return source.options(rowsPerBatch=10, startTimestamp=0, numPartitions=1).load()

    def add_watermark(self, events: DataFrame | None = None, checkpoint: str = "") -> DataFrame:
        """Return the events under the writers' watermark."""

        def find_position(offset: dict[str, int]) -> dict[int, int]:
            return {0: offset["offset"]}

        def start() -> DataFrame:
            return with_noted_watermark(
                events or self.events(),
                "timestamp",
                self._noted,
                position=find_position,
                checkpoint_location=checkpoint or self._checkpoint,
                policy=WatermarkPolicy(strict=False),
            )

        return retry_start(start)


@pytest.fixture
def ticks(spark: SparkSession, controller: Served, output: QueryOutput) -> Ticks:
    """Return the events of Spark's own test source."""
    return Ticks(spark, controller, output.checkpoint)


def test_no_event_of_a_disordered_source_is_lost(
    spark: SparkSession, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """Spark's file stream reads a few files at a time, and stops half way."""
    flights.begin_log()
    files = spark.readStream.schema("time TIMESTAMP, name STRING")
    events = with_noted_watermark(
        files.option("maxFilesPerTrigger", 5).parquet(str(flights.root / "flights")),
        "time",
        Noted("flights", controller=controller.url),
        checkpoint_location=str(output.checkpoint),
        position=partial(find_position, output.checkpoint / "sources" / "1"),
        policy=WatermarkPolicy(strict=False),
    )
    steps = disorder(6, events=20)
    replay(flights, steps[:7])
    output.catch_up(count_per_second(events))
    replay(flights, steps[7:])
    output.catch_up(count_per_second(events))

    assert output.rows == collect_rows(count_per_second(read_all(spark, flights)))


def test_offset_log_in_an_object_store_moves_the_watermark(
    ticks: Ticks, output: QueryOutput, spark: SparkSession
) -> None:
    """The store serves Spark's checkpoint directory, and the planner's process asks it."""
    pytest.importorskip("obstore")
    ticks.marks.note("w", 3000, {0: 30})
    environment = dict(spark.sparkContext.environment)
    with ObjectStore(output.checkpoint.parent) as store:
        spark.sparkContext.environment.update(store.environment())
        add_watermark = ticks.add_watermark(checkpoint=f"s3a://{output.checkpoint.name}")
        query = output.start(count_per_second(add_watermark, "timestamp"))
        spark.sparkContext.environment = environment

        assert output.will_have((0, 10), (1, 10), (2, 10))
        query.stop()


def test_static_events_are_refused(spark: SparkSession, controller: Served) -> None:
    """No offset log would show how far the query has read."""
    events = spark.sql("SELECT TIMESTAMP '2013-01-01 00:00:00' AS time")

    with pytest.raises(Rejected, match=r"not come from a streaming source: use spark\.readStream"):
        with_noted_watermark(
            events, "time", Noted("s", controller=controller.url), checkpoint_location="unused"
        )


@pytest.mark.parametrize("column", ["timestamp", "created"])
def test_events_with_a_watermark_of_their_own_are_refused(ticks: Ticks, column: str) -> None:
    """This includes a dropped column. Spark would take the lower watermark, and not report it."""
    guessed_ticks = ticks.events().withColumn("created", F.col("timestamp"))
    events = guessed_ticks.withWatermark(column, "1 hour").drop("created")

    with pytest.raises(Rejected, match="the events already have a watermark: leave withWater"):
        ticks.add_watermark(events)


def test_column_named_like_sparks_watermark_is_ordinary(ticks: Ticks) -> None:
    """A plan also contains the names of columns."""
    named_ticks = ticks.events().withColumn("EventTimeWatermark ", F.lit("EventTimeWatermark "))

    assert ticks.add_watermark(named_ticks.where("`EventTimeWatermark ` <> ''")).isStreaming


def test_second_watermark_on_our_events_is_refused(ticks: Ticks) -> None:
    """Spark's own error would come later, and recommend a wrong setting."""
    with pytest.raises(Rejected, match=r"leave withWatermark out, .*allowMultiple=false, which"):
        ticks.add_watermark().withWatermark("timestamp", "10 minutes")


def test_second_watermark_after_a_filter_fails_the_query(ticks: Ticks, output: QueryOutput) -> None:
    """Spark refuses it once both watermarks have moved. We get no call after it."""
    ticks.marks.note("w", 3000, {0: 30})
    events = ticks.add_watermark().where("value >= 0").withWatermark("timestamp", "0 seconds")
    query = output.start(count_per_second(events, "timestamp"))
    with pytest.raises(PySparkException, match="Redefining watermark is disallowed"):
        wait_for_end(query)


def test_last_windows_of_any_source_come_out(ticks: Ticks, output: QueryOutput) -> None:
    """They come one micro-batch after the final cut is read."""
    ticks.marks.note("w", 1000, {0: 30})
    ticks.marks.seal()
    events = ticks.add_watermark(ticks.events().where("value < 25"))
    query = output.start(count_per_second(events, "timestamp"))

    assert output.will_have((0, 10), (1, 10), (2, 5))
    query.stop()
