"""The ends and the newest event times of a file log, for observers."""

from __future__ import annotations

import logging
import time as clocks
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noted_time import Rejected, Unreachable
from noted_time.extending import (
    ANY_TIME,
    FIRST_TIMES,
    IN_MS,
    NULL_WARNING,
    TWICE_WARNING,
    EventTimeForm,
    EventTimeKind,
    LogPath,
    Nulls,
    PassedOver,
    Passes,
    TimeForm,
    describe_form,
    parse_root,
    pluralize,
    validate_name,
)
from noted_time_extensions.files.arrow_rows import count_nulls, open_parquet, read_span
from noted_time_extensions.files.arrow_times import ArrowTimes, convert_times, find_kind, list_first
from noted_time_extensions.files.directories import ListedFile, LogDirectories, SegmentDirectory
from writer_client import Seen
from writer_client.extending import unix_ms

log = logging.getLogger("noted_time.observer")


class LogEnds:
    """Returns the current ends of a file log when it is called.

    `root` is a path or a URL, such as ``s3://lake/topics``. A stream without files is empty.

    A call raises `Unreachable` if the root does not exist or cannot be listed, and `Rejected` for a
    truncated file or a store that refuses access. It raises `ForeignFile` for a name that may have
    rows and cannot be read, unless a pattern of `ignore` matches it.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        stream: str,
        *,
        ignore: Sequence[str] = (),
        monotonic: Callable[[], float] = clocks.monotonic,
    ) -> None:
        self.root = parse_root(root)
        self.stream = validate_name("stream", stream)
        self._directories = LogDirectories(self.root, stream, monotonic, ignore)
        self._segments: dict[int, _Segment] = {}
        self._new_files: list[ListedFile] = []

    def __call__(self) -> Seen:
        self._find_ends()
        self._new_files.clear()
        return Seen(self.ends)

    @property
    def ends(self) -> dict[int, int]:
        """The ends as of the last call, exclusive offsets."""
        return {number: segment.end for number, segment in self._segments.items()}

    def check_segments(self) -> None:
        """Raise `Unreachable` if the log has no segments, perhaps because its name is wrong."""
        if not self._list_segments():
            self._directories.check_names()
            raise Unreachable(f"{self.root} has no segments of {self.stream!r}: check both names")

    def _list_segments(self) -> Mapping[int, SegmentDirectory]:
        if isinstance(self.root, Path) and not self.root.is_dir():
            raise Unreachable(f"{self.root} does not exist")
        try:
            return self._directories.segments()
        except OSError as error:
            raise Unreachable(f"{self.root / self.stream} cannot be read: {error}") from error

    def _find_ends(self) -> None:
        directories = self._list_segments()
        segments = {}
        try:
            for number, directory in directories.items():
                segments[number] = self._segments.get(number) or _Segment(number, directory)
            self._segments = segments
            for segment in segments.values():
                self._new_files += segment.find_new_files()
            self._directories.check_names()
        except OSError as error:
            raise Unreachable(f"{self.root / self.stream} cannot be read: {error}") from error


class LogTimes(LogEnds):
    """Returns the ends of a file log and the newest event time of each segment when it is called.

    `field` is the event-time column: timestamps of any unit, or numbers or text as described by
    `form`, by default Unix ms. With `TimeForm()`, the unit is inferred from the first times found.
    Timestamps without a zone are in the zone of `form`, and are refused if it has none.

    If most of the first times are from 1971 to 2199, rows outside are passed over and counted
    (`unusable`). While they are the newest of their segment, it is not idle, unless `passes` says
    so. Times that stand for none, such as 0, are only counted (`without_time`). Local times in an
    hour that their zone had twice are read as of the first one, and counted (`twice`).

    Rows whose time is null are counted (`null_times`). While they are the newest of their segment,
    it is not idle either, unless `nulls` is ``"pass"``.

    Each file is read once; the first call reads all existing files.
    """

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        root: str | PathLike[str],
        stream: str,
        field: str,
        *,
        form: TimeForm = IN_MS,
        ignore: Sequence[str] = (),
        passes: Passes | None = None,
        nulls: Nulls = "hold",
    ) -> None:
        super().__init__(root, stream, ignore=ignore)
        self._field = field
        self._form = form
        self._nulls = nulls
        self._passed = PassedOver(passes, now=unix_ms())
        self._kind: EventTimeKind | None = None
        self.unusable = 0
        self.without_time = 0
        self.null_times = 0
        self.twice = 0

    @property
    def event_time_form(self) -> EventTimeForm | None:
        """How the column is read, for the stream's readers. `None` before a file was read."""
        if self._kind is None:
            return None
        return describe_form(self._field, self._kind, self._form)

    def __call__(self) -> Seen:
        """Return the ends, and the newest time in ms of each segment with new files.

        Raises `NotObservable` if the unit or the zone is in doubt.
        """
        self._find_ends()
        if self._form.bounds is None:
            self._form = self._form.judge(self._field, self._list_first(), unix_ms())
        files = [(file, self._read(file.path)) for file in self._new_files]
        self._new_files.clear()
        newest: dict[int, int] = {}
        now = unix_ms()
        for file, file_times in files:
            self._report(file.path, file_times)
            time = file_times.largest
            if time is not None:
                newest[file.segment] = max(time, newest.get(file.segment, time))
            self._pass_over(file, file_times, now)
        active = dict.fromkeys(self._passed.find_active(now=now))
        largest = max(newest.values(), default=None)
        facts = self._passed.list_facts(now=now)
        return Seen(self.ends, {**active, **newest}, largest, tuple(facts))

    def _pass_over(self, file: ListedFile, file_times: _FileTimes, now: int) -> None:
        if file_times.newest == "time":
            self._passed.end(file.segment)
        elif file_times.newest == "unusable":
            self._passed.add(file.segment, file.start, now=now)
        elif file_times.newest == "null" and self._nulls == "hold":
            self._passed.add(file.segment, file.start, now=now, is_null=True)

    def _list_first(self) -> Iterator[object]:
        for file in self._new_files:
            with suppress(FileNotFoundError), self._open(file.path) as parquet:
                for batch in parquet.iter_batches(FIRST_TIMES, columns=[self._field]):
                    yield from list_first(batch.column(0), self._field, self._form)

    @contextmanager
    def _open(self, path: LogPath) -> Iterator[pq.ParquetFile]:
        with open_parquet(path, may_be_gone=True) as parquet:
            if self._field not in parquet.schema_arrow.names:
                raise Rejected(f"{path} has no column {self._field}")
            if self._kind is None:
                self._kind = find_kind(
                    parquet.schema_arrow.field(self._field).type, self._form.unit
                )
            yield parquet

    def _read(self, path: LogPath) -> _FileTimes:
        file_times = _FileTimes()
        with suppress(FileNotFoundError), self._open(path) as parquet:
            file_times.largest = self._find_in_statistics(parquet)
            if file_times.largest is not None:
                file_times.newest = "time"
                return file_times
            for batch in parquet.iter_batches(columns=[self._field]):
                batch_times = convert_times(batch.column(0), self._field, self._form)
                file_times.take(batch.column(0), batch_times, self._form)
        return file_times

    def _report(self, path: LogPath, file_times: _FileTimes) -> None:
        self.without_time += file_times.left_out.pop(None, 0)
        for kind, count in file_times.left_out.items():
            self.unusable += count
            log.warning("%s: passed over %s with %s", path, pluralize(count, "row"), kind)
        if file_times.nulls and not self.null_times:
            rows = pluralize(file_times.nulls, "row")
            log.warning(NULL_WARNING, path, f"{self._field!r} is null in {rows}")
        self.null_times += file_times.nulls
        if file_times.twice and not self.twice:
            log.warning(TWICE_WARNING, path)
        self.twice += file_times.twice

    def _find_in_statistics(self, parquet: pq.ParquetFile) -> int | None:
        """Return the largest time, or `None` if the rows have to be read."""
        column_type = parquet.schema_arrow.field(self._field).type
        is_timestamp = pa.types.is_timestamp(column_type)
        is_scaled = self._form.format is None and self._form.unit != "d"
        if not is_timestamp and not (column_type == pa.int64() and is_scaled):
            return None
        if is_timestamp and self._form.find_zone(self._field, column_type.tz) is not None:
            return None  # the clock of the zone may have been put back
        if count_nulls(parquet, self._field) != 0:
            return None  # the newest row may have no time
        span = read_span(parquet, self._field)
        if span is None:
            return None
        least_ms = span.least
        largest_ms = span.largest
        if not is_timestamp:
            least_ms = self._form.scale_to_ms(least_ms)
            largest_ms = self._form.scale_to_ms(largest_ms)
        bounds = self._form.bounds or ANY_TIME
        if least_ms not in bounds or largest_ms not in bounds:
            return None  # the rows outside have to be counted
        return largest_ms


