"""Windows close by the marks of the writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_integration import read_noted_log
from tests.support.query_output import QueryOutput

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.marks_server import MarksServer
    from tests.support.noted_stream import NotedStream


def counts_per_second(spark: SparkSession, flights: NotedStream, url: str) -> DataFrame:
    """Return (start of the second in s, count)."""
    events = read_noted_log(
        spark, flights.root, flights.name, controller_url=url, event_time="time", strict=False
    )
    counts = events.groupBy(F.window("time", "1 second")).count()
    return counts.select(F.unix_seconds("window.start"), "count")


def test_a_mark_closes_the_windows_below_it_in_the_run_that_read_them(
    spark: SparkSession, controller: MarksServer, flights: NotedStream, tmp_path: Path
) -> None:
    """The two whole seconds below the mark are given out, the third one waits."""
    flights.append(0, (1000, "a"), (2500, "b"), (900, "c"))
    flights.note(2000)
    output = QueryOutput(tmp_path / "checkpoint")
    output.catch_up(counts_per_second(spark, flights, controller.url))

    assert output.rows == [(0, 1), (1, 1)]
