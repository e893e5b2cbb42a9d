"""Queries on file logs: their windows, rows and files, and the end of a sealed stream."""

from datetime import date

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from noted_time_extensions.files import Columns
from noted_time_extensions.files.tests.support.reads import Reads, write_rows
from spark_integration.marks.watermark import LAST_MS
from tests.support.noted_stream import NotedStream
from tests.support.queries import count_per_second
from tests.support.query_output import QueryOutput
from tools.trials.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.shows("read_noted_log")]


def test_window_closes_exactly_when_the_lower_reaches_its_end(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """It does not close a millisecond before.

    A strict query needs one more. The last note has no row.
    """
    flights.append(0, (1000, "a"), (1999, "b"), (2500, "c"))
    flights.note(2000)
    query = output.start(read.counts(flights, strict=True))
    query.processAllAvailable()
    eventually(output.last_lower, 2000)
    query.processAllAvailable()
    before = output.rows
    flights.note(2001)

    assert before == []
    assert eventually(lambda: output.rows, [(1, 2)])
    query.stop()


def test_filter_on_another_column_lets_time_advance(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Spark pushes the filter down. It must not remove the marks."""
    flights.append(0, (1000, "a"), (1100, "b"))
    flights.note(2000)
    output.catch_up(count_per_second(read(flights).where("name = 'a' AND time IS NOT NULL")))

    assert output.rows == [(1, 1)]


def test_last_windows_of_a_sealed_stream_come_out(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The lower of the last mark would leave the last window open."""
    counts = read.counts(write_rows(flights, 2000), strict=True)
    flights.marks.note("w", 2000, {}, state="finished")
    output.catch_up(counts)
    before = output.rows
    flights.marks.seal()
    output.catch_up(counts)

    assert before == []
    assert (output.rows, output.last_lower()) == ([(1, 1), (2, 1), (9, 1)], LAST_MS)


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
    left_rows = left.join(right, soon, "left_outer").select("name", "who")
    output.catch_up(left_rows)
    landings.note(60_000)
    output.catch_up(left_rows)

    assert output.rows == [("a", None)]


def test_only_requested_columns_are_read(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Names or a schema select them, in their order. Integers have the unit that is given."""
    flights.append_table(0, pa.table({"x": [7], "time": [1357034220123], "y": ["unread"]}))
    named_events = read(flights, Columns(["time", "x"], unit="ms"))
    events = read(flights, Columns(schema="time timestamp, x long", unit="ms"))
    output.catch_up(events.select(F.unix_millis("time"), "x"))

    assert (named_events.columns, output.rows) == (["time", "x"], [(1357034220123, 7)])
    assert [field.dataType for field in named_events.schema] == [
        field.dataType for field in events.schema
    ]
    with pytest.raises(Rejected, match="schema 'timestamp' has no columns"):
        read(flights, Columns(schema="timestamp"))


def test_events_of_other_types_arrive_as_they_were_written(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The types are nested values, decimals, nulls and instants finer than Spark's."""
    flights.append_table(0, ODD)
    output.catch_up(read(flights).withColumn("time", F.unix_micros("time")))

    assert output.rows == [(1_000_000, [1, None], (1, "x"), None, date(2022, 1, 8), "x")]


ODD = pa.table(
    {
        "time": pa.array([1_000_000_007], pa.timestamp("ns", tz="UTC")),
        "list": pa.array([[1, None]], pa.list_(pa.int32())),
        "struct": pa.array([{"a": 1, "b": "x"}]),
        "price": pa.array([None], pa.decimal128(9, 2)),
        "day": pa.array([19000], pa.date32()),
        "word": pa.array(["x"]).dictionary_encode(),
    }
)
