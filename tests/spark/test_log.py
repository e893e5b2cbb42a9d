"""What a query makes of the files that it finds in the log."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected, ScaleEvent
from spark_integration import Batches, Columns
from tests.spark.conftest import Reads
from tests.support.noted_stream import NotedStream
from tests.support.query_output import QueryOutput
from tests.support.served import Served

pytestmark = pytest.mark.spark


def truncate(path: Path) -> bytes:
    """Cut a file in half; returns what it was."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return whole


def test_a_truncated_file_is_named_and_nothing_is_lost_once_it_is_whole(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The query fails on it; repaired, it continues from its checkpoint with every row."""
    names = read(flights.begun()).select("name")
    flights.append(0, (1000, "a"))
    output.catch_up(names)
    path = flights.append(0, (2000, "b"))
    flights.append(1, (3000, "c"))
    whole = truncate(path)
    with pytest.raises(PySparkException, match=path.name.replace("+", r"\+")):
        output.catch_up(names)
    path.write_bytes(whole)
    output.catch_up(names)

    assert output.rows == [("a",), ("b",), ("c",)]


def test_a_foreign_file_is_named_and_nothing_is_lost_once_it_is_gone(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """A Parquet file that is not an append of the segment."""
    names = read(flights.begun()).select("name")
    path = flights.append(0, (1000, "a")).with_name("other+0+0000000009.parquet")
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(PySparkException, match="not a name of stream 'flights', segment 0"):
        output.catch_up(names)
    path.unlink()
    output.catch_up(names)

    assert output.rows == [("a",)]


def test_a_file_without_a_column_is_named(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """It has the right name and other columns."""
    names = read(flights.begun()).select("name")
    flights.append(0, (1000, "a"))
    flights.append_table(0, pa.table({"time": [1], "x": [1]}))

    with pytest.raises(
        PySparkException, match=r"flights\+0\+0000000001.parquet: has no column name"
    ):
        output.catch_up(names)


def test_integers_are_times_in_unix_ms_and_only_asked_for_columns_are_read(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The event time arrives as a timestamp and in the order of the columns asked for."""
    flights.append_table(0, pa.table({"x": [7], "time": [1357034220123], "y": ["unread"]}))
    events = read(flights, Columns(["time", "x"]))
    output.catch_up(events.select(F.unix_millis("time"), "x"))

    assert (events.columns, output.rows) == (["time", "x"], [(1357034220123, 7)])


def test_events_of_other_types_arrive_as_they_were_written(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Nested values, decimals, nulls, and instants that are finer than Spark's."""
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


def test_each_domain_of_a_stream_moves_the_watermark_of_its_own_time(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """Order time is far ahead of ship time; a query on the latter waits for it."""
    flights.marks = controller.stream("flights", "order", "ship")
    flights.append(0, (1000, "a"))
    flights.marks.note("w", 9000, {0: 1}, "order")
    flights.marks.note("w", 1500, {0: 1}, "ship")
    ship = read.counts(flights, domain="ship")
    output.catch_up(ship)
    before = output.rows
    flights.marks.note("w", 2000, {0: 1}, "ship")
    output.catch_up(ship)

    assert (before, output.rows) == ([], [(1, 1)])


def test_a_scaled_stream_is_read_to_the_end_of_its_sealed_segment(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Naming a successor means that its predecessor is complete, and no mark is admitted before."""
    flights.append(0, (1000, "a"), (1100, "b"), (1200, "c"))
    flights.note(1050)
    flights.marks.scale(ScaleEvent({0: 3}, {1: (0,), 2: (0,)}))
    flights.append(1, (2500, "d"))
    flights.append(2, (1300, "e"), (2600, "f"))
    flights.note(2000)
    output.catch_up(read.counts(flights, Batches(2)))

    assert output.rows == [(1, 4)]


def test_an_unknown_stream_is_named(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """It fails the query at its start, instead of standing still for ever."""
    flights.append(0, (1000, "a"))
    counts = read.counts(flights)
    controller.call("DELETE", "/flights")

    with pytest.raises(PySparkException, match="there is no stream 'flights'"):
        output.catch_up(counts)


def test_a_schema_may_be_spelled_out(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """As in `DataStreamReader.schema`; it need not name all columns of the log."""
    events = read(flights, Columns(schema="time timestamp"))
    flights.append_table(0, pa.table({"time": [1357034220123], "name": ["a"]}))
    output.catch_up(events.select(F.unix_millis("time")))

    assert (events.columns, output.rows) == (["time"], [(1357034220123,)])
    with pytest.raises(Rejected, match="schema 'timestamp' names no columns"):
        read(flights, Columns(schema="timestamp"))
