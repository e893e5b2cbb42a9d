"""Lists the directories of a file log, if their entries may have changed.

File systems have coarse clocks, so a directory is unchanged only if it was listed two seconds after
its modification time was first seen. Other layouts of Kafka's sinks are refused, because a log with
skipped rows would look empty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from noted_time.filelog.layout import (
    FILE_SUFFIX,
    has_rows,
    is_hidden,
    parse_start,
    segment_directory,
    segment_of,
)
from noted_time.values import Rejected

SETTLED_S = 2.0

Seconds = Callable[[], float]


class LogDirectories:
    """The directories of one stream below `root`."""

    def __init__(self, root: Path, stream: str, monotonic: Seconds) -> None:
        self._root, self._stream, self._monotonic = root, stream, monotonic
        self._listed = _CachedListing(root / stream, monotonic)
        self._segments: Mapping[int, SegmentDirectory] = {}

    def segments(self) -> Mapping[int, SegmentDirectory]:
        """Return the directories by segment, or raise `Rejected` for an unsupported layout."""
        known = self._segments
        try:
            for names in self._listed.list_changes():
                numbers = sorted(find_segments(self._root / self._stream, names))
                self._segments = {n: known.get(n) or self._directory(n) for n in numbers}
        except FileNotFoundError:
            self._segments, self._listed.is_settled = {}, False
            check_root(self._root, self._stream)
        return self._segments

    def _directory(self, segment: int) -> SegmentDirectory:
        return SegmentDirectory(self._root, self._stream, segment, self._monotonic)


class SegmentDirectory:
    """The directory with the files of one segment."""

    __slots__ = ("_listed", "_segment", "_starts", "_stream", "path")

    def __init__(self, root: Path, stream: str, segment: int, monotonic: Seconds) -> None:
        self.path = segment_directory(root, stream, segment)
        self._listed = _CachedListing(self.path, monotonic)
        self._stream, self._segment = stream, segment
        self._starts: dict[str, int] = {}

    def list_changes(self) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        """Yield all files and the new files (name → start offset) if the entries may have changed.

        The new files are in the order of their offsets, and new again at the next call if the
        caller raises. Raises `Rejected` for a foreign file.
        """
        known = self._starts
        for names in self._listed.list_changes():
            check_segment(self.path, names)
            starts = {
                name: known[name] if name in known else self._parse_start(name)
                for name in names
                if name.endswith(FILE_SUFFIX) and has_rows(name)
            }
            new = sorted(starts.keys() - known.keys(), key=starts.__getitem__)
            yield starts, {name: starts[name] for name in new}
            self._starts = starts

    def _parse_start(self, name: str) -> int:
        return parse_start(self.path / name, self._stream, self._segment)


class _CachedListing:
    __slots__ = ("_changed_ns", "_monotonic", "_path", "_seen_s", "is_settled")

    def __init__(self, path: Path, monotonic: Seconds) -> None:
        self._path, self._monotonic = str(path), monotonic
        self._changed_ns, self._seen_s, self.is_settled = -1, 0.0, False

    def list_changes(self) -> Iterator[list[str]]:
        """Yield the entries, unless they were processed and have not changed."""
        now_s = self._monotonic()
        changed_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - a third of Path.stat's cost
        if changed_ns != self._changed_ns:
            self._changed_ns, self._seen_s, self.is_settled = changed_ns, now_s, False
        if not self.is_settled:
            yield os.listdir(self._path)  # noqa: PTH208 - names are all that is needed
            self.is_settled = now_s - self._seen_s >= SETTLED_S


_FOREIGN_ROWS = re.compile(r".+=.+|.+\.(?:avro|bin|csv|jsonl?|orc|txt)(?:\.[a-z0-9]+)?", re.ASCII)


def find_segments(directory: Path, names: Iterable[str]) -> set[int]:
    """Return the segments among the entries of a stream's directory.

    Raises `Rejected` if rows are stored by something other than their segment.

    >>> from pathlib import Path
    >>> find_segments(Path("flights"), ["year=2026"])
    Traceback (most recent call last):
        ...
    noted_time.Rejected: flights holds year=2026, where a log has partition=<n>: ...
    """
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


def check_segment(directory: Path, names: Iterable[str]) -> None:
    shown = [name for name in names if has_rows(name)]
    rows = [name for name in shown if _FOREIGN_ROWS.fullmatch(name)]
    if rows and not any(name.endswith(FILE_SUFFIX) for name in shown):
        raise Rejected(
            f"{directory} holds {min(rows)}, and no Parquet file: only archives in Parquet can be "
            "read (format.class=io.confluent.connect.s3.format.parquet.ParquetFormat)"
        )


def check_root(root: Path, stream: str) -> None:
    inside = [name for name in _list_names(root) if not is_hidden(name)]
    for name in inside:
        if segment_of(name) is not None:
            raise Rejected(
                f"{root} holds {name}, as a stream's log does: the root is {root.parent}"
            )
    for name in inside:
        if any(segment_of(each) is not None for each in _list_names(root / name / stream)):
            raise Rejected(
                f"{root} has no log of stream {stream!r}, which is below {name}: the root is "
                f"{root / name}"
            )


def _list_names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()] if directory.is_dir() else []
