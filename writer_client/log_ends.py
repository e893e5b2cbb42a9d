"""Where the segments of a file log end, and its newest event times, at a low cost per look.

A look asks the file system for the modification time of each directory. Only a directory that
changed is listed, and only its last file's footer is read. File systems tick coarsely, so a
directory counts as unchanged once it was listed two seconds, by our clock, after its modification
time was first seen.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from noted_time.values import Rejected, Unreachable, checked_name
from noted_time.wing import (
    SUFFIX,
    check_root,
    check_segment,
    is_hidden,
    segment_directory,
    segments_in,
    start_of,
)
from writer_client.arrow_rows import largest_time, opened

SETTLED_S = 2.0


class NewFile(NamedTuple):
    """An append that a look has just found."""

    segment: int
    start: int
    path: Path


class LogEnds:
    """The ends of a file log: a call returns segment → exclusive end offset, as of now.

    A stream without a directory is empty. A call raises `Unreachable` if the root does not exist or
    cannot be listed, and `Rejected` naming a file that is foreign or truncated, or the layout of an
    archive that cannot be read; the next call looks again. Raises `InvalidName` for the stream.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        stream: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = Path(root)
        self.stream = checked_name("stream", stream)
        self._monotonic = monotonic
        self._directory = _Directory(self.root / stream, monotonic)
        self._segments: dict[int, _Segment] = {}
        self._new: list[NewFile] = []

    def __call__(self) -> dict[int, int]:
        """Return the ends."""
        self.new_files()
        return self.ends

    @property
    def ends(self) -> dict[int, int]:
        """The ends as of the last call."""
        return {number: each.end for number, each in sorted(self._segments.items())}

    def new_files(self) -> list[NewFile]:
        """Look, and return the files that were not there at the last look that succeeded."""
        try:
            self._find_segments()
            for segment in self._segments.values():
                self._new.extend(segment.look())
        except OSError as error:
            raise Unreachable(f"{self.root / self.stream} cannot be read: {error}") from error
        found, self._new = self._new, []
        return found

    def _find_segments(self) -> None:
        if not self.root.is_dir():
            raise Unreachable(f"{self.root} does not exist")
        try:
            names = self._directory.names()
        except FileNotFoundError:
            self._segments = {}
            self._directory.forget()
            check_root(self.root, self.stream, names_in)
            return
        if names is None:
            return
        found = segments_in(self.root / self.stream, names)
        for gone in self._segments.keys() - found:
            del self._segments[gone]
        for number in found - self._segments.keys():
            path = segment_directory(self.root, self.stream, number)
            directory = _Directory(path, self._monotonic)
            self._segments[number] = _Segment(path, directory, self.stream, number)


class LogTimes:
    """What a look finds in a file log: its ends, and the newest event time of each segment.

    `field` is the column with the event times: int64 ms, or a timestamp of any unit. The largest
    time comes from the statistics in a file's footer, or from its rows if it has none. Each file is
    read once; the first look reads the footers of all existing files.
    """

    def __init__(self, root: str | PathLike[str], stream: str, field: str) -> None:
        self._ends = LogEnds(root, stream)
        self._field = field
        self._unread: deque[NewFile] = deque()

    def __call__(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the ends of the segments, and the newest time (ms) in the new files of each.

        Raises as `LogEnds`, and `Rejected` naming a file without such a column; the next call reads
        what was not read.
        """
        self._unread.extend(self._ends.new_files())
        ends = self._ends.ends
        newest: dict[int, int] = {}
        read: list[NewFile] = []
        try:
            while self._unread:
                file = self._unread.popleft()
                read.append(file)
                time = self._largest_in(file)
                if time is not None:
                    newest[file.segment] = max(time, newest.get(file.segment, time))
        except Exception:
            self._unread.extendleft(reversed(read))
            raise
        return ends, newest

    def _largest_in(self, file: NewFile) -> int | None:
        with suppress(FileNotFoundError), opened(file.path, may_be_gone=True) as parquet:
            if self._field not in parquet.schema_arrow.names:
                raise Rejected(f"{file.path} has no column {self._field}")
            return largest_time(parquet, self._field)
        return None  # removed meanwhile, with its rows


def names_in(directory: Path) -> list[str]:
    """Return the names of the entries of a directory, empty if it does not exist."""
    return os.listdir(directory) if directory.is_dir() else []  # noqa: PTH208 - as below


class _Directory:
    """A directory, and whether its entries can have changed since it was last listed."""

    __slots__ = ("_changed_ns", "_monotonic", "_path", "_seen_s", "_settled")

    def __init__(self, path: Path, monotonic: Callable[[], float]) -> None:
        self._path = str(path)
        self._monotonic = monotonic
        self.forget()

    def forget(self) -> None:
        """List it again at the next look."""
        self._changed_ns, self._seen_s, self._settled = -1, 0.0, False

    def names(self) -> list[str] | None:
        """Return its entries, `None` if they are those of the previous call."""
        now_s = self._monotonic()
        changed_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - a third of Path.stat's cost
        if changed_ns != self._changed_ns:
            self._changed_ns, self._seen_s, self._settled = changed_ns, now_s, False
        elif self._settled:
            return None
        names = os.listdir(self._path)  # noqa: PTH208 - names are all that is needed
        self._settled = now_s - self._seen_s >= SETTLED_S
        return names


class _Segment:
    """The files of one segment as last listed."""

    __slots__ = ("_directory", "_last", "_number", "_path", "_starts", "_stream", "end")

    def __init__(self, path: Path, directory: _Directory, stream: str, number: int) -> None:
        self._path, self._directory = path, directory
        self._stream, self._number = stream, number
        self._starts: dict[str, int] = {}
        self._last: tuple[object, ...] = ()
        self.end = 0

    def look(self) -> list[NewFile]:
        """Find the end, and return the new files in the order of their offsets."""
        try:
            names = self._directory.names()
            return [] if names is None else self._take(names)
        except BaseException:
            self._directory.forget()
            raise

    def _take(self, names: Sequence[str]) -> list[NewFile]:
        known = self._starts
        check_segment(self._path, names)
        shown = [n for n in names if n.endswith(SUFFIX) and not is_hidden(n)]
        starts = {name: known[name] if name in known else self._start(name) for name in shown}
        self._find_end(starts)
        self._starts = starts
        new = sorted((start, name) for name, start in starts.items() if name not in known)
        return [NewFile(self._number, start, self._path / name) for start, name in new]

    def _find_end(self, starts: dict[str, int]) -> None:
        if not starts:
            self._last, self.end = (), 0
            return
        name = max(starts, key=starts.__getitem__)
        path = self._path / name
        about = path.stat()
        last = (name, about.st_ino, about.st_size, about.st_mtime_ns)
        if last != self._last:
            with opened(path, may_be_gone=True) as file:
                self.end = starts[name] + file.metadata.num_rows
            self._last = last

    def _start(self, name: str) -> int:
        start = start_of(name, self._stream, self._number)
        if start is None:
            raise Rejected(
                f"{self._path / name} is not a file of stream {self._stream!r}, "
                f"segment {self._number}"
            )
        return start
