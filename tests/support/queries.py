"""Queries on streams and on the same rows at rest."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from tests.support.noted_stream import NotedStream


def count_per_second(events: DataFrame, time: str = "time") -> DataFrame:
    """Return (start of the second, count)."""
    counts = events.groupBy(F.window(time, "1 second")).count()
    return counts.select(F.unix_seconds("window.start").alias("second"), "count")


def join_within_second(flights: DataFrame, landings: DataFrame) -> DataFrame:
    """Return (name) of the flights that have a landing of that name up to a second later."""
    left = flights.select("time", "name")
    right = landings.select(F.col("time").alias("landed"), F.col("name").alias("who"))
    soon = F.expr("landed >= time AND landed <= time + INTERVAL 1 SECOND")
    return left.join(right, (left.name == right.who) & soon).select("name")


def collect_rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def read_all(spark: SparkSession, stream: NotedStream) -> DataFrame:
    """Return all of the stream's events from a batch read of its files."""
    return spark.read.parquet(str(stream.root / stream.name)).drop("partition")