@dataclass(slots=True)
class _FileTimes:
    """The largest time of a file, and the rows that do not count, by kind.

    `newest` is the content of the last row, except a time that stands for none.
    """

    largest: int | None = None
    newest: Literal["time", "null", "unusable"] | None = None
    left_out: Counter[str | None] = field(default_factory=Counter)
    nulls: int = 0
    twice: int = 0

    def take(self, values: pa.Array, batch_times: ArrowTimes, form: TimeForm) -> None:
        if batch_times.left_out:
            self.left_out.update(batch_times.left_out)
            self.newest = "unusable"
        self.nulls += values.null_count
        self.twice += pc.sum(pc.not_equal(batch_times.times, batch_times.second)).as_py() or 0
        bounds = form.bounds or ANY_TIME
        are_null = values.is_null().to_pylist()
        for time, is_null in zip(batch_times.times.to_pylist(), are_null, strict=True):
            if is_null:
                self.newest = "null"
            elif time is None:  # a skipped hour
                continue
            elif time in bounds:
                self.newest = "time"
                self.largest = time if self.largest is None else max(time, self.largest)
            else:
                kind = form.describe_outside(time)
                self.left_out[kind] += 1
                if kind is not None:
                    self.newest = "unusable"


class _Segment:
    __slots__ = ("_directory", "_last", "_number", "end")

    def __init__(self, number: int, directory: SegmentDirectory) -> None:
        self._number = number
        self._directory = directory
        self._last: tuple[object, ...] = ()
        self.end = 0

    def find_new_files(self) -> list[ListedFile]:
        """Return the files that were not returned before, and find the end."""
        files: list[ListedFile] = []
        for starts, new_starts in self._directory.list_changes():
            self._find_end(starts)
            files = [
                ListedFile(self._number, start, self._directory.path / name)
                for name, start in new_starts.items()
            ]
        return files

    def _find_end(self, starts: dict[str, int]) -> None:
        if not starts:
            self._last = ()
            self.end = 0
            return
        name = max(starts, key=starts.__getitem__)
        last = (name, self._directory.identify(name))
        if last != self._last:
            with open_parquet(self._directory.path / name, may_be_gone=True) as file:
                self.end = starts[name] + file.metadata.num_rows
            self._last = last
