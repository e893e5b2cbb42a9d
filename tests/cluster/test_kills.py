"""What is left of a query's result if executors, workers and drivers are killed (-9)."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq
import pytest

from demo.trials import kafka
from demo.trials.cluster import Cluster
from demo.trials.starting import UNCONNECTED
from tests.support.noted_stream import NotedStream
from tests.support.offset_log import numbers_in
from tests.support.served import Served
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

START_MS = 1_357_002_000_000
MINUTE_MS = 60_000
STEP_MS, ROWS = 8 * MINUTE_MS, 1125
"""A step writes that many rows to each segment, dated in its eight minutes and one more."""

SEGMENTS = {0: "a", 1: "a", 2: "b", 3: "b"}
"""Their writers."""

UNCOMPACTED = {"spark.sql.streaming.fileSink.log.compactInterval": "1000"}


class Source(Protocol):
    """What a query reads."""

    @property
    def given(self) -> Mapping[str, str]:
        """What the driver is to know of it."""

    def write(self, segment: int, times: list[int]) -> None:
        """Append a row for each time, in Unix ms."""

    def note(self, time: int) -> None:
        """Note that both writers have written all before a time."""

    def times(self) -> list[int]:
        """Return the time of each row that is there, in Unix ms."""


class Log:
    """A file log."""

    def __init__(self, root: Path, served: Served) -> None:
        self._stream = NotedStream(root, "killed", served).begun()
        self._stream.join("a", "b")
        self.given = {"root": str(root), "stream": "killed"}

    def write(self, segment: int, times: list[int]) -> None:
        """Append a file."""
        self._stream.append(segment, *((each, "") for each in times), writer=SEGMENTS[segment])

    def note(self, time: int) -> None:
        """Note."""
        for writer in "ab":
            self._stream.note(time, writer)

    def times(self) -> list[int]:
        """Read the files."""
        files = self._stream.root.rglob("*.parquet")
        columns = [pq.read_table(file, columns=["time"])["time"].cast("int64") for file in files]
        return [int(each) for column in columns for each in column.to_pylist()]


class Topic:
    """A topic of Kafka."""

    def __init__(self, broker: kafka.Broker, served: Served) -> None:
        self._broker, self._ends = broker, Counter[int]()
        broker.create("killed-topic", len(SEGMENTS))
        self._stream = served.stream("killed-topic")
        for writer in "ab":
            self._stream.note(writer, None, {})
        self.given = {"bootstrap": broker.address, "stream": "killed-topic"}

    def write(self, segment: int, times: list[int]) -> None:
        """Send records."""
        self._broker.send("killed-topic", [(segment, "", each) for each in times])
        self._ends[segment] += len(times)

    def note(self, time: int) -> None:
        """Note."""
        for writer in "ab":
            own = {each: end for each, end in self._ends.items() if SEGMENTS[each] == writer}
            self._stream.note(writer, time, own)

    def times(self) -> list[int]:
        """Read the topic."""
        return [record.time for record in self._broker.records("killed-topic")]


class Output:
    """What a query has committed, and which micro-batch it has planned."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkpoint = directory.with_name(f"{directory.name}-checkpoint")

    def planned(self) -> int:
        """Return the number of the micro-batch planned last, -1 before the first."""
        return max(numbers_in(self.checkpoint / "offsets"), default=-1)

    def counts(self) -> list[tuple[int, int]]:
        """Return (minute, count) of each row that was given out, sorted."""
        batches = [each for each in self.directory.glob("_spark_metadata/*") if each.name.isdigit()]
        added = chain.from_iterable(each.read_text().splitlines()[1:] for each in batches)
        files = [Path(json.loads(line)["path"].removeprefix("file:")) for line in added]
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted((row["minute"], row["count"]) for row in rows)

    def rows(self) -> int:
        """Return how many rows are counted in these."""
        return sum(count for _, count in self.counts())


class Trial:
    """A driver with a query for each source, while time passes for their writers."""

    def __init__(self, cluster: Cluster, url: str, directory: Path, sources: list[Source]) -> None:
        self._cluster = cluster
        self.queries = [(each, Output(directory / f"{n}")) for n, each in enumerate(sources)]
        asked = [{**source.given, "output": str(out.directory)} for source, out in self.queries]
        self._given: dict[str, Any] = {"url": url, "queries": asked}
        self._others = set(cluster.executors())
        self._chance, self._time = random.Random(1), START_MS
        self.start_driver()

    def start_driver(self) -> None:
        """Submit the driver."""
        self._driver = self._cluster.submit("count_on_cluster", self._given, UNCOMPACTED)

    def kill_driver(self) -> None:
        """Kill the driver, its Java and its Python."""
        self._driver.kill()

    def kill_executor(self) -> None:
        """Kill one of the driver's executors."""
        own = set(self._cluster.executors()) - self._others
        os.kill(min(own), signal.SIGKILL)

    def steps(self, count: int) -> None:
        """Write steps; after each, every query has planned the micro-batch that reads it."""
        for _ in range(count):
            planned = [output.planned() for _, output in self.queries]
            for source, _ in self.queries:
                for segment in SEGMENTS:
                    source.write(segment, self._times())
                source.note(self._time + STEP_MS)
            self._time += STEP_MS
            for (_, output), before in zip(self.queries, planned, strict=True):
                self._wait(output.planned, before + 1)

    def finish(self) -> None:
        """Note that all is written, and end the driver when as much is counted as was written."""
        for source, output in self.queries:
            source.note(self._time + STEP_MS)
            self._wait(output.rows, len(source.times()))
        self._driver.kill()

    def _times(self) -> list[int]:
        return [self._time + self._chance.randrange(STEP_MS + MINUTE_MS) for _ in range(ROWS)]

    def _wait(self, observe: Callable[[], int], least: int) -> None:
        def reached() -> bool:
            if self._driver.has_ended() and self._driver.has_said(UNCONNECTED):
                self.start_driver()  # as whatever supervises it would
            assert not self._driver.has_ended(), self._driver.said()
            return observe() >= least

        wait_until(reached)


@pytest.fixture(scope="module")
def trial(
    cluster: Cluster,
    served: Served,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Trial:
    """Return the end of a trial in which an executor, a worker and the driver were killed.

    The topic of Kafka is there if a broker is installed.
    """
    directory = tmp_path_factory.mktemp("kills")
    sources: list[Source] = [Log(directory / "log", served)]
    if kafka.installed():
        sources.append(Topic(request.getfixturevalue("broker"), served))
    trial = Trial(cluster, served.url, directory, sources)
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
    return trial


def outcome(trial: Trial, query: int) -> tuple[int, int, bool]:
    """Return the rows counted, the windows, and whether all windows are those of the source."""
    source, output = trial.queries[query]
    minutes = Counter(time // MINUTE_MS * MINUTE_MS for time in source.times())
    counts = output.counts()
    return output.rows(), len(counts), counts == sorted(minutes.items())


def test_kills_lose_no_row_of_a_file_log_and_double_no_window(trial: Trial) -> None:
    """Of an executor, a worker and the driver, with state in RocksDB."""
    assert outcome(trial, 0) == (36_000, 65, True)


@pytest.mark.skipif(not kafka.installed(), reason=kafka.MISSING)
def test_kills_lose_no_record_of_a_topic_and_double_no_window(trial: Trial) -> None:
    """The same kills, with marks ahead of what is read."""
    assert outcome(trial, 1) == (36_000, 65, True)
