"""Which files of a stream lie in the log, and how many rows each holds."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from noted_time import Rejected
from noted_time.file_log import SUFFIX, segment_directory, segment_of, start_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SETTLED_NS = 2_000_000_000
"""A directory changed longer ago than this is not listed again: clocks of files tick coarsely."""


class UnreadableFile(Rejected):
    """A file in the log cannot be read as a part of its segment; `path` names it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class LogFile:
    """One append: rows at offsets `start` to `end`, exclusive."""

    path: Path
    start: int
    end: int


@dataclass(slots=True)
class _Directory:
    changed_ns: int = -1
    listed_ns: int = -1
    names: set[str] = field(default_factory=set)
    files: list[LogFile] = field(default_factory=list)

    def settled(self, changed_ns: int) -> bool:
        """Whether nothing can have been added since the last listing."""
        return changed_ns == self.changed_ns and self.listed_ns - changed_ns > _SETTLED_NS


class LogFiles:
    """The files of one stream; footers are read once, since no file ever changes.

    `columns` are those that every file must have; a file without one is foreign.
    """

    def __init__(self, root: Path, stream: str, columns: frozenset[str] = frozenset()) -> None:
        self.root = root
        self.stream = stream
        self._columns = columns
        self._directories: dict[int, _Directory] = {}

    def refresh(self) -> dict[int, list[LogFile]]:
        """Return the files of each segment in the order of their offsets.

        Raises `UnreadableFile` for one that is truncated, foreign or overlaps its neighbour.
        """
        for segment in self._segments():
            self._refresh_segment(segment)
        return {segment: each.files for segment, each in sorted(self._directories.items())}

    def _segments(self) -> list[int]:
        directory = self.root / self.stream
        if not directory.is_dir():
            return []
        named = (segment_of(entry.name) for entry in os.scandir(directory))
        return [segment for segment in named if segment is not None]

    def _refresh_segment(self, segment: int) -> None:
        known = self._directories.setdefault(segment, _Directory())
        directory = segment_directory(self.root, self.stream, segment)
        listed_ns, changed_ns = time.time_ns(), directory.stat().st_mtime_ns
        if known.settled(changed_ns):
            return
        starts = dict(self._named(directory, segment, known.names))
        with ThreadPoolExecutor(max_workers=8) as pool:
            new = list(pool.map(self._read_footer, starts, starts.values()))
        files = sorted([*known.files, *new], key=lambda file: file.start)
        _check_order(files)
        known.files = files
        known.names.update(path.name for path in starts)
        known.changed_ns, known.listed_ns = changed_ns, listed_ns

    def _named(self, directory: Path, segment: int, known: set[str]) -> Iterator[tuple[Path, int]]:
        for entry in os.scandir(directory):
            name = entry.name
            if name in known or not name.endswith(SUFFIX) or name.startswith((".", "_")):
                continue
            start = start_of(name, self.stream, segment)
            if start is None:
                reason = f"not a name of stream {self.stream!r}, segment {segment}"
                raise UnreadableFile(directory / name, reason)
            yield directory / name, start

    def _read_footer(self, path: Path, start: int) -> LogFile:
        try:
            metadata = pq.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise UnreadableFile(path, f"not a whole Parquet file: {error}") from error
        missing = self._columns - set(metadata.schema.to_arrow_schema().names)
        if missing:
            raise UnreadableFile(path, f"has no column {', '.join(sorted(missing))}")
        return LogFile(path, start, start + metadata.num_rows)


def _check_order(files: list[LogFile]) -> None:
    for before, after in pairwise(files):
        if after.start < before.end:
            raise UnreadableFile(
                after.path, f"overlaps {before.path.name}, which ends at {before.end}"
            )
