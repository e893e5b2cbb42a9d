"""Unusual files in the log of a query."""

from datetime import date

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from spark_integration import Columns
from tests.spark.conftest import Reads
from tests.support.noted_stream import NotedStream
from tests.support.query_output import QueryOutput

pytestmark = pytest.mark.spark


def test_only_requested_columns_are_read(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Names or a schema select them, in their order. Integers are times in Unix ms."""
    flights.append_table(0, pa.table({"x": [7], "time": [1357034220123], "y": ["unread"]}))
    named = read(flights, Columns(["time", "x"]))
    events = read(flights, Columns(schema="time timestamp, x long"))
    output.catch_up(events.select(F.unix_millis("time"), "x"))

    assert (named.columns, output.rows) == (["time", "x"], [(1357034220123, 7)])
    assert [each.dataType for each in named.schema] == [each.dataType for each in events.schema]
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
