"""A writer of the file log: its appends, its position, and the times that it may note."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from noted_time.values import LARGEST_TIME, Fenced, Rejected, Time, join_into, validate_name
from writer_client.async_client import AsyncWriterClient
from writer_client.client import WriterClient
from writer_client.files.arrow_rows import (
    Rows,
    Span,
    as_table,
    check_zones,
    find_late_rows,
    find_span,
)
from writer_client.files.batches import Batch
from writer_client.files.segment_files import SegmentFiles
from writer_client.sending.answers import FoundPosition
from writer_client.sending.vouched import EMPTY_POSITION

if TYPE_CHECKING:
    import pyarrow as pa


class SegmentLogWriter:
    """Appends rows to segments of a file log and notes time for them.

    Several writers, in any number of processes, may append to the same segment. Each append is one
    zstd Parquet file, durable and visible as a whole when `append` returns.

    `event_time` names the column with the event times (int64 ms, or a timestamp of any unit), or
    gives one column per domain of the stream: ``{"order_time": "ordered", "ship_time": "sent"}``.

    It starts at the ends of its segments: the next note covers what a former process appended and
    did not note before a crash, and its largest event time, so that the upper of marks stays a
    bound. It also covers what others appended there until then: more than necessary, but sound.
    The client looks up the ends (`Writer.begin`) once no other process of its name may
    note. It reads these times from the footers of the files past the position that the controller
    knows.

    With a `client`, it joins when it is created, and again if it is not live when it appends. That
    does not wait for the controller: if no row may be late, `flush` the client before the first
    append, and stamp and append inside `client.writing()` if time is noted automatically.

    Rows below a time that the writer noted, or below the lower of the last answer, are late. They
    are appended nevertheless, counted (`late_rows`), and reported to the controller with the next
    note.

    If another process took over the writer's name, `append` raises `Fenced` before it writes.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        root: str | PathLike[str],
        stream: str,
        *,
        segments: Iterable[int] = (0,),
        client: WriterClient | AsyncWriterClient | None = None,
        event_time: str | Mapping[str, str],
        schema: pa.Schema | None = None,
    ) -> None:
        """Open the segments and create their directories.

        `schema` is that of new segments; without it, their first rows decide. Raises `InvalidName`,
        or `Rejected` if a segment has another schema or a file that is foreign or truncated.
        """
        validate_name("stream", stream)
        self.stream = stream
        self.client = client
        self._columns = _map_columns(event_time)
        self._files = {
            segment: SegmentFiles(Path(root), stream, segment, schema=schema)
            for segment in segments
        }
        self._root = Path(root)
        self._began = {n: files.end for n, files in self._files.items() if files.end}
        self._appended: dict[int, int] = {}
        self._largest: dict[str | None, int] = {}
        self._late_rows = 0
        self._lock = threading.RLock()
        if client is not None:
            client.begin(self._look_up)

    @property
    def position(self) -> dict[int, int]:
        """The end of this writer's last append in each segment, or where the segment ended before.

        A segment that was empty and not written to is missing.
        """
        position = dict(self._began)
        join_into(position, self._appended)
        return position

    @property
    def late_rows(self) -> int:
        """How many rows were appended below a time noted before, or below the lower.

        Readers no longer wait for them. A row that is late in two domains counts twice.
        """
        return self._late_rows

    def max_time(self, domain: str | None = None) -> int | None:
        """Return the largest event time appended, in ms, `None` before the first row."""
        return self._largest.get(domain)

    def append(self, rows: Rows, segment: int | None = None) -> int:
        """Append the rows and return the segment's end offset after them.

        `rows` is a pandas DataFrame (without its index, unless that has a name), a `pyarrow.Table`
        or `RecordBatch`, or a list of dicts. Anything else with Arrow's C stream will do, such as a
        polars DataFrame. Without rows nothing is written. `segment` may be left out if there is
        only one. Raises `Rejected` before anything is written if a row cannot be appended: a
        missing event-time column, nulls in it, a `datetime` without a zone, a schema other than the
        segment's.
        """
        return self._append(rows, segment, None)[0]

    def append_once(self, rows: Rows, batch: Batch, segment: int | None = None) -> bool:
        """Append the rows of one batch of a program, unless it was appended before.

        A program that repeats a batch after a crash appends it only once: the file names the batch
        in its metadata, and a batch counts as appended if the segment's newest file of the same
        source holds it or a later one. This is also true if two runs of the program append at the
        same time. Returns whether the rows were appended, `False` without rows; otherwise as
        `append`.
        """
        return self._append(rows, segment, batch)[1]

    def holds(self, batch: Batch, segment: int | None = None) -> bool:
        """Whether the batch, or a later one of its source, was appended to the segment."""
        with self._lock:
            return self._get_files(segment).holds(batch)

    def _append(self, rows: Rows, segment: int | None, batch: Batch | None) -> tuple[int, bool]:
        """Append the rows; returns the segment's end, and whether they were appended."""
        with self._lock:
            files = self._get_files(segment)
            table = self._convert_rows(rows, files)
            if table is None:
                return files.end, False
            spans = {domain: find_span(table, column) for domain, column in self._columns.items()}
            self._join()
            is_appended = files.append(table, batch)
            self._track(files.segment, files.end, spans, table.num_rows if is_appended else 0)
            if is_appended:
                self._count_late(table, spans)
            return files.end, is_appended

    def _convert_rows(self, rows: Rows, files: SegmentFiles) -> pa.Table | None:
        """Return the rows in the segment's schema, `None` if there are none."""
        if isinstance(rows, list) and not rows:
            return None
        check_zones(rows, self._columns.values(), files.schema)
        table = as_table(rows, files.schema)
        return table if table.num_rows else None

    def note_time(self, time: Time, *, domain: str | None = None) -> None:
        """Note that no event with a time below `time` will be appended from here on.

        The note has the position and the largest event time of what was appended. Raises
        `InvalidNote` if time goes back, `Rejected` without a client.
        """
        if self.client is None:
            message = f"this writer of {self.stream!r} was created without a client to note with"
            raise Rejected(message)
        with self._lock:
            self.client.note_time(
                time, EMPTY_POSITION, domain=domain, max_time=self._largest.get(domain)
            )

    def _look_up(self, known: Mapping[int, int]) -> FoundPosition:
        """Return the ends, and the largest event times of what no note has covered.

        It runs in the thread or task that sends notes, so it reads the log concurrently with
        `append`.
        """
        found = {n: SegmentFiles(self._root, self.stream, n) for n in self._files}
        largest = {}
        for domain, column in self._columns.items():
            each = (
                files.find_largest_time(column, beyond=known.get(n, 0))
                for n, files in found.items()
            )
            times = [min(time, LARGEST_TIME) for time in each if time is not None]
            if times:
                largest[domain] = max(times)
        self._began = {n: files.end for n, files in found.items() if files.end}
        return FoundPosition(self._began, largest)

    def _join(self) -> None:
        """Join before writing, so that time waits, without waiting for the controller."""
        if self.client is not None:
            self.client.check()
            if self.client.state in ("idle", "finished"):
                self.client.join()

    def _get_files(self, segment: int | None) -> SegmentFiles:
        if segment is None and len(self._files) == 1:
            return next(iter(self._files.values()))
        if segment is None or segment not in self._files:
            opened = ", ".join(map(str, self._files))
            raise Rejected(f"segment {segment} is not open: give `segment` as one of {opened}")
        return self._files[segment]

    def _track(self, segment: int, end: int, spans: Mapping[str | None, Span], rows: int) -> None:
        """Report the rows to the client; if it can no longer note, the next append raises."""
        self._appended[segment] = end
        for domain, span in spans.items():
            self._largest[domain] = max(span.largest, self._largest.get(domain, span.largest))
            if self.client is not None:
                with suppress(Fenced):
                    self.client.wrote(
                        span.largest, domain=domain, position={segment: end}, rows=rows
                    )
            rows = 0

    def _count_late(self, table: pa.Table, spans: Mapping[str | None, Span]) -> None:
        if self.client is None:
            return
        for domain, span in spans.items():
            bound = self.client.late_below(domain)
            if bound is not None and span.least < bound:
                for late in find_late_rows(table, self._columns[domain], bound):
                    self._late_rows += late.rows
                    with suppress(Fenced):
                        self.client.wrote_late(late.rows, late.least, late.most, domain=domain)


def _map_columns(event_time: str | Mapping[str, str]) -> dict[str | None, str]:
    if isinstance(event_time, str):
        return {None: event_time}
    return {domain: column for domain, column in event_time.items()}  # noqa: C416 - widens the domain's type
