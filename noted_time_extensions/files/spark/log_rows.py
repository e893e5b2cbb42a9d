"""Reads rows of Parquet files as Arrow batches of a schema."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from noted_time import Rejected
from noted_time.extending import LogPath, parse_root, store_of
from noted_time_extensions.files.layout import UnreadableFile
from noted_time_extensions.files.spark.admission import Slice
from noted_time_extensions.files.spark.forms import EventTimeReader, SliceForm
from noted_time_extensions.files.spark.late_rows import LATE_COLUMN, are_late
from noted_time_extensions.files.spark.log_files import LogFiles, is_ours
from noted_time_extensions.files.spark.query import LogQuery
from spark_integration.extending import INSTANT_TYPE, MARK_TIME, TimeRange, build_instant

ROWS_A_BATCH = 262_144
TIME_TYPES = (TimestampType, TimestampNTZType, DateType, NumericType, StringType)


ADDED_COLUMNS: Mapping[str, tuple[DataType, str]] = {
    MARK_TIME: (TimestampType(), "the marks"),
    LATE_COLUMN: (BooleanType(), "the flag of late rows"),
}


def build_scan_schema(query: LogQuery, events: StructType | None = None) -> StructType:
    """Return the schema of a query's source; by default events have the log's.

    Columns are nullable, for the row of a mark. Metadata is dropped, as it may have a watermark.
    """
    event_time = query.event_time
    if events is None:
        files = LogFiles(parse_root(query.root), query.stream, ignore=query.ignore)
        log_schema = read_log_schema(files, event_time, query.column_names)
    else:
        log_schema = convert_schema(events, event_time, "the schema")
    fields = [(field.name, field.dataType) for field in log_schema.fields]
    for name in list_added_columns(query):
        kind, owner = ADDED_COLUMNS[name]
        if name in log_schema.names:
            raise Rejected(f"column {name} of the log is taken by {owner}")
        fields.append((name, kind))
    return StructType([StructField(name, kind, nullable=True) for name, kind in fields])


def list_added_columns(query: LogQuery) -> tuple[str, ...]:
    if query.columns.late == "keep":
        return (MARK_TIME, LATE_COLUMN)
    return (MARK_TIME,)


def read_log_schema(
    files: LogFiles, event_time: str | None, columns: Sequence[str] = ()
) -> StructType:
    for file in chain.from_iterable(files.refresh(is_checked=False).values()):
        return read_file_schema(file.path, event_time, columns)
    files.refresh()
    raise Rejected(f"no file yet in {files.root / files.stream}: pass the schema, or write first")


def read_file_schema(
    path: LogPath, event_time: str | None, columns: Sequence[str] = ()
) -> StructType:
    schema = pq.read_schema(store_of(path).open(path))
    names = list(columns) if columns else schema.names
    missing = set(names) - set(schema.names)
    if missing:
        raise Rejected(f"{path} has no column {', '.join(sorted(missing))}")
    arrow_schema = pa.schema([schema.field(name) for name in names])
    return convert_schema(from_arrow_schema(arrow_schema.remove_metadata()), event_time, str(path))


def convert_schema(events: StructType, event_time: str | None, source_name: str) -> StructType:
    if event_time is not None and event_time not in events.names:
        column_names = ", ".join(events.names)
        raise Rejected(
            f"{source_name} has no column {event_time}, the event time; it has {column_names}"
        )
    return StructType([_convert_field(field, event_time, source_name) for field in events.fields])


def _convert_field(field: StructField, event_time: str | None, source_name: str) -> StructField:
    kind = field.dataType
    if field.name == event_time:
        if not isinstance(kind, TIME_TYPES):
            raise Rejected(
                f"column {field.name} of {source_name} is {kind.simpleString()}: an event time is "
                "a timestamp, a number or text"
            )
        kind = TimestampType()
    return StructField(field.name, kind, nullable=True)


@dataclass(frozen=True, slots=True)
class LogTask(InputPartition):
    """The rows of a task, and the mark after them, if any.

    Rows with a time below `late_below`, the lower applied before, are late.
    """

    work: tuple[Slice, ...]
    times: TimeRange
    mark_ms: int | None = None
    late_below: int | None = None


@dataclass(frozen=True, slots=True)
class RowShape:
    """The schema of the batches, with the `added` columns at its end."""

    schema: StructType
    event_time: str
    added: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        return [name for name in self.schema.names if name not in self.added]

    def to_arrow(self) -> pa.Schema:
        return to_arrow_schema(self.schema, timezone="UTC")

    def read_task(self, task: LogTask) -> Iterator[pa.RecordBatch]:
        events = self.read_events(task.work, task.late_below)
        yield from task.times.filter_rows(events, self.event_time)
        if task.mark_ms is not None:
            yield self.build_mark(task.mark_ms)

    def read_events(
        self, work: Sequence[Slice], late_below: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        target = self.to_arrow()
        log_schema = pa.schema([target.field(name) for name in self.columns])
        for part in work:
            for batch in _read_slice(part, log_schema, self):
                columns = dict(zip(log_schema.names, batch.columns, strict=True))
                if MARK_TIME in self.added:
                    columns[MARK_TIME] = pa.nulls(batch.num_rows, INSTANT_TYPE)
                if LATE_COLUMN in self.added:
                    columns[LATE_COLUMN] = are_late(columns[self.event_time], late_below)
                arrays = [columns[name] for name in target.names]
                yield pa.RecordBatch.from_arrays(arrays, schema=target)

    def build_mark(self, time_ms: int) -> pa.RecordBatch:
        """Set the event time, too: a window aggregate filters nulls below the watermark."""
        target = self.to_arrow()
        times = {self.event_time, MARK_TIME}
        columns: list[pa.Array] = []
        for field in target:
            if field.name in times:
                columns.append(build_instant(time_ms))
            else:
                columns.append(pa.nulls(1, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=target)


def _read_slice(work: Slice, target: pa.Schema, shape: RowShape) -> Iterator[pa.RecordBatch]:
    path = parse_root(work.path)
    form = work.form or SliceForm(shape.event_time, "")
    try:
        source = store_of(path).open(path, work.version)
        # an object's row group is read by few requests, and alone, as it is buffered
        with pq.ParquetFile(source, memory_map=True, pre_buffer=work.version is not None) as file:
            times = EventTimeReader(form, is_ours(file.metadata))
            groups, first, last = _find_row_groups(file.metadata, work)
            runs = [groups] if work.version is None else [[group] for group in groups]
            batches = chain.from_iterable(
                file.iter_batches(
                    ROWS_A_BATCH, row_groups=run, columns=target.names, use_threads=False
                )
                for run in runs
            )
            for batch in _slice_batches(batches, first, last):
                yield _cast_batch(batch, target, times)
            times.report(path)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise UnreadableFile(path, _explain_failure(path, error)) from error


def _explain_failure(path: LogPath, error: Exception) -> str:
    host = socket.gethostname()
    if not isinstance(error, FileNotFoundError):
        return f"{error} (host {host})"
    if not isinstance(path, Path) or path.parent.is_dir():
        return f"was deleted after it was listed, while host {host} sees its directory"
    return (
        f"host {host} does not see {path.parent}: the log's root must be a path under which driver "
        "and workers see the same files"
    )


def _find_row_groups(metadata: pq.FileMetaData, work: Slice) -> tuple[list[int], int, int]:
    """Return the row groups of a slice, and where it begins and ends in their rows."""
    groups: list[int] = []
    first_begin = 0
    begin = 0
    for index in range(metadata.num_row_groups):
        end = begin + metadata.row_group(index).num_rows
        if begin < work.last and end > work.first:
            if not groups:
                first_begin = begin
            groups.append(index)
        begin = end
    return groups, work.first - first_begin, work.last - first_begin


def _slice_batches(
    batches: Iterator[pa.RecordBatch], first: int, last: int
) -> Iterator[pa.RecordBatch]:
    rows_passed = 0
    for batch in batches:
        begin = max(first - rows_passed, 0)
        end = min(last - rows_passed, batch.num_rows)
        rows_passed += batch.num_rows
        if begin < end:
            yield batch.slice(begin, end - begin)


def _cast_batch(batch: pa.RecordBatch, target: pa.Schema, times: EventTimeReader) -> pa.RecordBatch:
    columns = []
    for field in target:
        column = batch.column(field.name)
        if field.name == times.form.column:
            column = times.read(column)
        columns.append(_cast_column(column, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _cast_column(column: pa.Array, target_type: pa.DataType) -> pa.Array:
    if column.type == target_type:
        return column
    # instants finer than Spark's are truncated; any other loss is an error
    is_finer = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
    return column.cast(target_type, safe=not is_finer)
