"""Converts rows to Arrow tables, and reads event times from them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noted_time import Rejected
from noted_time.extending import MAX_INT64, MIN_INT64, LateRows, LogPath, group_late_rows, store_of
from noted_time_extensions.files.layout import UnreadableFile, explain_damage

Rows = Any  # a pandas DataFrame, an Arrow table, an Arrow C stream, or a list of dicts

_TICKS_PER_MS = {"us": 1_000, "ns": 1_000_000}
_UNIT_NAMES = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the largest event time of some rows, in ms, rounded outwards."""

    least: int
    largest: int


def as_table(rows: Rows, schema: pa.Schema | None) -> pa.Table:
    table = cast_seconds_to_ms(_build_table(rows, schema))
    check_schema(table.schema, schema)
    return table if schema is None else table.select(schema.names)


def check_zones(rows: Rows, columns: Iterable[str], schema: pa.Schema | None) -> None:
    """Raise `Rejected` for event times without a zone, unless the schema's column has none."""
    for column in columns:
        if _declares_no_zone(schema, column):
            continue
        if _has_naive_times(rows, column):
            raise Rejected(
                f"event-time column {column!r} has no time zone: make it aware, with tzinfo=UTC or "
                ".dt.tz_localize(...), or, if it is UTC, give the segment a schema without a zone"
            )


def _has_naive_times(rows: Rows, column: str) -> bool:
    if _is_pandas(rows):
        if column not in rows:
            return False
        kind = rows[column].dtype
        return getattr(kind, "kind", "") == "M" and getattr(kind, "tz", None) is None
    return isinstance(rows, Sequence) and any(_is_naive(row, column) for row in rows)


def check_schema(schema: pa.Schema, segment_schema: pa.Schema | None) -> None:
    if segment_schema is not None:
        _check_differences(_find_differences(schema, segment_schema))


def _check_differences(differences: Sequence[str]) -> None:
    if differences:
        raise Rejected(f"the rows differ from the segment's schema: {'; '.join(differences)}")


def find_span(table: pa.Table, column: str) -> Span:
    """Return the span of an event-time column: int64 ms, or a timestamp, by default in UTC."""
    if column not in table.column_names:
        raise Rejected(f"no event-time column {column!r} among {', '.join(table.column_names)}")
    values = table.column(column)
    if values.null_count:
        raise Rejected(f"event-time column {column!r} has {values.null_count} nulls")
    per_ms = _find_ticks_per_ms(column, values.type)
    ends = pc.min_max(pc.cast(values, pa.int64())).as_py()
    return _build_span(ends["min"], ends["max"], per_ms)


