"""Whole Spark drivers: killed in the middle, and behind Spark Connect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.disorder import disorder, replay
from tests.support.queries import per_second, rows_of
from tests.support.spark_programs import SparkProgram
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Reads
    from tests.support.noted_stream import NotedStream
    from tests.support.served import Served

pytestmark = pytest.mark.spark


def test_a_driver_that_is_killed_gives_the_output_of_one_that_never_was(
    read: Reads, flights: NotedStream, controller: Served, tmp_path: Path
) -> None:
    """SIGKILL a few batches in; events and marks go on before it is started again."""
    steps = disorder(7, events=25)
    told: dict[str, object] = {
        "root": str(flights.root),
        "stream": flights.name,
        "url": controller.url,
        "checkpoint": str(tmp_path / "checkpoint"),
        "output": str(tmp_path / "output"),
    }
    replay(flights, steps[:10])
    killed = SparkProgram("count_log", told, tmp_path / "killed.log")
    committed = tmp_path / "checkpoint" / "commits" / "1"
    eventually(lambda: (committed.exists(), killed.running()), (True, True), timeout_s=120)
    killed.kill()
    replay(flights, steps[10:])
    SparkProgram("count_log", told, tmp_path / "again.log").finish()

    counts = read.spark.read.json(str(tmp_path / "output")).select("second", "count")
    assert rows_of(counts) == rows_of(per_second(read.truth(flights)))


def test_any_source_works_through_spark_connect(controller: Served, tmp_path: Path) -> None:
    """Sources and listeners are registered the Connect way; no call goes to Java."""
    ticks = controller.stream("ticks")
    ticks.note("w", 3000, {0: 30})
    told: dict[str, object] = {"url": controller.url, "checkpoint": str(tmp_path / "checkpoint")}
    printed = SparkProgram("connect_ticks", told, tmp_path / "log").finish()

    read_far_enough = controller.reported("ticks", "counters")[0]["0"] >= 30
    assert (json.loads(printed), read_far_enough) == ([[0, 10], [1, 10], [2, 10]], True)
