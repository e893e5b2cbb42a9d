"""The flights query as a program for a cluster: `./run cluster` submits it, as you would yours.

It counts the departures per hour and airport of the file log, or of the topic if a broker is named,
and compares the result with all that was written. Its last line is that, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from demo.kafka import COMMITTED, flights_of
from demo.query import hourly, run_to_the_end, truth, with_noted_time
from demo.replay import EVENT_TIME, STREAM
from spark_integration import Batches, KafkaRecords, Noted, WatermarkPolicy, read_noted_kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from demo.measurement import Truth
    from demo.query import Run

ROWS = 1000
"""How many rows of the file log a micro-batch has."""


def main(given: dict[str, str]) -> None:
    """Count to the end of what is there, and say what was lost or counted twice."""
    spark = SparkSession.builder.appName("flights").getOrCreate()
    topic = "bootstrap" in given
    flights, written = (_topic if topic else _log)(spark, given)

    def on_batch(run: Run) -> None:
        hours = {count.end for counts in run.given_out.values() for count in counts}
        _say(f"micro-batch {max(run.given_out) + 1}: {len(hours)} hours are complete")

    run = run_to_the_end(hourly(flights), Path(given["checkpoint"]), on_batch)
    _say(json.dumps(compared(run, truth(written))))
    spark.stop()


def compared(run: Run, expected: Truth) -> dict[str, Any]:
    """Return how many flights there are, are lost and how many counts came twice.

    >>> from demo.query import Count, Run
    >>> run = Run({0: [Count(0, 5, "EWR", 2)], 1: [Count(0, 5, "EWR", 2)]})
    >>> compared(run, {(5, "EWR"): 2, (6, "JFK"): 1})
    {'flights': 3, 'hours': 2, 'lost': 1, 'twice': 1}
    """
    counts = [count for batch in run.given_out.values() for count in batch]
    times = Counter((count.end, count.origin) for count in counts)
    found = {(count.end, count.origin): count.flights for count in counts}
    return {
        "flights": sum(expected.values()),
        "hours": len({end for end, _ in expected}),
        "lost": sum(flights - found.get(window, 0) for window, flights in expected.items()),
        "twice": sum(each > 1 for each in times.values()),
    }


def _log(spark: SparkSession, given: dict[str, str]) -> tuple[DataFrame, DataFrame]:
    root = Path(given["root"])
    flights = with_noted_time(spark, root, given["url"], Batches(ROWS))
    return flights, spark.read.parquet(str(root / STREAM))


def _topic(spark: SparkSession, given: dict[str, str]) -> tuple[DataFrame, DataFrame]:
    flights = read_noted_kafka(
        spark,
        KafkaRecords(STREAM, given["bootstrap"], parse=flights_of, options=COMMITTED),
        Noted(given["url"]),
        checkpoint_location=given["checkpoint"],
        event_time=EVENT_TIME,
        policy=WatermarkPolicy(strict=False),
    )
    options = {"subscribe": STREAM, "kafka.bootstrap.servers": given["bootstrap"], **COMMITTED}
    return flights, flights_of(spark.read.format("kafka").options(**options).load())


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - for the person who submitted it


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
