"""The ends and the newest event times of a file log, for observers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from os import PathLike
from pathlib import Path

import pyarrow as pa

from noted_time.filelog import LogDirectories, SegmentDirectory
from noted_time.observing import FIRST_TIMES, IN_MS, Seen, TimeForm
from noted_time.stores import LogPath, parse_root
from noted_time.values import EPOCH, Rejected, Unreachable, validate_name
from writer_client.files.arrow_rows import open_parquet, read_largest_time
from writer_client.sending.clock import unix_ms


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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = parse_root(root)
        self.stream = validate_name("stream", stream)
        self._directories = LogDirectories(self.root, stream, monotonic, ignore)
        self._segments: dict[int, _Segment] = {}
        self._new: list[tuple[int, LogPath]] = []

    def __call__(self) -> Seen:
        self._find_ends()
        self._new.clear()
        return Seen(self.ends)

    @property
    def ends(self) -> dict[int, int]:
        """The ends as of the last call, exclusive offsets."""
        return {number: each.end for number, each in self._segments.items()}

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
        directories, known = self._list_segments(), self._segments
        try:
            self._segments = {n: known.get(n) or _Segment(directories[n]) for n in directories}
            for number, segment in self._segments.items():
                self._new += [(number, path) for path in segment.find_new_files()]
            self._directories.check_names()
        except OSError as error:
            raise Unreachable(f"{self.root / self.stream} cannot be read: {error}") from error


class LogTimes(LogEnds):
    """Returns the ends of a file log and the newest event time of each segment when it is called.

    `field` is the event-time column: timestamps of any unit, or numbers or text as described by
    `form`, by default Unix ms. With `TimeForm()`, the unit is inferred from the first times found.
    Timestamps without a zone are in the zone of `form`, and are refused if it has none.

    Each file is read once; the first call reads all existing files.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        stream: str,
        field: str,
        *,
        form: TimeForm = IN_MS,
        ignore: Sequence[str] = (),
    ) -> None:
        super().__init__(root, stream, ignore=ignore)
        self._field, self._form = field, form
        self._values: list[object] = []

    def __call__(self) -> Seen:
        """Return the ends, and the newest time in ms of each segment with new files.

        Raises `NotObservable` if the unit or the zone is in doubt.
        """
        self._find_ends()
        newest: dict[int, int] = {}
        for segment, path in self._new:
            time = self._largest_in(path)
            if time is not None:
                newest[segment] = max(time, newest.get(segment, time))
        if newest:
            self._form = self._form.infer_unit(self._field, self._values, unix_ms())
            self._values.clear()
        self._new.clear()
        return Seen(self.ends, newest, max(newest.values(), default=None))

    def _largest_in(self, path: LogPath) -> int | None:
        with suppress(FileNotFoundError), open_parquet(path, may_be_gone=True) as parquet:
            if self._field not in parquet.schema_arrow.names:
                raise Rejected(f"{path} has no column {self._field}")
            kind = parquet.schema_arrow.field(self._field).type
            if pa.types.is_timestamp(kind):
                zone = self._form.find_zone(self._field, kind.tz)
                largest_time = read_largest_time(parquet, self._field)
                if zone is None or largest_time is None:
                    return largest_time
                local = EPOCH.replace(tzinfo=None) + timedelta(milliseconds=largest_time)
                return self._form.ms_of(local)
            if kind == pa.int64() and self._form.format is None:
                return self._convert_largest([read_largest_time(parquet, self._field)])
            batches = parquet.iter_batches(columns=[self._field])
            largest = [self._convert_largest(each.column(0).to_pylist()) for each in batches]
            return max((each for each in largest if each is not None), default=None)
        return None  # the file has just been removed

    def _convert_largest(self, values: list[object]) -> int | None:
        if self._form.is_open:
            self._values += values[: FIRST_TIMES - len(self._values)]
        times = (self._form.ms_of(value) for value in values if value is not None)
        return max(times, default=None)


class _Segment:
    __slots__ = ("_directory", "_last", "end")

    def __init__(self, directory: SegmentDirectory) -> None:
        self._directory = directory
        self._last: tuple[object, ...] = ()
        self.end = 0

    def find_new_files(self) -> list[LogPath]:
        paths: list[LogPath] = []
        for starts, new in self._directory.list_changes():
            self._find_end(starts)
            paths = [self._directory.path / name for name in new]
        return paths

    def _find_end(self, starts: dict[str, int]) -> None:
        if not starts:
            self._last, self.end = (), 0
            return
        name = max(starts, key=starts.__getitem__)
        last = (name, self._directory.identify(name))
        if last != self._last:
            with open_parquet(self._directory.path / name, may_be_gone=True) as file:
                self.end = starts[name] + file.metadata.num_rows
            self._last = last
