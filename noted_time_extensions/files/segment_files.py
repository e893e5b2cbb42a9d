"""Adds complete and durable Parquet files to a segment.

A complete file gets the name of the next offset, unless the name exists. So exactly one of several
writers gets an offset, and readers never see an incomplete file. A writer's remembered end is the
end of a file that exists, so files cannot overlap even if it is old.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from noted_time import Rejected
from noted_time.extending import MAX_INT64, LogPath, LogStore, Publish, store_of
from noted_time_extensions.files.arrow_rows import (
    cast_seconds_to_ms,
    check_schema,
    open_parquet,
    read_span,
)
from noted_time_extensions.files.batches import Batch
from noted_time_extensions.files.directories import SegmentDirectory
from noted_time_extensions.files.layout import APPEND_KEY, file_name, start_of

ROWS_PER_GROUP = 128 * 1024
MAX_PASSED_APPENDS = 8  # of others, before listing the directory again


@dataclass(slots=True)
class SegmentFiles:
    """The files of one segment, up to `end`, the exclusive offset that this writer knows."""

    root: LogPath
    stream: str
    segment: int
    end: int = 0
    schema: pa.Schema | None = None
    ignored_patterns: Sequence[str] = ()
    _last: LogPath | None = None
    _directory: SegmentDirectory = field(init=False)
    _store: LogStore = field(init=False)

    def __post_init__(self) -> None:
        self._store = store_of(self.root)
        self._directory = SegmentDirectory(
            self.root, self.stream, self.segment, time.monotonic, self.ignored_patterns
        )
        self._store.prepare(self._directory.path)
        if self.schema is not None:
            self.schema = cast_seconds_to_ms(self.schema.empty_table()).schema
        given_schema = self.schema
        self.find_end()
        # these files are noted now, but their writer may have crashed before syncing
        for directory in (self.root, self._directory.path.parent, self._directory.path):
            with suppress(PermissionError):  # another user created it
                self._store.sync(directory)
        if given_schema is not None:
            check_schema(given_schema, self.schema)

    def find_end(self) -> None:
        starts = self._list_starts()
        if starts:
            self._step_to(starts[-1])
        else:
            self._last = None
            self.end = 0

    def find_largest_time(self, column: str, *, beyond: int) -> int | None:
        """Return the largest time in ms in the files with rows beyond an offset."""
        starts = [start for start in self._list_starts() if start < self.end]
        ends = [*starts, self.end][1:]
        times: list[int] = []
        for start, end in zip(starts, ends, strict=True):
            if end > beyond:
                time = self._read_largest_time(self._build_path(start), column)
                if time is not None:
                    times.append(time)
        return max(times, default=None)

    def append(self, table: pa.Table, batch: Batch | None = None) -> bool:
        """Append the rows, and return whether this was necessary.

        Two runs of a program cannot append the same batch: the later one fails to link its file,
        and checks the earlier file's batch before it tries the next offset.
        """
        if batch is not None:
            self.find_end()
            if self.holds(batch):
                return False
        write = partial(_write_rows, table, batch)
        with self._store.create(self._directory.path, write) as publish:
            if batch is None and self._last and self._store.identify(self._last) is None:
                self.find_end()
            attempts = 0
            while not self._try_link(publish, table.num_rows):
                attempts += 1
                if batch is None and attempts > MAX_PASSED_APPENDS:
                    self.find_end()
                else:
                    self._step_to(self.end)
                if batch is not None and self._last is not None and _reaches(self._last, batch):
                    self._store.sync(self._directory.path)
                    return False
                check_schema(table.schema, self.schema)
        self._store.sync(self._directory.path)
        self.schema = self.schema or table.schema
        return True

    def holds(self, batch: Batch) -> bool:
        for start in reversed(self._list_starts()):
            has_batch = _reaches(self._build_path(start), batch)
            if has_batch:
                self._store.sync(self._directory.path)
            if has_batch is not None:
                return has_batch
        return False

    def _try_link(self, publish: Publish, rows: int) -> bool:
        if self.end + rows > MAX_INT64:
            raise Rejected(f"segment {self.segment} is full: it ends at {self.end}")
        target = self._build_path(self.end)
        if not publish(target):
            return False
        self._last = target
        self.end += rows
        return True

    def _step_to(self, start: int) -> None:
        path = self._build_path(start)
        with open_parquet(path) as file:
            rows = file.metadata.num_rows
            schema = file.schema_arrow
        if not rows:
            raise Rejected(f"{path} holds no rows, so nothing can follow it")
        self._last = path
        self.end = start + rows
        self.schema = schema.remove_metadata()

    def _read_largest_time(self, path: LogPath, column: str) -> int | None:
        with suppress(FileNotFoundError), open_parquet(path, may_be_gone=True) as file:
            span = read_span(file, column)
            return None if span is None else span.largest
        return None  # the file has just been removed

    def _list_starts(self) -> list[int]:
        return sorted(self._parse_start(name) for name in self._directory.list_names())

    def _parse_start(self, name: str) -> int:
        start = start_of(name, self.stream, self.segment)
        if start is None or name != file_name(self.stream, self.segment, start):
            path = self._directory.path / name
            raise Rejected(f"{path} is a file of an archive, not an append: use another root")
        return start

    def _build_path(self, start: int) -> LogPath:
        return self._directory.path / file_name(self.stream, self.segment, start)


def _write_rows(table: pa.Table, batch: Batch | None, file: BinaryIO) -> None:
    if batch is None:
        metadata = table.schema.metadata or {}
    else:
        metadata = batch.to_metadata()
    rows = table.replace_schema_metadata({**metadata, APPEND_KEY: uuid4().hex})
    pq.write_table(rows, file, compression="zstd", row_group_size=ROWS_PER_GROUP)


def _reaches(path: LogPath, batch: Batch) -> bool | None:
    """Return whether a file has the batch or a later one, or `None` if it is of another source."""
    with open_parquet(path) as file:
        file_batch = Batch.from_metadata(file.metadata.metadata)
    if file_batch is None or file_batch.source != batch.source:
        return None
    return file_batch.number >= batch.number
