"""The flights query for a cluster, which `./run cluster` submits.

It counts the departures per hour and airport of the file log, or of a topic, and compares them with
the written flights. Its last line is the result in JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from demo import kafka
from demo.measurement import Run, Truth
from demo.query import hourly, read_noted, run_to_the_end, truth
from demo.replay import STREAM
from noted_time_extensions.files import Batches

ROWS = 1000
"""How many rows of the file log a micro-batch has."""


def main(parameters: dict[str, str]) -> None:
    """Count all flights, and print how many were lost or counted twice."""
    spark = SparkSession.builder.appName("flights").getOrCreate()
    url = parameters["url"]
    checkpoint = parameters["checkpoint"]
    if "bootstrap" in parameters:
        flights = kafka.read_noted(spark, parameters["bootstrap"], url, checkpoint)
        written_rows = kafka.read(spark.read, parameters["bootstrap"])
    else:
        flights = read_noted(spark, Path(parameters["root"]), url, Batches(ROWS))
        written_rows = spark.read.parquet(f"{parameters['root']}/{STREAM}")
    run = run_to_the_end(hourly(flights), Path(checkpoint))
    print(json.dumps(compare(run, truth(written_rows))))  # noqa: T201 - its result
    spark.stop()


def compare(run: Run, expected: Truth) -> dict[str, Any]:
    """Return the numbers of flights, of lost ones, and of counts that came twice.

    >>> from demo.measurement import Count, Run
    >>> run = Run({0: [Count(0, 5, "EWR", 2)], 1: [Count(0, 5, "EWR", 2)]})
    >>> compare(run, {(5, "EWR"): 2, (6, "JFK"): 1})
    {'flights': 3, 'hours': 2, 'lost': 1, 'twice': 1}
    """
    count_total = 0
    counted_flights: Truth = {}
    for counts in run.given_out.values():
        count_total += len(counts)
        for count in counts:
            counted_flights[count.end, count.origin] = count.flights
    lost_count = 0
    for window, flights in expected.items():
        lost_count += flights - counted_flights.get(window, 0)
    return {
        "flights": sum(expected.values()),
        "hours": len({end for end, _ in expected}),
        "lost": lost_count,
        "twice": count_total - len(counted_flights),
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
