"""The files of a stream's log, and their footers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from noted_time import Recreated, Rejected
from noted_time.extending import DAY_MS, LogPath, Version, format_time, store_of
from noted_time_extensions.files.directories import LogDirectories, SegmentDirectory
from noted_time_extensions.files.layout import APPEND_KEY, UnreadableFile, explain_damage

EMPTY_POSITION: Mapping[int, int] = {}

_TICKS_PER_MS = {
    "s": Fraction(1, 1000),
    "ms": Fraction(1),
    "us": Fraction(1000),
    "ns": Fraction(10**6),
}


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows `first` to `last` (exclusive) of a file, and their times (Unix ms, rounded down)."""

    first: int
    last: int
    least: int | None
    most: int | None


@dataclass(frozen=True, slots=True)
class LogFile:
    """One append to the log: rows at offsets `start` to `end` (exclusive).

    `time_type` is the type of the event time column, if one was named. A file that `is_ours` was
    written by our writer, whose times are UTC or Unix ms.
    """

    path: LogPath
    start: int
    end: int
    groups: tuple[RowGroup, ...] = ()
    version: Version | None = None
    time_type: pa.DataType | None = None
    is_ours: bool = False


FilesBySegment = Mapping[int, list[LogFile]]


@dataclass(frozen=True, slots=True)
class CutRange:
    """Two cuts, and the event time column of the rows between them."""

    from_cut: Mapping[int, int]
    to_cut: Mapping[int, int]
    event_time: str

    def select_files(self, segment: int, starts: Mapping[LogPath, int]) -> dict[LogPath, int]:
        """Return the files of a segment, path → start offset, that may have such rows.

        >>> from pathlib import Path
        >>> starts = {Path("a"): 0, Path("b"): 10, Path("c"): 20}
        >>> sorted(map(str, CutRange({0: 10}, {0: 20}, "").select_files(0, starts)))
        ['b']
        """
        first = self.from_cut.get(segment, 0)
        end = self.to_cut.get(segment, 0)
        paths = sorted(starts, key=lambda path: starts[path])
        selected_starts: dict[LogPath, int] = {}
        for path, next_path in zip_longest(paths, paths[1:]):
            begins_before_end = starts[path] < end
            may_reach_first = next_path is None or starts[next_path] > first
            if begins_before_end and may_reach_first:
                selected_starts[path] = starts[path]
        return selected_starts


class LogFiles:
    """The files of one stream, read once; files outside `between` are not opened."""

    def __init__(  # noqa: PLR0913, PLR0917 - the log, and what is read of it
        self,
        root: LogPath,
        stream: str,
        columns: frozenset[str] = frozenset(),
        between: CutRange | None = None,
        ignore: Sequence[str] = (),
        event_time: str | None = None,
    ) -> None:
        self.root = root
        self.stream = stream
        self._event_time = event_time if between is None else between.event_time
        self._columns = columns
        self._between = between
        self._directories = LogDirectories(root, stream, time.monotonic, ignore)
        self._files: dict[int, list[LogFile]] = {}
        self._changed: dict[int, LogFile] = {}

    def refresh(self, *, is_checked: bool = True) -> dict[int, list[LogFile]]:
        """Return the files by segment. Raises `ForeignFile` for other names, if checked."""
        for segment, directory in self._directories.segments().items():
            if self._add_new_files(segment, directory):  # the list may have missed files before
                directory.listing.forget()
                self._add_new_files(segment, directory)
        if is_checked:
            self._directories.check_names()
        return dict(sorted(self._files.items()))

    def check_kept(self, planned_ends: Mapping[int, int]) -> None:
        """Raise `Recreated` if a file with rows below a planned offset was replaced or is new."""
        for segment, file in self._changed.items():
            if file.start < planned_ends.get(segment, 0):
                fact = f"{file.path} was replaced, or added below rows that were read"
                raise Recreated(f"file log {self.root}", fact)
        self._changed.clear()

    def _add_new_files(self, segment: int, directory: SegmentDirectory) -> bool:
        """Return whether new files are behind unused offsets."""
        former_files = self._files.get(segment, [])
        for _, new_starts in directory.list_changes():
            starts = {directory.path / name: start for name, start in new_starts.items()}
            self._files[segment] = self._add_files(segment, starts)
        runs = pairwise(self._files.get(segment, [])[max(len(former_files) - 1, 0) :])
        return bool(former_files) and any(before.end < after.start for before, after in runs)

    def _add_files(self, segment: int, starts: dict[LogPath, int]) -> list[LogFile]:
        if self._between is not None:
            starts = self._between.select_files(segment, starts)
        former_files = {file.path: file for file in self._files.get(segment, ())}
        max_workers = 8 if isinstance(self.root, Path) else 32
        with ThreadPoolExecutor(max_workers) as pool:
            new_files = list(pool.map(self._read_footer, starts, starts.values()))
        if former_files:
            for file in new_files:
                first_changed = self._changed.get(segment, file)
                self._changed[segment] = min(file, first_changed, key=_start_of)
        file_by_path = {**former_files, **{file.path: file for file in new_files}}
        files = sorted(file_by_path.values(), key=_start_of)
        _check_order(files)
        return files

    def _read_footer(self, path: LogPath, start: int) -> LogFile:
        try:
            source = store_of(path).open(path)
            metadata = pq.read_metadata(source)
        except (pa.ArrowException, OSError) as error:
            raise UnreadableFile(path, explain_damage(error)) from error
        schema = metadata.schema.to_arrow_schema()
        missing = self._columns - set(schema.names)
        if missing:
            raise UnreadableFile(path, f"has no column {', '.join(sorted(missing))}")
        groups = read_row_groups(metadata, self._between.event_time) if self._between else ()
        version = getattr(source, "version", None)
        time_type = None
        if self._event_time in schema.names:
            time_type = schema.field(self._event_time).type
        end = start + metadata.num_rows
        return LogFile(path, start, end, groups, version, time_type, is_ours(metadata))


