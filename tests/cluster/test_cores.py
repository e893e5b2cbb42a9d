import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_integration import read_complete
from tests.support.noted_stream import NotedStream, table
from tests.support.served import Served

ROWS = 200_000
"""Enough for four tasks."""


def test_a_read_has_as_many_tasks_as_the_cluster_has_cores(
    remote: SparkSession, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many the caller's machine has."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    stream = NotedStream(tmp_path, "flights", served)
    stream.append_table(0, table(*[(7, "a")] * ROWS))
    stream.marks.note("w", 1000, {0: ROWS})
    asked: dict[str, Any] = {"controller_url": served.url, "event_time": "time"}
    rows = read_complete(remote, tmp_path, "flights", 0, 1000, **asked)
    tasks = rows.groupBy(F.spark_partition_id()).count().collect()

    assert [count for _, count in tasks] == [ROWS // 2, ROWS // 2]
