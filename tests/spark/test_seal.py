"""The end of a sealed stream: the last windows come out, and only there."""

import pytest
from pyspark.sql import SparkSession

from demo.trials.served import Served
from demo.trials.waiting import eventually
from spark_integration import Batches
from spark_integration.marks.watermark import LAST_MS
from tests.spark.conftest import Reads, write_rows
from tests.spark.test_any_source import Ticks
from tests.support.log_reading import build_query, read_batches
from tests.support.noted_stream import NotedStream
from tests.support.queries import count_per_second
from tests.support.query_output import QueryOutput


@pytest.mark.spark
def test_last_windows_of_a_sealed_stream_come_out(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The lower of the last mark would leave the last window open."""
    counts = read.counts(write_rows(flights, 2000), strict=True)
    flights.marks.note("w", 2000, {}, state="finished")
    output.catch_up(counts)
    before = output.rows
    flights.marks.seal()
    output.catch_up(counts)

    assert before == []
    assert (output.rows, output.last_lower()) == ([(1, 1), (2, 1), (9, 1)], LAST_MS)


def test_seal_counts_once_the_final_cut_is_read(flights: NotedStream) -> None:
    """Several runs read the final cut. The last rows came after the seal."""
    query = build_query(write_rows(flights, 2000), Batches(2))
    first = read_batches(query)
    flights.marks.seal(cut={0: 3, 1: 2})
    sealed = read_batches(query, first[-1].end)
    flights.append(0, (9700, "d"))
    flights.append(1, (9900, "e"))
    last = read_batches(query, first[-1].end)

    assert sealed == []
    assert [row for batch in last for row in batch.rows] == [(9700, "d"), (9900, "e")]
    assert [batch.watermark for batch in (first[-1], last[-1])] == [1999, LAST_MS]
    assert read_batches(query, last[-1].end) == []


@pytest.mark.spark
def test_last_windows_of_any_source_come_out(
    spark: SparkSession, controller: Served, output: QueryOutput
) -> None:
    """They come one micro-batch after the final cut is read."""
    ticks = Ticks(spark, controller, output.checkpoint)
    ticks.marks.note("w", 1000, {0: 30})
    ticks.marks.seal()
    events = ticks.add_watermark(ticks.events().where("value < 25"))
    query = output.start(count_per_second(events, "timestamp"))

    assert eventually(lambda: output.rows, [(0, 10), (1, 10), (2, 5)])
    query.stop()
