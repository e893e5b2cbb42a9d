"""Lists the directories of a file log, if their entries may have changed.

Names that may have unread rows are refused, because the log would seem to end before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from noted_time import Rejected
from noted_time.extending import LogPath, Names, Seconds, store_of
from noted_time_extensions.files.layout import (
    REFUSED_KINDS,
    ForeignFile,
    NameKind,
    is_beside_rows,
    is_hidden,
    judge_name,
    segment_directory,
    segment_of,
    sort_by_offset,
    start_of,
)

MAX_REQUESTS = 16
"""How many segments of a bucket are listed at a time."""


class ListedFile(NamedTuple):
    """A file with rows."""

    segment: int
    start: int
    path: LogPath


class OtherName(NamedTuple):
    """A name in a log that is no file with rows, or none that can be read yet."""

    directory: LogPath
    name: str
    kind: NameKind


class LogDirectories:
    """The directories of one stream below `root`."""

    def __init__(
        self, root: LogPath, stream: str, monotonic: Seconds, ignored_patterns: Sequence[str] = ()
    ) -> None:
        self.root = root
        self.stream = stream
        self._monotonic = monotonic
        self._ignored_patterns = ignored_patterns
        self._listed = store_of(root).watch(root / stream, monotonic)
        self._segments: Mapping[int, SegmentDirectory] = {}
        self._others: Names = {}
        self._kinds: dict[str, NameKind] = {}
        self._is_checked = False

    def segments(self) -> Mapping[int, SegmentDirectory]:
        """Return the directories by segment, or raise `Rejected` for a wrong root."""
        try:
            for names in self._listed.list_changes():
                self._split_names(names)
        except FileNotFoundError:
            self._segments = {}
            self._others = {}
            if isinstance(self.root, Path) or not self._is_checked:
                check_root(self.root, self.stream)
                self._is_checked = True
        self._kinds = {
            name: judge_name(name, self.stream, None, self._ignored_patterns)
            for name in self._list_others()
        }
        if not isinstance(self.root, Path):
            with ThreadPoolExecutor(max_workers=MAX_REQUESTS) as pool:
                list(pool.map(lambda segment: segment.listing.fetch(), self._segments.values()))
        return self._segments

    def _split_names(self, names: Names) -> None:
        numbers: set[int] = set()
        other_names = {}
        for name, version in names.items():
            number = segment_of(name)
            if number is None:
                other_names[name] = version
            else:
                numbers.add(number)
        segments = {}
        for number in sorted(numbers):
            segments[number] = self._segments.get(number) or self._directory(number)
        self._segments = segments
        self._others = other_names

    def list_all(self) -> list[ListedFile]:
        """Return the files that were not returned before."""
        files: list[ListedFile] = []
        for number, directory in self.segments().items():
            for _, new_starts in directory.list_changes():
                for name, start in new_starts.items():
                    files.append(ListedFile(number, start, directory.path / name))
        return files

    def list_kinds(self) -> Iterator[OtherName]:
        """Yield the listed names that are not read."""
        kinds_by_directory = {self.root / self.stream: self._kinds}
        for segment in self._segments.values():
            kinds_by_directory[segment.path] = segment.kinds
        for directory, kinds in kinds_by_directory.items():
            for name in sorted(kinds):
                yield OtherName(directory, name, kinds[name])

    def check_names(self) -> None:
        """Raise `ForeignFile` if a listed name may have rows. Call it after all are listed."""
        for directory, name, kind in self.list_kinds():
            if kind in REFUSED_KINDS:
                raise ForeignFile(directory, name, kind)

    def _list_others(self) -> Iterator[str]:
        store = store_of(self.root)
        stream = self.root / self.stream
        for name, version in self._others.items():
            yield name
            if version is None and not is_hidden(name):  # it may be a directory
                listing = store.watch(stream / name, self._monotonic, lambda _: False)
                with suppress(FileNotFoundError, NotADirectoryError):
                    for inner_name in listing.list_now():
                        yield f"{name}/{inner_name}"

    def _directory(self, segment: int) -> SegmentDirectory:
        return SegmentDirectory(
            self.root, self.stream, segment, self._monotonic, self._ignored_patterns
        )


class SegmentDirectory:
    """The directory of one segment."""

    __slots__ = (
        "_ignored_patterns",
        "_latest",
        "_names",
        "_segment",
        "_starts",
        "_stream",
        "kinds",
        "listing",
        "path",
    )

    def __init__(
        self,
        root: LogPath,
        stream: str,
        segment: int,
        monotonic: Seconds,
        ignored_patterns: Sequence[str] = (),
    ) -> None:
        self.path = segment_directory(root, stream, segment)
        self._ignored_patterns = ignored_patterns
        can_resume = partial(
            sort_by_offset, stream=stream, segment=segment, ignored_patterns=ignored_patterns
        )
        self.listing = store_of(root).watch(self.path, monotonic, can_resume)
        self._stream = stream
        self._segment = segment
        self._names: Names = {}
        self._latest: Names = {}
        self._starts: dict[str, int] = {}
        self.kinds: dict[str, NameKind] = {}

    def list_changes(self) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        """Yield all files and the new files (name → start offset) if the entries may have changed.

        The new files are sorted by offset, and new again if the caller raises. An object that was
        replaced is new. All other names are in `kinds`, but for files with keys or headers.
        """
        for names in self.listing.list_changes():
            self._latest = names
            starts, new_starts = self._find_starts(names)
            yield starts, new_starts
            self._names = names
            self._starts = starts

    def list_names(self) -> Iterator[str]:
        """Yield the names of files with rows, keys or headers, or raise `ForeignFile`."""
        for name in self.listing.list_now():
            kind = self._judge(name)
            if kind in REFUSED_KINDS:
                raise ForeignFile(self.path, name, kind)
            if kind == "rows" or is_beside_rows(name):
                yield name

    def _find_starts(self, names: Names) -> tuple[dict[str, int], dict[str, int]]:
        """Return the start offsets of all files and of the new ones, and set the `kinds`."""
        earlier_names = self._names
        changed_names = [
            name
            for name, version in names.items()
            if name not in earlier_names or earlier_names[name] != version
        ]
        starts = {name: start for name, start in self._starts.items() if name in names}
        kinds = {name: kind for name, kind in self.kinds.items() if name in names}
        new_starts: dict[str, int] = {}
        for name in changed_names:
            start = start_of(name, self._stream, self._segment)
            if start is not None:
                new_starts[name] = start
            kind = self._judge(name)
            if kind != "rows" and not is_beside_rows(name):
                kinds[name] = kind
        self.kinds = kinds
        sorted_names = sorted(new_starts, key=new_starts.__getitem__)
        return {**starts, **new_starts}, {name: new_starts[name] for name in sorted_names}

    def _judge(self, name: str) -> NameKind:
        return judge_name(name, self._stream, self._segment, self._ignored_patterns)

    def identify(self, name: str) -> object:
        """Return a value that changes with the file, or raise `FileNotFoundError`."""
        identity = self._latest.get(name) or store_of(self.path).identify(self.path / name)
        if identity is None:
            raise FileNotFoundError(f"{self.path / name} does not exist")
        return identity


def check_root(root: LogPath, stream: str) -> None:
    store = store_of(root)
    names = [name for name in store.list_names(root) if not is_hidden(name)]
    for name in names:
        if segment_of(name) is not None:
            raise Rejected(
                f"{root} holds {name}, as a stream's log does: the root is {root.parent}"
            )
    for name in names:
        inner_names = store.list_names(root / name / stream)
        if any(segment_of(inner_name) is not None for inner_name in inner_names):
            raise Rejected(
                f"{root} has no log of stream {stream!r}, which is below {name}: the root is "
                f"{root / name}"
            )
