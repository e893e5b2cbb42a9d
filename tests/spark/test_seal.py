"""A query at the end of a sealed stream: every last window comes out, and nothing else does it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_integration import Batches, ReadRange, with_noted_watermark
from spark_integration.watermark import LAST_MS
from tests.spark.conftest import Reads
from tests.support.noted_stream import NotedStream
from tests.support.queries import per_second
from tests.support.query_output import QueryOutput
from tests.support.served import Served
from tests.support.waiting import eventually

ALL = [(1, 1), (2, 1), (9, 1)]


def written(flights: NotedStream) -> NotedStream:
    """Return the stream with three rows, whose first second is complete."""
    flights.begun().append(0, (1000, "a"), (2000, "b"))
    flights.append(1, (9500, "c"))
    flights.note(2000)
    return flights


@pytest.mark.spark
def test_every_last_window_of_a_sealed_stream_comes_out(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The lower of the last mark would leave the window open in which it lies."""
    counts = read.counts(written(flights), strict=True)
    flights.marks.note("w", 2000, {}, state="finished")
    output.catch_up(counts)
    before = output.rows
    flights.marks.seal()
    output.catch_up(counts)

    assert before == []
    assert (output.rows, output.last_lower()) == (ALL, LAST_MS)


@pytest.mark.spark
def test_last_windows_come_out_through_restarts_between_seal_and_last_batch(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """The final cut is read by several batches; the one at the end fails before its commit."""
    counts = read.counts(written(flights), Batches(2))
    output.catch_up(counts)
    flights.append(0, (9700, "d"))
    flights.marks.seal(cut={0: 3, 1: 1})
    output.catch_up(counts)
    output.forget_commit()
    controller.stop()
    output.catch_up(counts)
    controller.start()
    output.catch_up(counts)

    assert (output.rows, output.last_lower()) == ([(1, 1), (2, 1), (9, 2)], LAST_MS)


@pytest.mark.spark
def test_windows_stay_open_until_the_final_cut_is_read(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The seal names a row that is not in the log yet; with it all windows close."""
    counts = read.counts(written(flights))
    flights.marks.seal(cut={1: 2})
    output.catch_up(counts)
    before = output.rows
    flights.append(1, (9900, "late"))
    output.catch_up(counts)

    assert (before, output.rows) == ([(1, 1)], [(1, 1), (2, 1), (9, 2)])


@pytest.mark.spark
def test_a_query_that_holds_stays_at_the_last_mark(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The window of the last event stays open."""
    counts = read.counts(written(flights), ReadRange(on_seal="hold"))
    flights.marks.seal(final_times={"default": 9600})
    output.catch_up(counts)

    assert (output.rows, output.last_lower()) == ([(1, 1), (2, 1)], 9600)


@pytest.mark.spark
def test_a_stream_made_again_after_its_seal_fails_the_query(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """Its watermark cannot go back: every row would be dropped, so it fails."""
    counts = read.counts(written(flights))
    flights.marks.seal()
    output.catch_up(counts)
    flights.marks = controller.stream(flights.name)
    flights.note(5000)

    with pytest.raises(Exception, match="start a query with a new checkpoint"):
        output.catch_up(counts)


@pytest.mark.spark
def test_last_windows_of_any_source_come_out(
    spark: SparkSession, controller: Served, output: QueryOutput
) -> None:
    """One micro-batch after the end of the final cut was read."""
    marks = controller.stream("ticks")
    source = spark.readStream.format("rate-micro-batch")
    ticks = source.options(rowsPerBatch=10, startTimestamp=0, numPartitions=1).load()
    events = with_noted_watermark(
        ticks.where("value < 25"),
        "timestamp",
        stream="ticks",
        position=lambda offset: {0: offset["offset"]},
        controller_url=controller.url,
        checkpoint_location=str(output.checkpoint),
    )
    marks.note("w", 1000, {0: 30})
    marks.seal()
    query = output.start(per_second(events, "timestamp"))

    assert eventually(lambda: output.rows, [(0, 10), (1, 10), (2, 5)])
    query.stop()
