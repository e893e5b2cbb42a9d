"""A DuckDB with orders of two shops, and the project that models them."""

import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from tests.support.processes import environment
from tools.trials.calls import HOUR_MS
from tools.trials.served import Served

NOW = int(datetime.now(UTC).timestamp() * 1000)
HOUR = NOW - NOW % HOUR_MS
"""The present hour, in Unix ms, where models end by default."""

BEGIN = f"{datetime.fromtimestamp((HOUR - 6 * HOUR_MS) / 1000, UTC):%Y-%m-%dT%H:%M:%S}"
"""Six hours ago, where the model begins."""

FILE = "warehouse.duckdb"


class Warehouse:
    """The orders, and the stream of the notes of Oslo and Lima.

    Lima's order of five hours ago is not loaded yet. `tool` is a program in a directory with a
    Python that has DuckDB, and `table` is its model.
    """

    def __init__(self, directory: Path, tool: Path, table: str, served: Served) -> None:
        self.directory = directory
        self._tool = tool
        self._table = table
        self.served = served
        self.stream = uuid4().hex
        expected_writers = ["lima", "oslo"]
        served.create(self.stream, expected_writers=expected_writers, writer_timeout_ms=HOUR_MS)
        self.query("create table orders (ordered_at timestamptz, id integer)")
        self.note(oslo=6, lima=6)
        self.note(oslo=0, lima=5)
        for number, hours_ago in enumerate((6, 5, 3, 1), start=1):
            self.order(number, hours_ago)

    def write(self, files: Mapping[str, str]) -> None:
        """Write the project, about this stream and the last six hours."""
        for name, text in files.items():
            (self.directory / name).parent.mkdir(exist_ok=True)
            (self.directory / name).write_text(self._localize(text))

    def _localize(self, text: str) -> str:
        text = text.replace("'orders'", f"'{self.stream}'")
        for after in ("--", '"$since"'):
            text = text.replace(f"orders {after}", f"{self.stream} {after}")
        return text.replace("2013-01-01T00:00:00", BEGIN).replace("2013-01-01", BEGIN)

    def query(self, sql: str) -> str:
        """Return the rows as text."""
        program = f"import duckdb; print(duckdb.connect({FILE!r}).execute({sql!r}).fetchall())"
        words = [str(self._tool.with_name("python")), "-c", program]
        return subprocess.check_output(words, cwd=self.directory, text=True).strip()

    def order(self, number: int, hours_ago: int) -> None:
        """Load an order of so many full hours ago."""
        ordered_at = HOUR - hours_ago * HOUR_MS + 60_000
        self.query(f"insert into orders values (to_timestamp({ordered_at // 1000}), {number})")  # noqa: S608 - integers

    def note(self, **hours_ago: int) -> None:
        """Let each shop note that all orders before that hour are loaded."""
        for writer, hours in hours_ago.items():
            self.served.post(self.stream, {"writer": writer, "time": HOUR - hours * HOUR_MS})

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script with the program and `noted-time` on its path."""
        path = os.pathsep.join([str(self._tool.parent), os.environ["PATH"]])
        return subprocess.run(
            ["sh", "-c", self._localize(script)],
            cwd=self.directory,
            env=environment(PATH=path, NOTED_TIME_URL=self.served.url, DO_NOT_TRACK="1"),
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def orders(self) -> str:
        return self.query(f"select list(id order by id) from {self._table}")  # noqa: S608 - a name
