"""Drivers that are killed while they write a table, and the laws that the table breaks."""

import os
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from noted_time_extensions.tables.table_history import TableClaim, TableHistory
from noted_time_extensions.tables.table_urls import open_history, read_iceberg_history
from tests.support.noted_stream import NotedStream, table
from tests.support.offset_log import list_batches
from tests.trials.facts import Commit, TableRow
from tests.trials.judge import Broken, judge
from tools.trials import tables
from tools.trials.spark_programs import SparkProgram
from tools.trials.starting import UNCONNECTED

KILLS = int(os.environ.get("NOTED_TIME_KILLS", "3"))
"""The number of kills for each table; 30 take some minutes."""

BEGUN_MS = 1_357_002_000_000
STEP_MS = 1000
SPAN_MS = 5000
ROWS = 7
"""Each step of a source has `ROWS` rows of a span of time; spans begin `STEP_MS` apart."""

PROGRAM = Path(__file__).parents[1] / "programs" / "write_table.py"
"""The program of the drivers."""

STEPS = 3
"""The steps that are written before a driver starts."""

CHANCE_S = 2.0
"""The longest time from the begin of a batch to a random kill."""

POINTS = ("commit", "data", "chance")
"""The points of kills, in turn; the first driver makes the table."""


def make_rows(step: int) -> list[TableRow]:
    """Return the rows of a step: (Unix ms, unique name)."""
    begun_ms = BEGUN_MS + step * STEP_MS
    chance = Random(step)
    return [(begun_ms + chance.randrange(SPAN_MS), f"{step}-{number}") for number in range(ROWS)]


class Delta:
    """A table of Delta, read by deltalake: `log` has its commits, `data` its rows."""

    def __init__(self, directory: Path) -> None:
        self.data = directory
        self.log = directory / "_delta_log"
        self.url = f"delta:{directory}"

    def versions(self) -> list[Commit]:
        version_range = range(deltalake.DeltaTable(str(self.data)).version() + 1)
        return [
            Commit(read_claimed_time(open_history(self.url, version)), self._rows(version))
            for version in version_range
        ]

    def files(self) -> set[str]:
        if not deltalake.DeltaTable.is_deltatable(str(self.data)):
            return set()
        return {uri.rpartition("/")[2] for uri in deltalake.DeltaTable(str(self.data)).file_uris()}

    def history(self) -> TableHistory:
        return open_history(self.url)

    def _rows(self, version: int) -> list[TableRow]:
        uris = deltalake.DeltaTable(str(self.data), version=version).file_uris()
        return [row for uri in uris for row in read_rows(pq.read_table(uri))]


class Iceberg:
    """A table of Iceberg in a catalog of directories, read by pyiceberg."""

    def __init__(self, warehouse: Path, name: str) -> None:
        _catalog, *path = name.split(".")
        self.url = f"iceberg:{name}"
        directory = warehouse.joinpath(*path)
        self.data = directory / "data"
        self.log = directory / "metadata"
        self._directory = directory

    def versions(self) -> list[Commit]:
        table = self._open()
        commits = []
        for snapshot in table.snapshots():
            rows = read_rows(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow())
            commits.append(
                Commit(read_claimed_time(read_iceberg_history(table, snapshot.snapshot_id)), rows)
            )
        return commits

    def files(self) -> set[str]:
        if not self.log.exists():
            return set()
        tasks = self._open().scan().plan_files()
        return {task.file.file_path.rpartition("/")[2] for task in tasks}

    def history(self) -> TableHistory:
        return read_iceberg_history(self._open())

    def _open(self) -> StaticTable:
        return StaticTable.from_metadata(str(self._directory))


def read_claimed_time(history: TableHistory) -> int | None:
    claim = history.claim()
    return claim.complete_to if isinstance(claim, TableClaim) else None


def read_rows(table: pa.Table) -> list[TableRow]:
    times = table["time"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    return list(zip(times.to_pylist(), table["name"].to_pylist(), strict=True))


class Log:
    """A log with two segments, whose writer notes after each step."""

    def __init__(self, stream: NotedStream) -> None:
        self._stream = stream.begin_log()
        self.given: dict[str, Any] = {
            "root": str(stream.root),
            "url": stream.server.url,
            "stream": stream.name,
            "rows": ROWS,
        }

    def write(self, step: int) -> None:
        self._stream.append(step % 2, *make_rows(step))
        self._stream.note(BEGUN_MS + (step + 1) * STEP_MS)


class Directory:
    """Files, one for each batch, under Spark's own watermark, without late rows."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()
        self.given: dict[str, Any] = {"root": str(directory), "delay": f"{SPAN_MS} milliseconds"}

    def write(self, step: int) -> None:
        unseen = self._directory / f".{step}"
        pq.write_table(table(*make_rows(step)), unseen)
        unseen.rename(self._directory / f"{step}.parquet")


@dataclass
class Trial:
    """Consecutive drivers of one query; all but the last are killed."""

    source: Log | Directory
    table: Delta | Iceberg
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    steps: int = 0
    killed: Counter[str] = field(default_factory=Counter)

    def kill(self, point: str, chance: Random) -> None:
        """Kill a driver at a point."""
        strays = self._find_strays()
        program_input = {
            "dies": point,
            "at": chance.randint(1, STEPS),
            "after_s": chance.uniform(0, CHANCE_S),
        }
        while (status := self._run(program_input)) == 0 and point == "chance":
            pass  # the driver had finished before the kill
        assert status == -signal.SIGKILL
        self.killed[point] += 1
        if point == "data":
            assert self._find_strays() > strays
        if point == "commit":
            finished_batches = list_batches(self.directory / "checkpoint" / "commits")
            assert self._find_committed_batch() not in finished_batches

    def finish(self) -> list[Broken]:
        """Let a driver write the rest, and return the laws that the table breaks."""
        assert self._run({"dies": ""}) == 0
        truth = [row for step in range(self.steps) for row in make_rows(step)]
        commits = self.table.versions()
        names, names_found = ([name for _, name in rows] for rows in (truth, commits[-1].rows))
        return judge(commits=commits, true_rows=truth, expected=names, output=names_found)

    def _run(self, program_input: dict[str, Any]) -> int:
        for _ in range(STEPS):
            self.source.write(self.steps)
            self.steps += 1
        places = {"table": self.table.url, "log": str(self.table.log), "settings": self.settings}
        paths = {"checkpoint": str(self.directory / "checkpoint")}
        self._log = self.directory / f"driver-{self.steps}.log"
        whole_input = {"at": 0, **self.source.given, **places, **paths, **program_input}
        while (status := SparkProgram(PROGRAM, whole_input, self._log).status()) > 0:
            assert UNCONNECTED in self._log.read_text(), self._log.read_text()[-9000:]
        return status

    def _find_strays(self) -> set[str]:
        """Return the files of rows without a commit."""
        return {path.name for path in self.table.data.rglob("*.parquet")} - self.table.files()

    def _find_committed_batch(self) -> int:
        claim = self.table.history().statuses()["rows"].claim
        assert claim is not None
        return claim.batch


def settings(directory: Path) -> dict[str, str]:
    """Return the settings of a driver with the connectors and tables in a directory."""
    return {"spark.jars": ",".join(tables.connectors()), **tables.settings(directory)}


def choose_points(kills: int) -> Iterable[str]:
    """Return the points of so many kills."""
    return (POINTS[number % len(POINTS)] for number in range(kills))
