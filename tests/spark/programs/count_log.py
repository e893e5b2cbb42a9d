"""Counts the events of a file log per second into JSON files, a few rows at a time."""

from __future__ import annotations

import json
import sys

from spark_integration import Batches, read_noted_log
from tests.support.queries import per_second
from tests.support.spark_sessions import start_spark


def main(told: dict[str, str]) -> None:
    """Read all that is there, and stop."""
    spark = start_spark()
    events = read_noted_log(
        spark,
        told["root"],
        told["stream"],
        Batches(20),
        controller_url=told["url"],
        event_time="time",
        strict=False,
    )
    files = per_second(events).writeStream.format("json").outputMode("append")
    files = files.option("checkpointLocation", told["checkpoint"]).trigger(availableNow=True)
    files.start(told["output"]).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
