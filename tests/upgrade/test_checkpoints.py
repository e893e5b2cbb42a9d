"""The checkpoints that queries of former versions left in a real Spark, killed, continue."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from demo.starting import UNCONNECTED
from demo.trials import kafka
from demo.trials.kafka import Broker
from demo.trials.spark_programs import SparkProgram
from reader_client import KafkaRelay
from tests.support.kafka_judge import relayed
from tests.support.noted_stream import NotedStream
from tests.support.served import Served
from tests.support.spark_sessions import SETTINGS
from tests.support.waiting import wait_until
from tests.upgrade.versions import PRESENT

PROGRAM = Path(__file__).with_name("counting.py")
OF_FIRST_RELEASE = ("log", "sink", "beside")
OF_BASE = (*OF_FIRST_RELEASE, "ahead", "committed", "topic")
LOG = "flights"
BEGUN_MS = 1_357_000_000_000
EACH_SECOND = 4
"""How many rows each second has, in the topic and in the log."""


class Installation:
    """A topic, a log, and the queries that count the rows of both."""

    def __init__(self, directory: Path, broker: Broker, served: Served) -> None:
        self._directory, self._broker, self._url = directory, broker, served.url
        self._root = directory / "logs"
        self._log = NotedStream(self._root, LOG, served).begun()
        self._topic = served.stream(f"landings-{uuid4().hex[:8]}")
        served.create("counts", max_time_ahead_ms=None)
        broker.create(self._topic.name, 2)
        self._end = self._marks = 0

    def write(self, *seconds: int) -> None:
        """Write the rows of these seconds."""
        for second in seconds:
            times = [BEGUN_MS + 1000 * second + 200 * n for n in range(EACH_SECOND)]
            self._broker.send(self._topic.name, [(n % 2, "row", at) for n, at in enumerate(times)])
            self._log.append(second % 2, *((at, "row") for at in times))
            self._end += EACH_SECOND // 2

    def note(self, second: int) -> None:
        """Note that all before a second is written, and relay the mark."""
        time = BEGUN_MS + 1000 * second
        self._log.note(time)
        self._topic.note("w", time, {0: self._end, 1: self._end})
        self._marks += 1
        with closing(KafkaRelay(self._broker.config, self._topic.name, self._url)) as relay:
            relayed(relay, self._broker, self._marks)

    @contextmanager
    def counting(self, code: Path, kinds: Sequence[str]) -> Iterator[None]:
        """Run the queries of a version, and kill them at the end of the block.

        The block begins once they have counted all that is there. They are started again if Spark
        did not wait for Python, as by a supervisor.
        """
        given: dict[str, object] = {
            "kinds": kinds,
            "directory": str(self._directory),
            "root": str(self._root),
            "url": self._url,
            "bootstrap": self._broker.address,
            "stream": self._topic.name,
            "log": LOG,
            "settings": SETTINGS | {"spark.jars": ",".join(kafka.connector())},
        }
        words = ("env", f"--chdir={self._directory}", f"PYTHONPATH={code}", sys.executable)
        while True:
            queries = SparkProgram(PROGRAM, given, self._directory / "queries.log", words)
            try:
                wait_until(lambda: queries.printed() or not queries.running())  # noqa: B023 - now
                if queries.printed():
                    yield
                    return
            finally:
                queries.kill()
            assert queries.has_said(UNCONNECTED), queries.said()

    def counted(self, kind: str) -> Counter[tuple[int, int]]:
        """Return how often each (second, count) was given out."""
        if kind == "sink":
            found = [pq.read_table(path) for path in (self._root / "counts").rglob("*.parquet")]
            named = [row for table in found for row in table.to_pylist()]
            ends = ((row["window_end"].timestamp(), row["count"]) for row in named)
            rows = [(round(end * 1000) - 1000, count) for end, count in ends]
        else:
            rows = [row for batch in self.batches(kind).values() for row in batch]
        return Counter(((at - BEGUN_MS) // 1000, count) for at, count in rows)

    def batches(self, kind: str) -> dict[int, list[tuple[int, int]]]:
        """Return what each batch gave out."""
        files = (self._directory / kind).glob("[0-9]*.json")
        return {int(file.stem): json.loads(file.read_text()) for file in files}


@pytest.fixture
def installation(tmp_path: Path, broker: Broker) -> Iterator[Installation]:
    """Return one without a row."""
    with Served() as served:
        yield Installation(tmp_path, broker, served)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("version", "kinds"),
    [("first_release", OF_FIRST_RELEASE), ("base", OF_BASE)],
    ids=["0.1.0", "base"],
)
def test_queries_of_a_former_version_continue(
    version: str, kinds: Sequence[str], installation: Installation, request: pytest.FixtureRequest
) -> None:
    """Killed in the middle, and continued by the present version: each window comes once, whole."""
    code = request.getfixturevalue(version)
    installation.write(*range(6))
    installation.note(4)
    with installation.counting(code, kinds):
        before = {kind: installation.counted(kind) for kind in kinds}
        last = {kind: max(installation.batches(kind), default=-1) for kind in kinds}
        installation.write(6)
    installation.write(7, 8)
    installation.note(8)
    expected = Counter((second, EACH_SECOND) for second in range(8))
    with installation.counting(PRESENT, kinds):
        wait_until(lambda: all(installation.counted(kind) == expected for kind in kinds))

    assert all(before.values())
    assert all(max(installation.batches(k)) > last[k] >= 0 for k in kinds if k != "sink")
