"""Operators that judge rows one by one: deduplication and joins."""

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_integration import Batches
from tests.spark.conftest import Reads
from tests.support.disorder import disorder, replay
from tests.support.noted_stream import NotedStream
from tests.support.queries import collect_rows, join_within_second
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


def test_join_of_two_disordered_streams_finds_every_pair(
    read: Reads, flights: NotedStream, landings: NotedStream, output: QueryOutput
) -> None:
    """A batch join finds the same pairs."""
    departures, arrivals = disorder(2), disorder(3)
    replay(flights, departures[:15])
    replay(landings, arrivals[:15])
    streams = [read(each, Batches(40), strict=True) for each in (flights, landings)]
    joined = join_within_second(*streams)
    output.catch_up(joined)
    replay(flights, departures[15:])
    replay(landings, arrivals[15:])
    output.catch_up(joined)

    assert output.rows == collect_rows(
        join_within_second(read.truth(flights), read.truth(landings))
    )


def test_event_is_remembered_for_the_dedup_retention(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The second `a` is dated 800 ms later than the first one, and is known for a second."""
    events = read(flights.begin_log(), strict=True, dedup_retention_ms=1000)
    names = events.dropDuplicatesWithinWatermark(["name"]).select(F.unix_millis("time"))
    flights.append(0, (1000, "a"))
    flights.note(1500)
    output.catch_up(names)
    flights.append(0, (1800, "a"))
    flights.note(2200)
    output.catch_up(names)
    flights.append(0, (2500, "a"))
    flights.note(3000)
    output.catch_up(names)

    assert output.rows == [(1000,), (2500,)]


def test_join_with_one_quiet_side_continues_after_a_restart(
    read: Reads, flights: NotedStream, landings: NotedStream, output: QueryOutput
) -> None:
    """The quiet side has no news in the second run; its time is stated again all the same."""
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