def _build_span(first_tick: int, last_tick: int, per_ms: int) -> Span:
    largest_up = -(-last_tick // per_ms)
    return Span(first_tick // per_ms, largest_up)


@contextmanager
def open_parquet(path: LogPath, *, may_be_gone: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file, or raise `Rejected` if it is incomplete.

    With `may_be_gone`, raises `FileNotFoundError` for a missing file.
    """
    try:
        with pq.ParquetFile(store_of(path).open(path)) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        if may_be_gone and isinstance(error, FileNotFoundError):
            raise
        raise UnreadableFile(path, explain_damage(error)) from error


def read_span(file: pq.ParquetFile, column: str) -> Span | None:
    """Return the span of a column, `None` without times."""
    if column not in file.schema_arrow.names:
        return None
    per_ms = _find_ticks_per_ms(column, file.schema_arrow.field(column).type)
    ticks: list[int] = []
    for group in range(file.num_row_groups):
        ticks += _read_span_of_group(file, group, column)
    if not ticks:
        return None
    return _build_span(min(ticks), max(ticks), per_ms)


def count_nulls(file: pq.ParquetFile, column: str) -> int | None:
    """Return the nulls of a column, `None` if the footer does not say."""
    nulls = 0
    for group in range(file.num_row_groups):
        statistics = _find_statistics(file, group, column)
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
    return nulls


def _find_statistics(file: pq.ParquetFile, group: int, column: str) -> pq.Statistics | None:
    metadata = file.metadata.row_group(group)
    for index in range(metadata.num_columns):
        chunk = metadata.column(index)
        if chunk.path_in_schema == column:
            return chunk.statistics
    return None


def _read_span_of_group(file: pq.ParquetFile, group: int, column: str) -> list[int]:
    """Return ticks with the least and the largest of a row group, none without times."""
    kind = file.schema_arrow.field(column).type
    statistics = _find_statistics(file, group, column)
    if statistics is not None and statistics.has_min_max and _is_stored_as(kind, statistics):
        return [int(statistics.min_raw), int(statistics.max_raw)]
    ticks: list[int] = []
    for batch in file.iter_batches(row_groups=[group], columns=[column]):
        ends = pc.min_max(pc.cast(batch.column(0), pa.int64())).as_py()
        if ends["min"] is not None:
            ticks += [ends["min"], ends["max"]]
    return ticks


def _is_stored_as(kind: pa.DataType, statistics: pq.Statistics) -> bool:
    if statistics.physical_type != "INT64":
        return False
    logical_type = json.loads(statistics.logical_type.to_json())
    return bool(kind == pa.int64() or logical_type.get("timeUnit") == _UNIT_NAMES.get(kind.unit))


def find_late_rows(table: pa.Table, column: str, time: int) -> list[LateRows]:
    values = table.column(column)
    per_ms = _find_ticks_per_ms(column, values.type)
    ticks = pc.cast(values, pa.int64())
    # floor(ticks / per_ms) < time exactly if ticks < time * per_ms
    bound = min(max(time * per_ms, MIN_INT64), MAX_INT64)
    late_ticks = pc.filter(ticks, pc.less(ticks, pa.scalar(bound, pa.int64()))).to_pylist()
    return group_late_rows(tick // per_ms for tick in late_ticks)


def _find_ticks_per_ms(column: str, kind: pa.DataType) -> int:
    if kind == pa.int64():
        return 1
    if pa.types.is_timestamp(kind):
        return _TICKS_PER_MS.get(kind.unit, 1)
    raise Rejected(f"event-time column {column!r} is {kind}, neither int64 (ms) nor a timestamp")


def _declares_no_zone(schema: pa.Schema | None, column: str) -> bool:
    if schema is None or column not in schema.names:
        return False
    kind = schema.field(column).type
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def _is_naive(row: object, column: str) -> bool:
    time = row.get(column) if isinstance(row, dict) else None
    return isinstance(time, datetime) and time.tzinfo is None


def _is_pandas(rows: Rows) -> bool:
    """Check without importing pandas, which another thread may be importing."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return frame is not None and isinstance(rows, frame)


def _build_table(rows: Rows, schema: pa.Schema | None) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if _is_pandas(rows):
        return _convert_pandas(rows, schema)
    if hasattr(rows, "__arrow_c_stream__") or isinstance(rows, pa.RecordBatch):
        return pa.table(rows)
    if isinstance(rows, Sequence) and all(isinstance(row, dict) for row in rows):
        return _convert_dicts(rows, schema)
    kind = type(rows).__name__
    raise Rejected(f"rows are {kind}, neither a DataFrame, nor an Arrow table, nor a list of dicts")


def cast_seconds_to_ms(table: pa.Table) -> pa.Table:
    """Cast seconds, which Parquet cannot store."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "s":
            kind = pa.timestamp("ms", field.type.tz)
            table = table.set_column(index, field.with_type(kind), table.column(index).cast(kind))
    return table


def _convert_pandas(frame: Rows, schema: pa.Schema | None) -> pa.Table:
    """Cast to the segment's types where this is lossless, as pandas has fewer types."""
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame = frame.rename(columns=str)
    if schema is not None:
        missing = [f"column {name} is missing" for name in schema.names if name not in frame]
        unknown = [f"no column {name}" for name in frame.columns if name not in schema.names]
        _check_differences(unknown + missing)
    try:
        table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise Rejected(f"the rows have no common form: {error}") from error
    return table.replace_schema_metadata(None)


def _convert_dicts(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None) -> pa.Table:
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    column_names = schema.names if schema is not None else list(names)
    unknown = [name for name in names if name not in column_names]
    if unknown:
        raise Rejected(f"the rows differ from the segment's schema: no column {', '.join(unknown)}")
    try:
        columns = {}
        for name in column_names:
            columns[name] = [row.get(name) for row in rows]
        return pa.table(columns, schema=schema)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise Rejected(f"the rows have no common form: {error}") from error


def _find_differences(schema: pa.Schema, segment_schema: pa.Schema) -> list[str]:
    types = {field.name: field.type for field in schema}
    differences = [f"no column {name}" for name in types if name not in segment_schema.names]
    for field in segment_schema:
        if field.name not in types:
            differences.append(f"column {field.name} is missing")
        elif types[field.name] != field.type:
            differences.append(f"column {field.name} is {types[field.name]}, not {field.type}")
    return differences
