"""The result of a query whose executors, workers and drivers are killed (-9)."""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.noted_stream import NotedStream
from tests.support.offset_log import list_batches
from tools.trials.cluster import Cluster
from tools.trials.served import Served
from tools.trials.starting import UNCONNECTED
from tools.trials.waiting import wait_until

pytestmark = pytest.mark.acceptance

PROGRAMS = Path(__file__).parents[1] / "spark" / "programs"
START_MS = 1_357_002_000_000
MINUTE_MS = 60_000
STEP_MS = 8 * MINUTE_MS
ROWS = 1125
"""A step writes that many rows to each segment, dated in its eight minutes and one more."""

SEGMENTS = {0: "a", 1: "a", 2: "b", 3: "b"}
"""Their writers."""

UNCOMPACTED = {"spark.sql.streaming.fileSink.log.compactInterval": "1000"}


class Output:
    """The commits of a query, and its last planned micro-batch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkpoint = directory.with_name(f"{directory.name}-checkpoint")

    def last_planned(self) -> int:
        """Return the number of the micro-batch planned last, -1 before the first."""
        return max(list_batches(self.checkpoint / "offsets"), default=-1)

    def counts(self) -> list[tuple[int, int]]:
        """Return (minute, count) of each row that was given out, sorted."""
        batches = [path for path in self.directory.glob("_spark_metadata/*") if path.name.isdigit()]
        added_lines = chain.from_iterable(batch.read_text().splitlines()[1:] for batch in batches)
        files = [Path(json.loads(line)["path"].removeprefix("file:")) for line in added_lines]
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted((row["minute"], row["count"]) for row in rows)

    def rows(self) -> int:
        """Return how many rows are counted in these."""
        return sum(count for _, count in self.counts())


class Trial:
    """A driver with a query of a file log, and the writers of that log."""

    def __init__(self, cluster: Cluster, served: Served, directory: Path) -> None:
        self._cluster = cluster
        self.stream = NotedStream(directory / "log", "killed", served)
        self.stream.begin_log().join("a", "b")
        self.output = Output(directory / "output")
        places = {"root": str(self.stream.root), "output": str(self.output.directory)}
        self._given: dict[str, object] = {"url": served.url, "stream": "killed", **places}
        self._others = set(cluster.executors())
        self._chance = random.Random(1)
        self._time = START_MS
        self.start_driver()

    def start_driver(self) -> None:
        """Submit the driver."""
        self._driver = self._cluster.submit(
            PROGRAMS / "count_on_cluster.py", self._given, UNCOMPACTED
        )

    def kill_driver(self) -> None:
        """Kill the driver, its Java and its Python."""
        self._driver.kill()

    def kill_executor(self) -> None:
        """Kill one of the driver's executors."""
        own_executors = set(self._cluster.executors()) - self._others
        os.kill(min(own_executors), signal.SIGKILL)

    def steps(self, count: int) -> None:
        """Write steps, and wait after each until the query has planned its micro-batch."""
        for _ in range(count):
            last_planned = self.output.last_planned()
            for segment, writer in SEGMENTS.items():
                self.stream.append(
                    segment, *((second, "") for second in self._times()), writer=writer
                )
            self._time += STEP_MS
            self._note(self._time)
            self._wait(self.output.last_planned, last_planned + 1)

    def finish(self) -> None:
        """Note the end of the rows, and end the driver once all rows are counted."""
        self._note(self._time + STEP_MS)
        self._wait(self.output.rows, len(self.times()))
        self._driver.kill()

    def times(self) -> list[int]:
        """Return the time of each row that is there, in Unix ms."""
        files = self.stream.root.rglob("*.parquet")
        columns = [pq.read_table(file, columns=["time"])["time"].cast("int64") for file in files]
        return [int(value) for column in columns for value in column.to_pylist()]

    def _note(self, time: int) -> None:
        for writer in "ab":
            self.stream.note(time, writer)

    def _times(self) -> list[int]:
        return [self._time + self._chance.randrange(STEP_MS + MINUTE_MS) for _ in range(ROWS)]

    def _wait(self, observe: Callable[[], int], min_value: int) -> None:
        def has_reached() -> bool:
            if self._driver.has_ended() and self._driver.has_said(UNCONNECTED):
                self.start_driver()  # as its supervisor would
            assert not self._driver.has_ended(), self._driver.describe_end()
            return observe() >= min_value

        wait_until(has_reached)


def test_kills_lose_no_row_and_double_no_window(
    cluster: Cluster, served: Served, tmp_path: Path
) -> None:
    """An executor, a worker and the driver are killed. The state is in RocksDB."""
    trial = Trial(cluster, served, tmp_path)
    trial.steps(2)
    trial.kill_executor()
    trial.steps(1)
    cluster.kill_worker(0)
    trial.steps(2)
    cluster.restart_worker(0)
    trial.steps(1)
    trial.kill_driver()
    trial.start_driver()
    trial.steps(2)
    trial.finish()

    minutes = Counter(time // MINUTE_MS * MINUTE_MS for time in trial.times())
    assert trial.output.counts() == sorted(minutes.items())
    assert (trial.output.rows(), len(minutes)) == (36_000, 65)
