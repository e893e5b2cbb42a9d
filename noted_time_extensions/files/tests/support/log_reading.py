"""Plans and reads batches of the file log's source, without a Spark session."""

from typing import Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from noted_time_extensions.files.spark.late_rows import LATE_COLUMN
from noted_time_extensions.files.spark.log_files import CutRange
from noted_time_extensions.files.spark.log_source import LogReader, LogSource
from noted_time_extensions.files.spark.options import Option
from noted_time_extensions.files.spark.query import OPTION_FIELDS, LogQuery
from noted_time_extensions.files.spark.window_source import CompleteSource, WindowQuery
from spark_integration import BatchRead, Noted
from spark_integration.marks.offset import NotedOffset, StreamOffset
from spark_integration.marks.reader_options import choose_options
from spark_integration.marks.watermark import MARK_TIME
from spark_integration.marks.window import OnMissing, wait_for_window
from spark_integration.session.sources import build_options
from tests.support.bundles import take_noted
from tests.support.noted_stream import INSTANT, NotedStream


class Batch(NamedTuple):
    """A micro-batch: its end, the (time in ms, name) of its rows, and its watermark.

    `late` are the times of rows marked late.
    """

    end: NotedOffset
    rows: list[tuple[int, str]]
    watermark: int | None
    late: list[int]

    @property
    def read(self) -> StreamOffset:
        """How far the log's only stream is read."""
        (stream_offset,) = self.end.streams.values()
        return stream_offset


def build_query(stream: NotedStream, *options: Option, **asked: Any) -> LogQuery:  # noqa: ANN401
    chosen_options = {"event_time": "time", **asked}
    noted_stream = take_noted(chosen_options, stream.server.url, stream.name)
    chosen_options |= choose_options(options, OPTION_FIELDS)
    return LogQuery(str(stream.root), noted_stream.name, noted_stream.controller, **chosen_options)


def open_reader(query: LogQuery) -> LogReader:
    source = LogSource(build_options(query))
    return source.streamReader(source.schema())


def read_batches(query: LogQuery, start: NotedOffset | None = None) -> list[Batch]:
    """Return the batches from `start` on, each after a restart."""
    begin = start or query.beginning
    batches = list[Batch]()
    while True:
        reader = open_reader(query)
        try:
            planned_offset = reader.latestOffset(begin.to_json(), reader.getDefaultReadLimit())
        finally:
            reader.stop()
        end = replace(NotedOffset.from_json(planned_offset), run=0)
        if end == begin:
            return batches
        batches.append(replay_batch(query, begin, end))
        begin = end


def plan_run(query: LogQuery, start: NotedOffset | None = None) -> list[NotedOffset]:
    """Return the ends of the batches of one run."""
    reader = open_reader(query)
    offsets = list[NotedOffset]()
    end = (start or query.beginning).to_json()
    try:
        while (following := reader.latestOffset(end, reader.getDefaultReadLimit())) != end:
            end = following
            offsets.append(NotedOffset.from_json(end))
    finally:
        reader.stop()
    return offsets


def replay_batch(query: LogQuery, begin: NotedOffset, end: NotedOffset) -> Batch:
    """Return a batch that was planned before, read by a run that asks for no marks."""
    reader = open_reader(query)
    rows = list[tuple[int, str]]()
    watermark = None
    late = list[int]()
    for task in reader.partitions(begin.to_json(), end.to_json()):
        for record_batch in reader.read(task):
            names = _read_column(record_batch, "name", default="")
            flags = _read_column(record_batch, LATE_COLUMN, default=False)
            times = _ms(record_batch["time"])
            marks = _ms(record_batch[MARK_TIME])
            for time, name, is_late, mark in zip(times, names, flags, marks, strict=True):
                if mark is not None:
                    watermark = mark
                    continue
                rows.append((time, name))
                if is_late:
                    late.append(time)
    return Batch(end, sorted(rows), watermark, sorted(late))


def read_window(
    stream: NotedStream,
    start: int,
    end: int,
    *,
    late: OnMissing = "warn",
    **options: Any,  # noqa: ANN401
) -> tuple[list[str], list[str], int]:
    """Return the names of a complete window's rows, its columns, and how many rows are read."""
    noted_stream = Noted(stream.name, controller=stream.server.url)
    batch_read = BatchRead(**options)
    window = wait_for_window(noted_stream, start, end, domain=None, read=batch_read, late=late)
    between = CutRange(window.from_cut.offsets, window.to_cut.offsets, "time")
    place = str(stream.root), stream.name
    query = WindowQuery(*place, start, end, between, bool(batch_read.own_segments))
    source = CompleteSource(build_options(query))
    reader = source.reader(source.schema())
    tasks: Any = reader.partitions()
    names: list[str] = []
    row_count = 0
    for task in tasks:
        for batch in reader.read(task):
            names += batch["name"].to_pylist()
        for file_slice in task.work:
            row_count += file_slice.rows
    return sorted(names), source.schema().names, row_count


def _read_column(batch: pa.RecordBatch, column: str, *, default: object) -> list[Any]:
    """Return the values of a column, or the default for each row if there is none."""
    if column not in batch.schema.names:
        return [default] * batch.num_rows
    values: list[Any] = batch[column].to_pylist()
    return values


def _ms(instants: pa.Array) -> list[Any]:
    """Return the Unix ms of instants, also beyond Python's `datetime`."""
    return list(instants.cast(INSTANT, safe=False).cast(pa.int64()).to_pylist())
