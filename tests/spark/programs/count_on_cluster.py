"""Counts the events of a file log, and of a topic if there is one, per minute into JSON files.

Its state is kept by RocksDB. It runs until it is killed, one query for each.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo.trials.starting import connected, started
from spark_integration import KafkaRecords, Noted, WatermarkPolicy, read_noted_kafka, read_noted_log


def main(given: dict[str, Any]) -> None:
    """Count until killed."""
    spark = SparkSession.builder.getOrCreate()
    for asked in given["queries"]:
        checkpoint = f"{asked['output']}-checkpoint"
        events = connected(lambda: read(spark, given["url"], checkpoint, asked))  # noqa: B023
        files = per_minute(events).writeStream.format("json").option("path", asked["output"])
        started(files.option("checkpointLocation", checkpoint).start)
    spark.streams.awaitAnyTermination()


def read(spark: SparkSession, url: str, checkpoint: str, asked: dict[str, str]) -> DataFrame:
    """Return the events of a topic, if a broker is named, else of a file log."""
    noted, policy = Noted(url, asked["stream"]), WatermarkPolicy(strict=False)
    if "bootstrap" not in asked:
        return read_noted_log(spark, asked["root"], noted, event_time="time", policy=policy)
    records = KafkaRecords(
        asked["stream"],
        asked["bootstrap"],
        parse=lambda records: records.select(F.col("timestamp").alias("time")),
    )
    return read_noted_kafka(
        spark, records, noted, event_time="time", checkpoint_location=checkpoint, policy=policy
    )


def per_minute(events: DataFrame) -> DataFrame:
    """Return (start of the minute in Unix ms, count)."""
    counts = events.groupBy(F.window("time", "1 minute")).count()
    return counts.select(F.unix_millis("window.start").alias("minute"), "count")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
