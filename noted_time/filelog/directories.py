"""The directories of a file log, each of which is listed only if its entries may have changed.

A look asks the file system for the modification time of each directory. File systems tick coarsely,
so a directory counts as unchanged once it was listed two seconds, by our clock, after its
modification time was first seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from noted_time.filelog.archives import check_root, check_segment, segments_in
from noted_time.filelog.layout import SUFFIX, checked_start, is_hidden, segment_directory

SETTLED_S = 2.0

Seconds = Callable[[], float]
"""A clock that never goes back."""


class LogDirectories:
    """The directories of one stream below `root`."""

    def __init__(self, root: Path, stream: str, monotonic: Seconds) -> None:
        self._root, self._stream, self._monotonic = root, stream, monotonic
        self._listed = _Listed(root / stream, monotonic)
        self._segments: Mapping[int, SegmentDirectory] = {}

    def segments(self) -> Mapping[int, SegmentDirectory]:
        """Return the directory of each segment; a stream without a directory has none.

        Raises `Rejected` for an archive of a layout that cannot be read, and `OSError`.
        """
        known = self._segments
        try:
            for names in self._listed.changed():
                found = sorted(segments_in(self._root / self._stream, names))
                self._segments = {n: known.get(n) or self._directory(n) for n in found}
        except FileNotFoundError:
            self._segments, self._listed.is_settled = {}, False
            check_root(self._root, self._stream)
        return self._segments

    def _directory(self, segment: int) -> SegmentDirectory:
        return SegmentDirectory(self._root, self._stream, segment, self._monotonic)


class SegmentDirectory:
    """The directory of the files of one segment."""

    __slots__ = ("_listed", "_segment", "_starts", "_stream", "path")

    def __init__(self, root: Path, stream: str, segment: int, monotonic: Seconds) -> None:
        self.path = segment_directory(root, stream, segment)
        self._listed = _Listed(self.path, monotonic)
        self._stream, self._segment = stream, segment
        self._starts: dict[str, int] = {}

    def changed(self) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        """Yield its files and the new ones, both name → start offset, unless it has not changed.

        The new ones are in the order of their offsets. They are new again at the next call if the
        caller raises before it asks for more. Raises `Rejected` for a foreign file, and `OSError`.
        """
        known = self._starts
        for names in self._listed.changed():
            check_segment(self.path, names)
            starts = {
                name: known[name] if name in known else self._start(name)
                for name in names
                if name.endswith(SUFFIX) and not is_hidden(name)
            }
            new = sorted(starts.keys() - known.keys(), key=starts.__getitem__)
            yield starts, {name: starts[name] for name in new}
            self._starts = starts

    def _start(self, name: str) -> int:
        return checked_start(self.path / name, self._stream, self._segment)


class _Listed:
    """A directory, and whether its entries can have changed since it was last listed."""

    __slots__ = ("_changed_ns", "_monotonic", "_path", "_seen_s", "is_settled")

    def __init__(self, path: Path, monotonic: Seconds) -> None:
        self._path, self._monotonic = str(path), monotonic
        self._changed_ns, self._seen_s, self.is_settled = -1, 0.0, False

    def changed(self) -> Iterator[list[str]]:
        """Yield its entries, unless they are those that a caller has finished with."""
        now_s = self._monotonic()
        changed_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - a third of Path.stat's cost
        if changed_ns != self._changed_ns:
            self._changed_ns, self._seen_s, self.is_settled = changed_ns, now_s, False
        if not self.is_settled:
            yield os.listdir(self._path)  # noqa: PTH208 - names are all that is needed
            self.is_settled = now_s - self._seen_s >= SETTLED_S
