"""What `read_noted_log` refuses in the call: one sentence, before a query or Java is at work."""

from __future__ import annotations

from datetime import UTC, datetime
from http.server import HTTPServer, SimpleHTTPRequestHandler
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from noted_time import ImplausibleTime, Rejected, UnexpectedAnswer, UnknownDomain, UnknownStream
from spark_integration import read_noted_log
from spark_integration.log_query import LogQuery
from spark_integration.log_rows import scan_schema

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.noted_stream import NotedStream
    from tests.support.served import Served

WITHOUT_JAVA = SparkSession.__new__(SparkSession)
"""A session that can do nothing."""


def asked(root: Path, url: str, **options: Any) -> None:  # noqa: ANN401 - any option
    """Ask for the stream `flights` with such options."""
    chosen = {"stream": "flights", "event_time": "time", "controller_url": url, **options}
    read_noted_log(WITHOUT_JAVA, root, **chosen)


def schema(kind: Any) -> StructType:  # noqa: ANN401 - a type of Spark
    """Return the schema of one column, `time`."""
    return StructType([StructField("time", kind)])


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"controller_url": "localhost:7464"}, Rejected, "has no scheme"),
        ({"stream": "flihgts"}, UnknownStream, "there is no stream 'flihgts'"),
        ({"domain": "order_time"}, UnknownDomain, "no domain 'order_time'; it declares default"),
        ({"event_time": "departure"}, Rejected, "no column departure, the event time; it has time"),
        ({"columns": ["origin"]}, Rejected, "has no column origin"),
        ({"event_time": "name"}, Rejected, "column name of .* is string: an event time is"),
        ({"schema": schema(StringType())}, Rejected, "column time of the schema is string"),
        ({"schema": schema(LongType()), "event_time": "at"}, Rejected, "schema has no column at"),
    ],
)
def test_what_a_query_cannot_read_is_refused_in_the_call(
    flights: NotedStream,
    controller: Served,
    options: Any,  # noqa: ANN401 - any option
    error: type[Exception],
    sentence: str,
) -> None:
    """URL, stream, domain and columns; the sentence says what there is."""
    flights.append(0, (1000, "a"))

    with pytest.raises(error, match=sentence):
        asked(flights.root, controller.url, **options)


def test_a_log_without_files_asks_for_a_schema(flights: NotedStream, controller: Served) -> None:
    """There is nothing to take one from; a controller that is away is not waited for."""
    controller.stop()

    with pytest.raises(Rejected, match=r"no file yet in .*flights: give the schema"):
        asked(flights.root, controller.url)
    controller.start()


def test_an_address_of_something_else_is_refused(tmp_path: Path) -> None:
    """A web server, say, which knows nothing of streams."""
    other = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    Thread(target=other.serve_forever, args=(0.02,), daemon=True).start()
    try:
        with pytest.raises(UnexpectedAnswer, match="check the URL and its proxies"):
            asked(tmp_path, f"http://127.0.0.1:{other.server_port}")
    finally:
        other.shutdown()
        other.server_close()


def test_an_end_in_seconds_is_refused(tmp_path: Path, served: Served) -> None:
    """The query would end at once, without a row; only integers can be in another unit."""
    noon = datetime(2013, 1, 1, 12, tzinfo=UTC)
    served.create("hours")
    served.note("hours", int(noon.timestamp()) * 1000, {"0": 1})

    with pytest.raises(ImplausibleTime, match="is 1357041600 in seconds"):
        asked(tmp_path, served.url, stream="hours", end_at=int(noon.timestamp()))
    with pytest.raises(Rejected, match="no file yet"):
        asked(tmp_path, served.url, stream="hours", end_at=noon)


def test_the_event_time_is_read_whatever_the_columns_are(flights: NotedStream) -> None:
    """As a timestamp, whatever it is in the log."""
    flights.append_table(0, pa.table({"time": [7], "name": ["a"], "other": [True]}))
    query = LogQuery(str(flights.root), "flights", "http://x", "time", columns=("name", "time"))

    assert scan_schema(query).simpleString() == (
        "struct<name:string,time:timestamp,_noted_mark_time:timestamp>"
    )
