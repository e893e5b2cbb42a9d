"""Tests start a query again if Python was too slow for Spark, as on a busy machine."""

import sys
from pathlib import Path

import pytest

from tests.spark.conftest import Reads
from tests.support.noted_stream import NotedStream
from tests.support.query_output import QueryOutput

pytestmark = pytest.mark.spark

SLOW_ONCE = """#!/bin/sh
case "$*" in
  *streaming_source_runner*) mkdir "$0.was-slow" 2>/dev/null && exec sleep 30 ;;
esac
exec {python} "$@"
"""


def test_a_query_is_started_again_if_python_did_not_connect_back(
    read: Reads,
    flights: NotedStream,
    output: QueryOutput,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark gives up after ten seconds, and the query fails after its start has returned."""
    flights.append(0, (1000, "a"))
    flights.note(2000)
    slow = tmp_path / "python"
    slow.write_text(SLOW_ONCE.format(python=sys.executable))
    slow.chmod(0o755)
    monkeypatch.setattr(read.spark.sparkContext, "pythonExec", str(slow))
    query = output.start(read.counts(flights))
    query.processAllAvailable()
    query.stop()

    assert output.rows == [(1, 1)]
    assert slow.with_name("python.was-slow").is_dir()
