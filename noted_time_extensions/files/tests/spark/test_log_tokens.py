"""Tokens of a query on a file log: they are sent, and appear nowhere else."""

from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StructField, StructType, TimestampType

from noted_time_extensions.files.spark.log_source import LogSource
from noted_time_extensions.files.spark.query import LogQuery
from noted_time_extensions.files.tests.support.reads import Reads
from spark_integration.session.sources import build_options
from tests.spark.test_tokens import SECRET, controller, list_files_with
from tests.support.noted_stream import NotedStream
from tests.support.query_output import QueryOutput

__all__ = ["controller"]


@pytest.mark.spark
def test_query_sends_its_token_and_stores_it_nowhere(
    read: Reads,
    flights: NotedStream,
    output: QueryOutput,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither the plan nor the checkpoint has it."""
    token = str(flights.server.token)
    events = read(flights.begin_log(), token=token)
    flights.append(0, (1000, "a"))
    output.catch_up(events.select("name"))
    events.explain(extended=True)
    plan = capsys.readouterr().out

    assert (output.rows, "noted_log" in plan, token in plan) == ([("a",)], True, False)
    assert not list_files_with(token, tmp_path)


def test_workers_are_given_no_token() -> None:
    """Spark pickles a reader and its source for the workers."""
    query = LogQuery("/log", "flights", "http://127.0.0.1", "time")
    source = LogSource(build_options(query, SECRET))
    reader = source.streamReader(StructType([StructField("time", TimestampType())]))

    assert reader._secrets[0] == SECRET
    assert SECRET.encode() not in cloudpickle.dumps((source, reader))  # type: ignore[no-untyped-call]