def _start_of(file: LogFile) -> int:
    return file.start


def is_ours(metadata: pq.FileMetaData) -> bool:
    """Return whether our writer has written the file, whose times are then UTC or Unix ms."""
    return APPEND_KEY in (metadata.metadata or {})


def read_row_groups(metadata: pq.FileMetaData, event_time: str) -> tuple[RowGroup, ...]:
    """Return the row groups with the least and the largest time that they can have.

    Local times may be a day away from UTC. Numbers have any unit, so their times are not known.
    """
    schema = metadata.schema.to_arrow_schema()
    kind = schema.field(event_time).type
    per_ms = _TICKS_PER_MS[kind.unit] if pa.types.is_timestamp(kind) else None
    is_local = per_ms is not None and kind.tz is None
    margin_ms = DAY_MS if is_local else 0
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    column = paths.index(event_time)
    groups: list[RowGroup] = []
    first = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        last = first + group.num_rows
        statistics = group.column(column).statistics
        min_time = None
        max_time = None
        if per_ms is not None and statistics is not None and statistics.has_min_max:
            min_time = _convert_to_ms(statistics.min_raw, per_ms)
            max_time = _convert_to_ms(statistics.max_raw, per_ms)
        if min_time is not None and max_time is not None:
            min_time -= margin_ms
            max_time += margin_ms
        groups.append(RowGroup(first, last, min_time, max_time))
        first = last
    return tuple(groups)


def find_first_offsets(
    files: Mapping[int, Sequence[LogFile]],
    event_time: str,
    start_at: int,
    from_cut: Mapping[int, int],
    final: Mapping[int, int] = EMPTY_POSITION,
) -> dict[int, int]:
    """Return the first offset of each segment that may have a row at or above `start_at`.

    Rows below `from_cut` are earlier; raises `Rejected` if rows above it were deleted. `final` has
    the ends of sealed segments.
    """
    runs = {segment: run for segment, run in files.items() if run}
    first_offsets = {segment: run[0].start for segment, run in runs.items()}
    for segment, first in {**final, **first_offsets}.items():
        cut_offset = from_cut.get(segment, 0)
        if cut_offset < first:
            raise Rejected(
                f"segment {segment}: offsets {cut_offset} to {first} are missing and may have had "
                f"rows of start_at {format_time(start_at)} or later: leave start_at out to begin "
                "with the rows that are there"
            )
    return {segment: _find_first_offset(run, event_time, start_at) for segment, run in runs.items()}


def _find_first_offset(run: Sequence[LogFile], event_time: str, start_at: int) -> int:
    for file in run:
        source = store_of(file.path).open(file.path, file.version)
        for group in read_row_groups(pq.read_metadata(source), event_time):
            if group.most is None or group.most >= start_at:
                return file.start + group.first
    return run[-1].end


def _convert_to_ms(raw: object, per_ms: Fraction) -> int | None:
    """Return `None` for the 12-byte times of older writers."""
    if not isinstance(raw, int):
        return None
    return raw // per_ms


def _check_order(files: list[LogFile]) -> None:
    for before, after in pairwise(files):
        if after.start < before.end:
            raise UnreadableFile(
                after.path,
                f"overlaps {before.path.name}, which ends at {before.end}: remove it if its rows "
                "are there, too, and leave the sink's rotate.schedule.interval.ms unset",
            )
