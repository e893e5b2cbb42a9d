"""Errors in the call of a reader of file logs, which need neither a query nor Java."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BooleanType, LongType, StructField, StructType, TimestampType

from noted_time import (
    BacklogPolicy,
    ImplausibleTime,
    Rejected,
    UnexpectedAnswer,
    UnknownDomain,
    UnknownStream,
)
from noted_time_extensions.files import Batches, Columns, ReadRange, read_complete, read_noted_log
from noted_time_extensions.files.spark.log_rows import build_scan_schema
from noted_time_extensions.files.spark.log_source import LogSource
from noted_time_extensions.files.spark.options import Option
from noted_time_extensions.files.spark.query import LogQuery
from spark_integration import CatchUp, Ingestion, Noted, WatermarkPolicy
from spark_integration.session.sources import build_options
from tests.spark.test_asking import NOON, WITHOUT_JAVA
from tests.spark.test_tokens import SECRET
from tests.support.bundles import take_fields
from tests.support.loopback import Loopback, give
from tests.support.noted_stream import NotedStream
from tools.trials.served import Served


def ask_for_stream(
    root: Path,
    url: str,
    /,
    *options: Option,
    **fields: Any,  # noqa: ANN401
) -> None:
    """Ask for a stream with these options."""
    chosen_fields = {"event_time": "time", **fields}
    read_noted_log(
        WITHOUT_JAVA,
        root,
        take_fields(Noted, chosen_fields, controller=url, stream="flights"),
        *options,
        **chosen_fields,
    )


def schema(kind: Any, name: str = "time") -> StructType:  # noqa: ANN401 - a type of Spark
    """Return the schema of one column."""
    return StructType([StructField(name, kind)])


@pytest.mark.parametrize(
    ("columns", "asking", "error", "sentence"),
    [
        ({}, {"controller": "localhost:7464"}, Rejected, "has no scheme"),
        ({}, {"stream": "flihgts"}, UnknownStream, "there is no stream 'flihgts'"),
        ({}, {"domain": "order"}, UnknownDomain, "no domain 'order'; it declares default"),
        ({}, {"event_time": "departure"}, Rejected, "no column departure, the event time; it has"),
        ({"names": ["origin"]}, {}, Rejected, "has no column origin"),
        ({"schema": schema(BooleanType())}, {}, Rejected, "column time of the schema is boolean"),
        ({"schema": schema(LongType(), "at")}, {}, Rejected, "schema has no column time"),
    ],
)
def test_unreadable_stream_or_column_is_refused_in_the_call(  # noqa: PLR0913, PLR0917 - a table
    flights: NotedStream,
    controller: Served,
    columns: Any,  # noqa: ANN401 - any field
    asking: Any,  # noqa: ANN401 - any parameter
    error: type[Exception],
    sentence: str,
) -> None:
    """The error lists the existing names."""
    flights.append(0, (1000, "a"))

    with pytest.raises(error, match=sentence):
        ask_for_stream(flights.root, controller.url, Columns(**columns), **asking)


@pytest.mark.parametrize(
    ("options", "asking", "sentence"),
    [
        ([Batches(5), Batches(6)], {}, r"ReadRange, .* each at most once: not Batches"),
        ([5], {}, "each at most once: not 5"),
        (
            [Batches(9), CatchUp(BacklogPolicy(), 8)],
            {},
            r"of CatchUp is 8: it must be at least the limit of Batches \(9\)",
        ),
        ([Ingestion(5)], {}, "Ingestion.* goes with domain='ingestion'"),
        ([ReadRange(0), Ingestion(5)], {"domain": "ingestion"}, "cannot be used with domain="),
        ([], {"domain": "ingestion"}, "promise nothing of event times: pass Ingestion"),
    ],
)
def test_conflicting_options_are_refused_by_name(
    tmp_path: Path,
    options: Any,  # noqa: ANN401 - any option
    asking: dict[str, Any],
    sentence: str,
) -> None:
    """The call needs no controller."""
    with pytest.raises(Rejected, match=sentence):
        ask_for_stream(tmp_path, "http://127.0.0.1:9", *options, **asking)


@pytest.mark.parametrize(
    ("option", "values", "sentence"),
    [
        (Batches, {"max_rows_per_trigger": 0}, "max_rows_per_trigger must be 1 or more, not 0"),
        (Columns, {"late": "hide"}, "late must be 'drop' or 'keep'"),
        (ReadRange, {"start_at": 5, "end_at": 5}, "start_at 5 is not below end_at 5"),
        (ReadRange, {"end_at": 10**18}, "not one that Spark can express"),
        (ReadRange, {"start_at": NOON + timedelta(microseconds=1)}, "sub-millisecond precision"),
        (ReadRange, {"start_at": NOON.replace(tzinfo=None)}, "has no time zone"),
    ],
)
def test_option_refuses_unknown_values(
    option: Any,  # noqa: ANN401 - any class
    values: dict[str, Any],
    sentence: str,
) -> None:
    """The error comes when the option is created, and names the value."""
    with pytest.raises(Rejected, match=sentence):
        option(**values)


READS: dict[str, Callable[..., object]] = {
    "read_noted_log": lambda url, **options: read_noted_log(
        WITHOUT_JAVA, "log", Noted("seen", controller=url), **options
    ),
    "read_complete": lambda url, **options: read_complete(
        WITHOUT_JAVA, "log", Noted("seen", controller=url), 0, 1, **options
    ),
}
"""The reads that promise something of a column by the marks of a domain."""


@pytest.mark.parametrize("call", READS)
def test_marks_of_ingestion_are_refused_for_event_times(call: str) -> None:
    """Rows with older event times may come after the mark's cut."""
    with pytest.raises(Rejected, match=r"ingestion say .* promise nothing of event times"):
        READS[call]("http://127.0.0.1:9", domain="ingestion", event_time="departure")


