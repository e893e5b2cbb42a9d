"""Appends rows to a file log, and notes their times."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from noted_time import Fenced, Recreated, Rejected
from noted_time.extending import LARGEST_TIME, Time, join_into, parse_root, validate_name
from noted_time_extensions.files.arrow_rows import (
    Rows,
    Span,
    as_table,
    check_zones,
    find_late_rows,
    find_span,
)
from noted_time_extensions.files.batches import Batch
from noted_time_extensions.files.segment_files import SegmentFiles
from writer_client import AsyncWriterClient, WriterClient
from writer_client.extending import FoundPosition

if TYPE_CHECKING:
    import pyarrow as pa


class SegmentLogWriter:
    """Appends rows to segments of a file log and notes time for them.

    Each append creates one Parquet file (zstd), which is durable when `append` returns. Several
    writers, in any number of processes, may append to the same segment.

    `event_time` is the event-time column: int64 ms, or a timestamp of any unit. For several time
    domains it maps domains to columns: ``{"order_time": "ordered", "ship_time": "sent"}``.

    *Joining.* With a `client`, the writer joins when it is created, and again when it appends while
    it is not live. If no row may be late, call `client.flush()` before the first append. If the
    client notes time automatically, stamp and append rows inside `client.writing()`.

    *Restarts.* The next note covers rows that an earlier process appended but did not note.

    *Late rows.* A row is late if its time is below a noted time or the last known lower. Late rows
    are appended, counted (`late_rows`) and reported with the next note.

    If another process took over the writer's name, `append` raises `Fenced` before it writes.
    """

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        root: str | PathLike[str],
        stream: str,
        *,
        segments: Iterable[int] = (0,),
        client: WriterClient | AsyncWriterClient | None = None,
        event_time: str | Mapping[str, str],
        schema: pa.Schema | None = None,
        ignore: Sequence[str] = (),
    ) -> None:
        """Open the segments, and create their directories.

        `root` is a path or a URL, such as ``s3://lake/topics``. By default the first rows determine
        the `schema` of a new segment. `ignore` has patterns of foreign names to pass over.

        Raises `InvalidName`, `Rejected` for another schema, a foreign or truncated file, or a store
        that refuses access, and `Unreachable` if an object store does not answer.
        """
        validate_name("stream", stream)
        self.stream = stream
        self.client = client
        self._columns = _map_columns(event_time)
        self._root = parse_root(root)
        self._open = partial(SegmentFiles, self._root, stream, ignored_patterns=ignore)
        self._files = {segment: self._open(segment, schema=schema) for segment in segments}
        self._start_ends = _list_ends(self._files)
        self._appended: dict[int, int] = {}
        self._largest: dict[str | None, int] = {}
        self._late_rows = 0
        self._lock = threading.RLock()
        if client is not None:
            client.begin(self._look_up)

    @property
    def position(self) -> dict[int, int]:
        """The exclusive end offset of this writer's last append to each segment.

        Before its first append, it is the end at the writer's creation, if any.
        """
        position = dict(self._start_ends)
        join_into(position, self._appended)
        return position

    @property
    def late_rows(self) -> int:
        """The number of late rows appended; a row that is late in two domains counts twice."""
        return self._late_rows

    def max_time(self, domain: str | None = None) -> int | None:
        """Return the largest event time appended, in ms, or `None` before the first row."""
        return self._largest.get(domain)

    def append(self, rows: Rows, segment: int | None = None) -> int:
        """Append the rows, and return the segment's end offset after them.

        `rows` is a pandas DataFrame, an Arrow table or record batch, a list of dicts, or any object
        with Arrow's C stream. The index of a DataFrame is appended only if it has a name. `segment`
        is needed only if several are open.

        Raises `Rejected`, before anything is written, if an event time is missing, null or without
        a zone, or if the schema differs. Raises `Unreachable` if an object store does not answer;
        the rows may be there.
        """
        return self._append(rows, segment, None)[0]

    def append_once(self, rows: Rows, batch: Batch, segment: int | None = None) -> bool:
        """Append the rows of a batch unless the batch was appended before.

        It counts as appended if the segment's newest file of the same source has it or a later
        one. Returns whether rows were appended, and raises the same as `append`.
        """
        return self._append(rows, segment, batch)[1]

    def holds(self, batch: Batch, segment: int | None = None) -> bool:
        """Return whether the segment has the batch or a later one of the same source."""
        with self._lock:
            return self._get_files(segment).holds(batch)

    def _append(self, rows: Rows, segment: int | None, batch: Batch | None) -> tuple[int, bool]:
        with self._lock:
            files = self._get_files(segment)
            table = self._convert_rows(rows, files)
            if table is None:
                return files.end, False
            spans = {domain: find_span(table, column) for domain, column in self._columns.items()}
            self._join()
            if not files.append(table, batch):
                self._track(files.segment, files.end, spans, 0)
                return files.end, False
            self._track(files.segment, files.end, spans, table.num_rows)
            self._count_late(table, spans)
            return files.end, True

    def _convert_rows(self, rows: Rows, files: SegmentFiles) -> pa.Table | None:
        if isinstance(rows, list) and not rows:
            return None
        check_zones(rows, self._columns.values(), files.schema)
        table = as_table(rows, files.schema)
        if not table.num_rows:
            return None
        return table

    def note_time(self, time: Time, *, domain: str | None = None) -> None:
        """Note that no event with a time below `time` will be appended any more.

        Raises `InvalidNote` if the time goes back, and `Rejected` if the writer has no client.
        """
        if self.client is None:
            message = f"this writer of {self.stream!r} cannot note time: create it with a client"
            raise Rejected(message)
        with self._lock:
            self.client.note_time(time, {}, domain=domain, max_time=self._largest.get(domain))

    def _look_up(self, noted_position: Mapping[int, int]) -> FoundPosition:
        """Runs in the sender's thread or task, possibly during an `append`."""
        segments = {segment: self._open(segment) for segment in self._files}
        for segment, files in segments.items():
            noted_end = noted_position.get(segment, 0)
            if files.end < noted_end:
                fact = f"segment {segment} ends at {files.end}, and {noted_end} was noted"
                root = self._root.absolute() if isinstance(self._root, Path) else self._root
                raise Recreated(f"file log {str(root)!r}", fact)
        max_times: dict[str | None, int] = {}
        for domain, column in self._columns.items():
            for segment, files in segments.items():
                time = files.find_largest_time(column, beyond=noted_position.get(segment, 0))
                if time is not None:
                    time = min(time, LARGEST_TIME)
                    max_times[domain] = max(time, max_times.get(domain, time))
        self._start_ends = _list_ends(segments)
        return FoundPosition(self._start_ends, max_times)

    def _join(self) -> None:
        if self.client is not None:
            self.client.check()
            if self.client.state in ("idle", "finished"):
                self.client.join()

    def _get_files(self, segment: int | None) -> SegmentFiles:
        if segment is None and len(self._files) == 1:
            return next(iter(self._files.values()))
        if segment is None or segment not in self._files:
            numbers = ", ".join(str(number) for number in self._files)
            raise Rejected(f"segment {segment} is not open: give `segment` as one of {numbers}")
        return self._files[segment]

    def _track(self, segment: int, end: int, spans: Mapping[str | None, Span], rows: int) -> None:
        self._appended[segment] = end
        uncounted_rows = rows  # of several domains, only the first counts them
        for domain, span in spans.items():
            self._largest[domain] = max(span.largest, self._largest.get(domain, span.largest))
            if self.client is not None:
                with suppress(Fenced):
                    self.client.wrote(
                        span.largest, domain=domain, position={segment: end}, rows=uncounted_rows
                    )
            uncounted_rows = 0

    def _count_late(self, table: pa.Table, spans: Mapping[str | None, Span]) -> None:
        if self.client is None:
            return
        for domain, span in spans.items():
            bound = self.client.late_below(domain)
            if bound is not None and span.least < bound:
                for late_rows in find_late_rows(table, self._columns[domain], bound):
                    self._late_rows += late_rows.rows
                    with suppress(Fenced):
                        self.client.wrote_late(
                            late_rows.rows, late_rows.min_time, late_rows.max_time, domain=domain
                        )


def _list_ends(segments: Mapping[int, SegmentFiles]) -> dict[int, int]:
    return {segment: files.end for segment, files in segments.items() if files.end}


def _map_columns(event_time: str | Mapping[str, str]) -> dict[str | None, str]:
    if isinstance(event_time, str):
        return {None: event_time}
    return {domain: column for domain, column in event_time.items()}  # noqa: C416 - widens the domain's type
