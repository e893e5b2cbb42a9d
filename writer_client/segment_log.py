"""A writer of the file log: what it appended, how far, and which times that lets it note."""

from __future__ import annotations

import threading
from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING

from noted_time.errors import Rejected
from noted_time.settings import checked_name
from writer_client.arrow_rows import as_table, count_below, span_of
from writer_client.segment_files import SegmentFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    import pyarrow as pa

    from writer_client.arrow_rows import Rows, Span
    from writer_client.client import WriterClient


class SegmentLogWriter:
    """Appends rows to segments of a file log and notes time for them.

    Several writers, in any number of processes, may append to the same segment. Each append is one
    zstd Parquet file, durable and visible as a whole when `append` returns.

    `event_time` names the column with the event times (int64 ms, or a timestamp of any unit), or
    gives one column for each key of the stream: ``{"order_time": "ordered", "ship_time": "sent"}``.

    With a `client`, a writer that is not live joins before it appends. That does not wait for the
    controller: where no row may be late, `join` and `flush` the client before the first append, and
    stamp and append inside `client.writing()` where time is noted automatically.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        root: str | PathLike[str],
        stream: str,
        *,
        segments: Iterable[int] = (0,),
        client: WriterClient | None = None,
        event_time: str | Mapping[str, str],
        schema: pa.Schema | None = None,
    ) -> None:
        """Open the segments, making their directories.

        `schema` is that of new segments; without it, their first rows decide. Raises `InvalidName`,
        or `Rejected` where a segment has another schema or a file that is foreign or truncated.
        """
        checked_name("stream", stream)
        self.stream = stream
        self.client = client
        self._columns = _columns(event_time)
        self._files = {
            segment: SegmentFiles(Path(root), stream, segment, schema=schema)
            for segment in segments
        }
        self._position: dict[int, int] = {}
        self._largest: dict[str | None, int] = {}
        self._noted: dict[str | None, int] = {}
        self._late_rows = 0
        self._lock = threading.Lock()

    @property
    def position(self) -> dict[int, int]:
        """The end of this writer's own last append in each segment it wrote to."""
        return dict(self._position)

    @property
    def late_rows(self) -> int:
        """How many rows were appended below a time this writer had noted before.

        They broke its word: nothing waits for them any more.
        """
        return self._late_rows

    def max_time(self, key: str | None = None) -> int | None:
        """Return the largest event time appended, in ms, `None` before the first row."""
        return self._largest.get(key)

    def append(self, rows: Rows, segment: int | None = None) -> int:
        """Append the rows and return the segment's end offset after them.

        `rows` is a `pyarrow.Table`, a `RecordBatch` or a list of dicts; none at all writes nothing.
        `segment` may be left out where there is only one. Raises `Rejected` where a row cannot be
        taken, before anything is written: a missing event-time column, nulls in it, a schema other
        than the segment's.
        """
        with self._lock:
            files = self._segment(segment)
            if isinstance(rows, Sized) and not len(rows):
                return files.end
            table = as_table(rows, files.schema)
            spans = {key: span_of(table, column) for key, column in self._columns.items()}
            self._join()
            end = files.append(table)
            self._count_late(table, spans)
            self._track(files.segment, end, spans)
            return end

    def note_time(self, time: int, *, key: str | None = None) -> None:
        """Note that no event with a time below `time` will be appended from here on.

        The position and the largest event time of what was appended go along. Raises `InvalidNote`
        where time goes back, `Rejected` where there is no client.
        """
        if self.client is None:
            message = f"this writer of {self.stream!r} was made without a client to note by"
            raise Rejected(message)
        with self._lock:
            self.client.note_time(time, self._position, key=key, max_time=self._largest.get(key))
            self._noted[key] = time

    def _join(self) -> None:
        """Be waited for before writing, as far as that is possible without waiting here."""
        if self.client is not None and self.client.state != "live":
            self.client.join()

    def _segment(self, segment: int | None) -> SegmentFiles:
        if segment is None and len(self._files) == 1:
            return next(iter(self._files.values()))
        if segment is None or segment not in self._files:
            opened = ", ".join(map(str, self._files))
            message = f"segment {segment} is not among those opened: {opened}"
            raise Rejected(message)
        return self._files[segment]

    def _track(self, segment: int, end: int, spans: Mapping[str | None, Span]) -> None:
        self._position[segment] = end
        for key, span in spans.items():
            self._largest[key] = max(span.largest, self._largest.get(key, span.largest))
            if self.client is not None:
                self.client.wrote(span.largest, key=key, position=self._position)

    def _count_late(self, table: pa.Table, spans: Mapping[str | None, Span]) -> None:
        for key, span in spans.items():
            noted = self._noted.get(key)
            if noted is not None and span.least < noted:
                self._late_rows += count_below(table, self._columns[key], noted)


def _columns(event_time: str | Mapping[str, str]) -> dict[str | None, str]:
    if isinstance(event_time, str):
        return {None: event_time}
    return {key: column for key, column in event_time.items()}  # noqa: C416 - widens the key's type
