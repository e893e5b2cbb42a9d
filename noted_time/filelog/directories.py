"""Lists the directories of a file log, if their entries may have changed.

Other layouts of Kafka's sinks are refused, because a log with skipped rows would look empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from noted_time.filelog.layout import (
    FILE_SUFFIX,
    has_rows,
    is_hidden,
    parse_start,
    segment_directory,
    segment_of,
    sort_by_offset,
)
from noted_time.stores import LogPath, store_of
from noted_time.stores.port import Names, Seconds
from noted_time.values import Rejected

MAX_REQUESTS = 16
"""How many segments of a bucket are listed at a time."""


class LogDirectories:
    """The directories of one stream below `root`."""

    def __init__(self, root: LogPath, stream: str, monotonic: Seconds) -> None:
        self._root, self._stream, self._monotonic = root, stream, monotonic
        self._listed = store_of(root).watch(root / stream, monotonic)
        self._segments: Mapping[int, SegmentDirectory] = {}
        self._is_checked = False

    def segments(self) -> Mapping[int, SegmentDirectory]:
        """Return the directories by segment, or raise `Rejected` for an unsupported layout."""
        known = self._segments
        try:
            for names in self._listed.list_changes():
                numbers = sorted(find_segments(self._root / self._stream, names))
                self._segments = {n: known.get(n) or self._directory(n) for n in numbers}
        except FileNotFoundError:
            self._segments = {}
            if isinstance(self._root, Path) or not self._is_checked:
                check_root(self._root, self._stream)
                self._is_checked = True
        if not isinstance(self._root, Path):
            with ThreadPoolExecutor(max_workers=MAX_REQUESTS) as pool:
                list(pool.map(SegmentDirectory.fetch, self._segments.values()))
        return self._segments

    def _directory(self, segment: int) -> SegmentDirectory:
        return SegmentDirectory(self._root, self._stream, segment, self._monotonic)


class SegmentDirectory:
    """The directory of one segment."""

    __slots__ = ("_latest", "_listed", "_names", "_segment", "_starts", "_stream", "path")

    def __init__(self, root: LogPath, stream: str, segment: int, monotonic: Seconds) -> None:
        self.path = segment_directory(root, stream, segment)
        can_resume = partial(sort_by_offset, stream=stream, segment=segment)
        self._listed = store_of(root).watch(self.path, monotonic, can_resume)
        self._stream, self._segment = stream, segment
        self._names: Names = {}
        self._latest: Names = {}
        self._starts: dict[str, int] = {}

    def fetch(self) -> None:
        self._listed.fetch()

    def list_changes(self) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        """Yield all files and the new files (name → start offset) if the entries may have changed.

        The new files are sorted by offset, and new again if the caller raises. An object that was
        replaced is new. Raises `Rejected` for a foreign file.
        """
        for names in self._listed.list_changes():
            self._latest = names
            starts, new = self._find_starts(names)
            yield starts, new
            self._names, self._starts = names, starts

    def list_names(self) -> Iterable[str]:
        return self._listed.list_now()

    def _find_starts(self, names: Names) -> tuple[dict[str, int], dict[str, int]]:
        known = self._names
        fresh = [name for name, each in names.items() if name not in known or known[name] != each]
        starts = {name: start for name, start in self._starts.items() if name in names}
        new = {
            name: parse_start(self.path / name, self._stream, self._segment)
            for name in fresh
            if name.endswith(FILE_SUFFIX) and has_rows(name)
        }
        starts.update(new)
        if not starts:
            check_segment(self.path, names)
        return starts, dict(sorted(new.items(), key=lambda each: each[1]))

    def identify(self, name: str) -> object:
        """Return a value that changes with the file, or raise `FileNotFoundError`."""
        known = self._latest.get(name) or store_of(self.path).identify(self.path / name)
        if known is None:
            raise FileNotFoundError(f"{self.path / name} does not exist")
        return known


_FOREIGN_ROWS = re.compile(r".+=.+|.+\.(?:avro|bin|csv|jsonl?|orc|txt)(?:\.[a-z0-9]+)?", re.ASCII)


def find_segments(directory: LogPath, names: Iterable[str]) -> set[int]:
    """Return the segments in a stream's directory, or raise `Rejected` for rows elsewhere."""
    shown = {name: segment_of(name) for name in names if not is_hidden(name)}
    segments = {segment for segment in shown.values() if segment is not None}
    others = [name for name, segment in shown.items() if segment is None]
    foreign = [name for name in others if _FOREIGN_ROWS.fullmatch(name) or not segments]
    if foreign:
        raise Rejected(
            f"{directory} holds {min(foreign)}, where a log has partition=<n>: only archives of "
            "the DefaultPartitioner can be read (partitioner.class), not those by time or by field"
        )
    return segments


def check_segment(directory: LogPath, names: Iterable[str]) -> None:
    shown = [name for name in names if has_rows(name)]
    rows = [name for name in shown if _FOREIGN_ROWS.fullmatch(name)]
    if rows and not any(name.endswith(FILE_SUFFIX) for name in shown):
        raise Rejected(
            f"{directory} holds {min(rows)}, and no Parquet file: only archives in Parquet can be "
            "read (format.class=io.confluent.connect.s3.format.parquet.ParquetFormat)"
        )


def check_root(root: LogPath, stream: str) -> None:
    store = store_of(root)
    inside = [name for name in store.list_names(root) if not is_hidden(name)]
    for name in inside:
        if segment_of(name) is not None:
            raise Rejected(
                f"{root} holds {name}, as a stream's log does: the root is {root.parent}"
            )
    for name in inside:
        if any(segment_of(each) is not None for each in store.list_names(root / name / stream)):
            raise Rejected(
                f"{root} has no log of stream {stream!r}, which is below {name}: the root is "
                f"{root / name}"
            )
