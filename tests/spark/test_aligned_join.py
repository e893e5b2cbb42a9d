"""An outer join of two logs, one of which is ten hours ahead of the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr

from examples.flights.starting import connected, started
from spark_integration import Align, Batches, Noted, read_noted_log
from tests.support.aligned import put_alignment
from tests.support.noted_stream import NotedStream
from tests.support.served import Served
from tests.support.spark_sessions import wait_for_end

pytestmark = pytest.mark.spark

HOUR = 3_600_000
HOURS = 10
A_MARK = HOUR // 2
DRIFT = 2 * HOUR
ROWS = HOURS * HOUR // A_MARK
OF_THE_SLOW_SIDE = 2
"""The rows it reads per batch; the join holds no earlier ones."""
FIRST = 1_357_034_400_000


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a controller that serves."""
    with Served() as controller:
        yield controller


@pytest.fixture
def logs(served: Served, tmp_path: Path) -> Path:
    """Return logs of ten hours, a row and a mark each half hour; each third row has no pair."""
    for name in ("fast", "slow"):
        stream = NotedStream(tmp_path / "log", name, served)
        for number in range(ROWS):
            key = f"{name if number % 3 == 0 else ''}{number}"
            time = FIRST + number * A_MARK
            stream.append(0, (time, key))
            stream.note(time + A_MARK)
    return tmp_path / "log"


def joined(spark: SparkSession, served: Served, logs: Path) -> DataFrame:
    """Return the pairs, and the rows of the fast side without one; the slow side reads by two."""

    def read(name: str, most: int | None) -> DataFrame:
        where: dict[str, Any] = {"event_time": "time"}
        noted = Noted(served.url, name)
        rows = connected(
            lambda: read_noted_log(spark, logs, noted, Batches(most), Align("join"), **where)
        )
        return rows.select(col("time").alias(f"{name}_time"), col("name").alias(f"{name}_name"))

    near = "slow_time BETWEEN fast_time AND fast_time + INTERVAL 30 MINUTES"
    same = expr(f"fast_name = slow_name AND {near}")
    return read("fast", None).join(read("slow", 2), same, "left_outer")


def most_rows_of_state(progress: list[Any]) -> int:
    """Return the most rows that the join held after a batch."""
    return max(int(each["stateOperators"][0]["numRowsTotal"]) for each in progress)


def offset_of(source: Any) -> int:  # noqa: ANN401 - JSON of Spark's
    """Return the offset of the one segment at which a source ended a batch."""
    end = source["endOffset"]
    wire = json.loads(end) if isinstance(end, str) else end
    return int(wire["segments"].get("0", 0))


def test_the_fast_side_is_ahead_by_the_drift_and_one_mark_and_the_result_is_whole(
    spark: SparkSession, served: Served, logs: Path, tmp_path: Path
) -> None:
    """Without the alignment the join would hold all of its ten hours at once."""
    put_alignment(served.url, "join", DRIFT)
    names = joined(spark, served, logs).select("fast_name", "slow_name")
    writer = names.writeStream.format("memory").queryName("aligned").trigger(availableNow=True)
    running = started(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)
    wait_for_end(running)
    found, aligned = set(map(tuple, spark.table("aligned").collect())), running.recentProgress
    ahead = [offset_of(each["sources"][0]) - offset_of(each["sources"][1]) for each in aligned]

    most = (DRIFT + A_MARK) // A_MARK
    assert found == {(f"{n}", f"{n}") if n % 3 else (f"fast{n}", None) for n in range(ROWS)}
    assert max(ahead) <= most
    assert most_rows_of_state(aligned) <= most + OF_THE_SLOW_SIDE < ROWS
    assert [offset_of(each) for each in aligned[-1]["sources"]] == [ROWS, ROWS]
