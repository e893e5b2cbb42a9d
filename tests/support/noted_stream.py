"""A stream whose file log and notes a test writes."""

from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from tests.support.archive import name_file, write_file
from tools.trials.calls import CalledStream, Calls

INSTANT = pa.timestamp("ms", tz="UTC")


class NotedStream:
    """Writers of one file log, with appends by the test.

    Rows are (time in ms, name); `table` converts them.
    """

    def __init__(self, root: Path, name: str, server: Calls, *domains: str) -> None:
        self.root = root
        self.name = name
        self.server = server
        self.marks: CalledStream = server.stream(name, *domains)
        self.position: dict[int, int] = {}
        self._written: dict[str, dict[int, int]] = {}

    def begin_log(self) -> Self:
        """Write an empty first file with the schema, and return this stream."""
        self.append_table(0, table((0, "begun")).slice(0, 0))
        return self

    def append(self, segment: int, *rows: tuple[int, str], writer: str = "w") -> Path:
        path = self.append_table(segment, table(*rows))
        self._written.setdefault(writer, {})[segment] = self.position[segment]
        return path

    def append_table(self, segment: int, rows: pa.Table, **options: Any) -> Path:  # noqa: ANN401
        """Append a table as one file, with options of the Parquet writer."""
        start = self.position.get(segment, 0)
        path = name_file(self.root, self.name, segment, start)
        write_file(path, rows, **options)
        self.position[segment] = start + rows.num_rows
        return path

    def note(self, time: int, writer: str = "w") -> None:
        """Note that the writer's rows below `time` are below its appends."""
        self.marks.note(writer, time, dict(self._written.get(writer, {})))

    def join(self, *writers: str) -> None:
        for writer in writers:
            self.marks.note(writer, None, {})


def table(*rows: tuple[int, str]) -> pa.Table:
    """Return a table of events: `time`, an instant, and `name`."""
    times, names = zip(*rows, strict=True)
    return pa.table({"time": pa.array(times, INSTANT), "name": pa.array(names)})
