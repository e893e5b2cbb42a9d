"""Counts the events of a file log per minute into JSON files.

RocksDB keeps its state. It runs until it is killed.
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time_extensions.files import read_noted_log
from spark_integration import Noted, WatermarkPolicy
from tools.trials.starting import retry_start, start_query


def main(program_input: dict[str, str]) -> None:
    """Count until killed."""
    spark = SparkSession.builder.getOrCreate()
    noted_stream, policy = (
        Noted(program_input["stream"], controller=program_input["url"]),
        WatermarkPolicy(strict=False),
    )
    events = retry_start(
        lambda: read_noted_log(
            spark, program_input["root"], noted_stream, event_time="time", policy=policy
        )
    )
    files = per_minute(events).writeStream.format("json").option("path", program_input["output"])
    start_query(files.option("checkpointLocation", f"{program_input['output']}-checkpoint").start)
    spark.streams.awaitAnyTermination()


def per_minute(events: DataFrame) -> DataFrame:
    """Return (start of the minute in Unix ms, count)."""
    counts = events.groupBy(F.window("time", "1 minute")).count()
    return counts.select(F.unix_millis("window.start").alias("minute"), "count")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
