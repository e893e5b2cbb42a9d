"""Events of sources that are not ours, under the watermark of the writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from noted_time import Rejected
from spark_integration import with_noted_watermark
from tests.support.disorder import disorder, replay
from tests.support.file_stream import FileStream
from tests.support.queries import per_second, rows_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.conftest import Reads
    from tests.support.marks_server import MarksServer
    from tests.support.noted_stream import NotedStream
    from tests.support.query_output import QueryOutput

pytestmark = pytest.mark.spark


class Ticks:
    """Ten events a second of event time, one second in each micro-batch, as one segment."""

    def __init__(self, spark: SparkSession, controller: MarksServer, checkpoint: Path) -> None:
        self.marks = controller.stream("ticks")
        self._spark = spark
        self._url = controller.url
        self._checkpoint = str(checkpoint)

    def watermarked(self, progress: str = "") -> DataFrame:
        """Return the events under the writers' watermark."""
        source = self._spark.readStream.format("rate-micro-batch")
        events = source.options(rowsPerBatch=10, startTimestamp=0, numPartitions=1).load()
        return with_noted_watermark(
            events,
            "timestamp",
            stream="ticks",
            position=lambda offset: {0: offset["offset"]},
            strict=False,
            controller_url=self._url,
            progress=progress or self._checkpoint,
        )


@pytest.fixture
def ticks(spark: SparkSession, controller: MarksServer, output: QueryOutput) -> Ticks:
    """Return the events of Spark's own test source."""
    return Ticks(spark, controller, output.checkpoint)


def test_windows_of_any_source_close_once_the_query_has_read_the_cut(
    ticks: Ticks, output: QueryOutput
) -> None:
    """The mark is there before the first event is read, and must not come before its cut."""
    ticks.marks.note("w", 3000, {0: 30})
    query = output.start(per_second(ticks.watermarked().where("value >= 5"), "timestamp"))

    assert eventually(lambda: output.rows, [(0, 5), (1, 10), (2, 10)])
    query.stop()


def test_no_event_of_a_disordered_source_is_lost(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: MarksServer
) -> None:
    """Spark's own file stream, a few files at a time, stopped half way."""
    flights.begun()
    files = read.spark.readStream.schema("time TIMESTAMP, name STRING")
    events = with_noted_watermark(
        files.option("maxFilesPerTrigger", 5).parquet(str(flights.root / "flights")),
        "time",
        stream="flights",
        controller_url=controller.url,
        progress=str(output.checkpoint),
        position=FileStream(str(output.checkpoint), "flights"),
        strict=False,
    )
    steps = disorder(6, events=40)
    replay(flights, steps[:14])
    output.catch_up(per_second(events))
    replay(flights, steps[14:])
    output.catch_up(per_second(events))

    assert output.rows == rows_of(per_second(read.truth(flights)))


def test_a_wrong_checkpoint_fails_the_query_instead_of_stopping_time(
    ticks: Ticks, output: QueryOutput, tmp_path: Path
) -> None:
    """Its offset log would never tell that anything is read."""
    events = ticks.watermarked(progress=str(tmp_path / "elsewhere"))
    query = output.start(per_second(events, "timestamp"))

    with pytest.raises(PySparkException, match="elsewhere' is not this query's checkpoint"):
        query.awaitTermination(60)


def test_events_with_a_watermark_of_their_own_are_refused(
    spark: SparkSession, controller: MarksServer
) -> None:
    """With one on both sides of the union a quiet stream would hold time."""
    events = spark.readStream.format("rate").load().withWatermark("timestamp", "1 hour")

    with pytest.raises(Rejected, match="column timestamp of the events has a watermark of its own"):
        with_noted_watermark(
            events, "timestamp", stream="s", controller_url=controller.url, progress="unused"
        )
