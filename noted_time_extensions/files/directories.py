"""Lists the directories of a file log, if their entries may have changed.

Names that may have unread rows are refused, because the log would seem to end before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

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


class LogDirectories:
    """The directories of one stream below `root`."""

    def __init__(
        self, root: LogPath, stream: str, monotonic: Seconds, ignored: Sequence[str] = ()
    ) -> None:
        self.root, self.stream, self._monotonic = root, stream, monotonic
        self._ignored = ignored
        self._listed = store_of(root).watch(root / stream, monotonic)
        self._segments: Mapping[int, SegmentDirectory] = {}
        self._others: Names = {}
        self._kinds: dict[str, NameKind] = {}
        self._is_checked = False

    def segments(self) -> Mapping[int, SegmentDirectory]:
        """Return the directories by segment, or raise `Rejected` for a wrong root."""
        earlier_segments = self._segments
        try:
            for names in self._listed.list_changes():
                numbers = sorted(
                    {number for each in names if (number := segment_of(each)) is not None}
                )
                self._segments = {
                    number: earlier_segments.get(number) or self._directory(number)
                    for number in numbers
                }
                self._others = {each: names[each] for each in names if segment_of(each) is None}
        except FileNotFoundError:
            self._segments, self._others = {}, {}
            if isinstance(self.root, Path) or not self._is_checked:
                check_root(self.root, self.stream)
                self._is_checked = True
        self._kinds = {
            name: judge_name(name, self.stream, None, self._ignored) for name in self._list_others()
        }
        if not isinstance(self.root, Path):
            with ThreadPoolExecutor(max_workers=MAX_REQUESTS) as pool:
                list(pool.map(lambda each: each.listing.fetch(), self._segments.values()))
        return self._segments

    def list_all(self) -> list[tuple[int, int, LogPath]]:
        """Return segment, start offset and path of the files that were not returned before."""
        return [
            (number, start, directory.path / name)
            for number, directory in self.segments().items()
            for _, new_starts in directory.list_changes()
            for name, start in new_starts.items()
        ]

    def list_kinds(self) -> Iterator[tuple[LogPath, str, NameKind]]:
        """Yield directory, name and kind of the listed files that are not read."""
        segment_kinds = {segment.path: segment.kinds for segment in self._segments.values()}
        for directory, kinds in {self.root / self.stream: self._kinds, **segment_kinds}.items():
            yield from ((directory, name, kinds[name]) for name in sorted(kinds))

    def check_names(self) -> None:
        """Raise `ForeignFile` if a listed name may have rows. Call it after all are listed."""
        for directory, name, kind in self.list_kinds():
            if kind in REFUSED_KINDS:
                raise ForeignFile(directory, name, kind)

    def _list_others(self) -> Iterator[str]:
        store, stream = store_of(self.root), self.root / self.stream
        for name, version in self._others.items():
            yield name
            if version is None and not is_hidden(name):  # it may be a directory
                listing = store.watch(stream / name, self._monotonic, lambda _: False)
                with suppress(FileNotFoundError, NotADirectoryError):
                    yield from (f"{name}/{inner_name}" for inner_name in listing.list_now())

    def _directory(self, segment: int) -> SegmentDirectory:
        return SegmentDirectory(self.root, self.stream, segment, self._monotonic, self._ignored)


class SegmentDirectory:
    """The directory of one segment."""

    __slots__ = (
        *("_ignored", "_latest", "_names", "_segment", "_starts", "_stream"),
        *("kinds", "listing", "path"),
    )

    def __init__(
        self,
        root: LogPath,
        stream: str,
        segment: int,
        monotonic: Seconds,
        ignored: Sequence[str] = (),
    ) -> None:
        self.path, self._ignored = segment_directory(root, stream, segment), ignored
        can_resume = partial(sort_by_offset, stream=stream, segment=segment, ignored=ignored)
        self.listing = store_of(root).watch(self.path, monotonic, can_resume)
        self._stream, self._segment = stream, segment
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
            self._names, self._starts = names, starts

    def list_names(self) -> Iterator[str]:
        """Yield the names of files with rows, keys or headers, or raise `ForeignFile`."""
        for name in self.listing.list_now():
            kind = self._judge(name)
            if kind in REFUSED_KINDS:
                raise ForeignFile(self.path, name, kind)
            if kind == "rows" or is_beside_rows(name):
                yield name

    def _find_starts(self, names: Names) -> tuple[dict[str, int], dict[str, int]]:
        earlier_names = self._names
        changed_names = [
            name
            for name, version in names.items()
            if name not in earlier_names or earlier_names[name] != version
        ]
        starts = {name: start for name, start in self._starts.items() if name in names}
        kinds = {name: kind for name, kind in self.kinds.items() if name in names}
        kinds |= {name: self._judge(name) for name in changed_names if not is_beside_rows(name)}
        name_starts = (
            (name, start_of(name, self._stream, self._segment)) for name in changed_names
        )
        new_starts = {name: start for name, start in name_starts if start is not None}
        self.kinds = {name: kind for name, kind in kinds.items() if kind != "rows"}
        return {**starts, **new_starts}, dict(
            sorted(new_starts.items(), key=lambda version: version[1])
        )

    def _judge(self, name: str) -> NameKind:
        return judge_name(name, self._stream, self._segment, self._ignored)

    def identify(self, name: str) -> object:
        """Return a value that changes with the file, or raise `FileNotFoundError`."""
        identity = self._latest.get(name) or store_of(self.path).identify(self.path / name)
        if identity is None:
            raise FileNotFoundError(f"{self.path / name} does not exist")
        return identity


def check_root(root: LogPath, stream: str) -> None:
    store = store_of(root)
    inside = [name for name in store.list_names(root) if not is_hidden(name)]
    for name in inside:
        if segment_of(name) is not None:
            raise Rejected(
                f"{root} holds {name}, as a stream's log does: the root is {root.parent}"
            )
    for name in inside:
        if any(segment_of(folder) is not None for folder in store.list_names(root / name / stream)):
            raise Rejected(
                f"{root} has no log of stream {stream!r}, which is below {name}: the root is "
                f"{root / name}"
            )
