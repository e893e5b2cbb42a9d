"""The same hourly count under the noted watermark, and under Spark's own at several delays."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from demo.data import HOUR_MS, Flight
from demo.measurement import Count, Run, Truth, unix_ms
from demo.replay import EVENT_TIME, STREAM, table
from noted_time_extensions.files import Columns, read_noted_log
from noted_time_extensions.files.spark.options import Option
from spark_integration import Noted, WatermarkPolicy
from tools.trials.starting import start_query

HOUR = "1 hour"
LONG_AGO_S = 1_000_000_000


def read_noted(
    spark: SparkSession, root: str | Path, controller_url: str, *options: Option
) -> DataFrame:
    """Return the flights of the log under the noted watermark."""
    return read_noted_log(
        spark,
        root,
        Noted(STREAM, controller=controller_url),
        Columns((EVENT_TIME, "origin")),
        *options,
        event_time=EVENT_TIME,
        policy=WatermarkPolicy(strict=False),
    )


def add_own_watermarks(flights: DataFrame, delay_hours: Sequence[int]) -> DataFrame:
    """Return the flights under Spark's own watermark, a copy for each delay.

    One query replaces many: the copy for delay d is dated d hours later, under the longest delay.
    So a copy's window closes once the newest departure has passed its end by d, as under
    `withWatermark("departure", d)`.
    """
    delays = F.explode(F.array(*[F.lit(hours) for hours in delay_hours]))
    dated_time = F.col(EVENT_TIME) + F.make_dt_interval(hours=F.col("delay_hours"))
    return (
        flights.withColumn("delay_hours", delays)
        .withColumn(EVENT_TIME, dated_time)
        .withWatermark(EVENT_TIME, f"{max(delay_hours)} hours")
    )


def read_archive(spark: SparkSession, archive: Path) -> DataFrame:
    """Return the stream of `write_archive`'s files, a micro-batch each."""
    flights = spark.readStream.schema(f"{EVENT_TIME} timestamp, origin string")
    return flights.option("maxFilesPerTrigger", "1").parquet(str(archive))


def hourly(flights: DataFrame) -> DataFrame:
    """Return the departures per hour and origin, in the columns of `Count`."""
    if "delay_hours" not in flights.columns:
        flights = flights.withColumn("delay_hours", F.lit(0))
    end = F.unix_millis(F.col("window.end")) - F.col("delay_hours") * F.lit(HOUR_MS)
    counts = flights.groupBy(F.window(EVENT_TIME, HOUR), "origin", "delay_hours").count()
    return counts.select("delay_hours", end.alias("end"), "origin", F.col("count").alias("flights"))


def truth(written_rows: DataFrame) -> Truth:
    """Return the counts of a batch query over all flights."""
    counts: Truth = {}
    for _, end, origin, flights in hourly(written_rows).collect():
        counts[end, origin] = flights
    return counts


def write_archive(directory: Path, batches: Iterable[Sequence[Flight]]) -> None:
    """Write a Parquet file per micro-batch, dated in order for Spark's file source."""
    directory.mkdir(parents=True)
    for number, batch in enumerate(batches):
        path = directory / f"{number:06d}.parquet"
        pq.write_table(table(batch), path)
        os.utime(path, (LONG_AGO_S + number, LONG_AGO_S + number))


POLL_INTERVAL_S = 0.05
POLLING_DELAY = "spark.sql.streaming.pollingDelay"


def run_to_the_end(
    counts: DataFrame, checkpoint: Path, on_batch: Callable[[Run], None] | None = None
) -> Run:
    """Run the query over all present rows and return its batches.

    `counts` has the columns of `Count`. `on_batch` is called after each batch. Raises the query's
    failure; the query is stopped in any case.
    """
    run = Run()
    with run_query(run, counts, checkpoint, on_batch, availableNow=True) as query:
        query.awaitTermination()
    return run


def run_until(
    watermark: int,
    counts: DataFrame,
    checkpoint: Path,
    on_batch: Callable[[Run], None] | None = None,
) -> Run:
    """Run the query live until a batch had this watermark in ms; see `run_to_the_end`."""
    run = Run()
    with run_query(run, counts, checkpoint, on_batch) as query:
        wait_for_watermark(query, watermark)
    return run


def wait_for_watermark(query: StreamingQuery, watermark: int) -> None:
    """Wait until a batch has a watermark in ms, at least, or raise the query's error."""
    while query.isActive:
        last = query.lastProgress
        if last and unix_ms(last.eventTime["watermark"]) >= watermark:
            return
        time.sleep(POLL_INTERVAL_S)
    query.awaitTermination()


@contextmanager
def run_query(
    run: Run,
    counts: DataFrame,
    checkpoint: Path,
    on_batch: Callable[[Run], None] | None = None,
    **trigger: Any,  # noqa: ANN401 - as Spark takes it
) -> Iterator[StreamingQuery]:
    """Run the query during the block, and add its output and reports to `run`."""

    def keep(batch: DataFrame, number: int) -> None:
        run.given_out[number] = [Count(*row) for row in batch.collect()]
        if on_batch is not None:
            on_batch(run)

    writer = counts.writeStream.outputMode("append").foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if trigger:
        writer = writer.trigger(**trigger)
    query = start_query(writer.start)
    try:
        yield query
        run.take_progress(json.loads(progress.json) for progress in query.recentProgress)
    finally:
        query.stop()
