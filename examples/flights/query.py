"""The same hourly count over two watermarks: the noted one, and Spark's own at several delays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from examples.flights.data import HOUR_MS
from examples.flights.replay import EVENT_TIME, STREAM, table
from spark_integration import Columns, read_noted_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from examples.flights.data import Flight
    from examples.flights.measurement import Truth
    from spark_integration.options import Option

HOUR = "1 hour"
LONG_AGO_S = 1_000_000_000

# Spark judges late rows by the watermark of the batch before last, as long as data keep coming; in
# a live stream an empty batch follows each pause, and then by the last. Off, it is always the last,
# so that one batch an hour gives what the finest batches would.
JUDGED_BY_THE_BATCH_BEFORE_LAST = "spark.sql.streaming.statefulOperator.allowMultiple"


def with_noted_time(
    spark: SparkSession,
    root: Path,
    controller_url: str,
    *options: Option,
    stream: str = STREAM,
    domain: str | None = None,
) -> DataFrame:
    """Return the flights of the log under the watermark that the carriers vouch for."""
    return read_noted_log(
        spark,
        root,
        stream,
        Columns((EVENT_TIME, "origin")),
        *options,
        controller_url=controller_url,
        event_time=EVENT_TIME,
        domain=domain,
        strict=False,
    ).withColumn("delay_hours", F.lit(0))


def with_own_watermark(spark: SparkSession, archive: Path, delay_hours: Sequence[int]) -> DataFrame:
    """Return the archived flights under Spark's own watermark, a copy for each of several delays.

    One query in place of many: the copy for delay d is dated d hours later, and the watermark's
    delay is the longest of all. So the watermark is just the newest departure, and a copy's window
    closes when that has passed the window's end by d: what `withWatermark("departure", d)` does.
    """
    flights = judging_at_once(spark).readStream.schema(f"{EVENT_TIME} timestamp, origin string")
    delays = F.explode(F.array(*(F.lit(hours) for hours in delay_hours)))
    dated = F.col(EVENT_TIME) + F.make_dt_interval(hours=F.col("delay_hours"))
    return (
        flights.option("maxFilesPerTrigger", "1")
        .parquet(str(archive))
        .withColumn("delay_hours", delays)
        .withColumn(EVENT_TIME, dated)
        .withWatermark(EVENT_TIME, f"{max(delay_hours)} hours")
    )


def judging_at_once(spark: SparkSession) -> SparkSession:
    """Return a session in which late rows are judged by the watermark of the batch before."""
    session = spark.newSession()
    session.conf.set(JUDGED_BY_THE_BATCH_BEFORE_LAST, "false")
    return session


def hourly(flights: DataFrame) -> DataFrame:
    """Return the departures per hour and origin, the columns those of `run.Count`."""
    end = F.unix_millis(F.col("window.end")) - F.col("delay_hours") * F.lit(HOUR_MS)
    counts = flights.groupBy(F.window(EVENT_TIME, HOUR), "origin", "delay_hours").count()
    return counts.select("delay_hours", end.alias("end"), "origin", F.col("count").alias("flights"))


def truth(spark: SparkSession, root: Path) -> Truth:
    """Return what a batch query counts over all that was written."""
    rows = spark.read.parquet(str(root / STREAM)).withColumn("delay_hours", F.lit(0))
    return {(end, origin): flights for _, end, origin, flights in hourly(rows).collect()}


def write_archive(directory: Path, batches: Iterable[Sequence[Flight]]) -> None:
    """Write one Parquet file a micro-batch, dated so that Spark's file source keeps their order."""
    directory.mkdir(parents=True)
    for number, batch in enumerate(batches):
        path = directory / f"{number:06d}.parquet"
        pq.write_table(table(batch), path)
        os.utime(path, (LONG_AGO_S + number, LONG_AGO_S + number))
