"""Deduplication and joins, which judge rows one by one."""

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from tests.spark.conftest import Reads
from tests.support.noted_stream import NotedStream
from tests.support.query_output import QueryOutput

pytestmark = pytest.mark.spark


def test_strict_keeps_an_event_at_the_lower_itself(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """An event at the lower may still come, and is not late."""
    names = read(flights.begin_log(), strict=True).dropDuplicates(["name", "time"]).select("name")
    flights.append(0, (1000, "a"), (2500, "b"))
    flights.note(2000)
    output.catch_up(names)
    flights.append(0, (2000, "at the lower"))
    flights.note(3000)
    output.catch_up(names)

    assert output.rows == [("a",), ("at the lower",), ("b",)]


def test_join_with_one_quiet_side_continues_after_a_restart(
    read: Reads, flights: NotedStream, landings: NotedStream, output: QueryOutput
) -> None:
    """The quiet side has nothing new in the second run, but states its time again."""
    flights.append(0, (1000, "a"))
    flights.note(50_000)
    landings.append(0, (1500, "other"))
    landings.note(4000)
    left = read(flights, strict=True).select("time", "name")
    right = read(landings, strict=True).selectExpr("time AS landed", "name AS who")
    soon = F.expr("name = who AND landed >= time AND landed <= time + INTERVAL 5 SECONDS")
    unmatched = left.join(right, soon, "left_outer").select("name", "who")
    output.catch_up(unmatched)
    landings.note(60_000)
    output.catch_up(unmatched)

    assert output.rows == [("a", None)]