@pytest.mark.parametrize("call", READS)
def test_unnamed_marks_of_ingestion_are_refused(call: str, served: Served) -> None:
    """Without a name, the call means the only domain of a stream."""
    served.create("seen", domains=["ingestion"])
    served.note("seen", 10, {"0": 1}, domain="ingestion")
    with pytest.raises(Rejected, match="promise nothing of event times"):
        READS[call](served.url, event_time="departure")


def test_options_of_a_source_carry_its_query(tmp_path: Path) -> None:
    """Spark's options are strings."""
    policy = WatermarkPolicy(on_seal="hold")
    catch_up = CatchUp(BacklogPolicy(5, None, "sticky"), 7)
    place = str(tmp_path), "flights", "http://a", "time"
    query = LogQuery(*place, policy=policy, range=ReadRange(NOON), catch_up=catch_up)

    assert LogSource(build_options(query)).query == query


def test_log_without_files_asks_for_a_schema(flights: NotedStream, controller: Served) -> None:
    """The call does not wait for an unreachable controller."""
    controller.stop()

    with pytest.raises(Rejected, match=r"no file yet in .*flights: pass the schema"):
        ask_for_stream(flights.root, controller.url)
    controller.start()


def test_address_of_another_server_is_refused(tmp_path: Path) -> None:
    with (
        Loopback(lambda request: give(request, 404, b"<html>", {})) as other,
        pytest.raises(UnexpectedAnswer, match="check the URL and its proxies"),
    ):
        ask_for_stream(tmp_path, other.url)


def test_end_in_seconds_is_refused(tmp_path: Path, served: Served) -> None:
    """Only an integer can be in seconds. The query would end at once, without a row."""
    served.create("hours")
    served.note("hours", int(NOON.timestamp()) * 1000, {"0": 1})

    with pytest.raises(ImplausibleTime, match="is 1357041600 in seconds"):
        ask_for_stream(
            tmp_path, served.url, ReadRange(end_at=int(NOON.timestamp())), stream="hours"
        )
    with pytest.raises(Rejected, match="no file yet"):
        ask_for_stream(tmp_path, served.url, ReadRange(end_at=NOON), stream="hours")


def test_event_time_is_read_with_any_columns(flights: NotedStream) -> None:
    """It is read as a timestamp from a column of any type."""
    flights.append_table(0, pa.table({"time": [7], "name": ["a"], "other": [True]}))
    columns = Columns(("name", "time"))
    query = LogQuery(str(flights.root), "flights", "http://x", "time", columns=columns)

    assert build_scan_schema(query).simpleString() == (
        "struct<name:string,time:timestamp,_noted_mark_time:timestamp>"
    )


def test_a_range_names_its_bounds_as_times() -> None:
    with pytest.raises(Rejected, match="start_at 2013-01-01T12:00:00Z is not below end_at 2013-"):
        ReadRange(NOON, NOON)


def test_workers_are_given_no_token() -> None:
    """Spark pickles a reader and its source for the workers."""
    query = LogQuery("/log", "flights", "http://127.0.0.1", "time")
    source = LogSource(build_options(query, SECRET))
    reader = source.streamReader(StructType([StructField("time", TimestampType())]))

    assert reader._secrets[0] == SECRET
    assert SECRET.encode() not in cloudpickle.dumps((source, reader))  # type: ignore[no-untyped-call]
