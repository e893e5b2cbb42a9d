"""How rows become one Arrow table fit for a segment, and what their event times are in ms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from noted_time.cut import MAX_INT64, MIN_INT64
from noted_time.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

Rows = Any
"""A `pyarrow.Table`, a `pyarrow.RecordBatch`, or a sequence of dicts: column → value."""

_PER_MS = {"us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the largest event time of some rows, in ms.

    Finer timestamps are rounded so that the span holds them all: down and up.
    """

    least: int
    largest: int


def as_table(rows: Rows, schema: pa.Schema | None) -> pa.Table:
    """Return the rows as a table, in the segment's `schema` where it has one.

    Raises `Rejected` where the rows have other columns, other types, or no common form at all.
    """
    table = storable(_table(rows, schema))
    check_schema(table.schema, schema)
    return table if schema is None else table.select(schema.names)


def check_schema(found: pa.Schema, wanted: pa.Schema | None) -> None:
    """Raise `Rejected` where rows of the schema `found` do not belong to the segment's."""
    differences = [] if wanted is None else _differences(found, wanted)
    if differences:
        message = f"the rows differ from the segment's schema: {'; '.join(differences)}"
        raise Rejected(message)


def span_of(table: pa.Table, column: str) -> Span:
    """Return the span of an event-time column.

    Raises `Rejected` where the column is missing, holds nulls, or is neither int64 (taken as ms)
    nor a timestamp (any unit; without a zone it is UTC).
    """
    if column not in table.column_names:
        message = f"no event-time column {column!r} among {', '.join(table.column_names)}"
        raise Rejected(message)
    values = table.column(column)
    if values.null_count:
        message = f"event-time column {column!r} has {values.null_count} nulls"
        raise Rejected(message)
    ends = pc.min_max(values)
    unit = _unit(column, values.type)
    least, largest = (pc.cast(ends[end], pa.int64()).as_py() for end in ("min", "max"))
    per_ms = _PER_MS.get(unit, 1)
    return Span(least // per_ms, -(-largest // per_ms))


def count_below(table: pa.Table, column: str, time: int) -> int:
    """Return how many rows have an event time below `time` (ms)."""
    values = table.column(column)
    unit = _unit(column, values.type)
    ticks = pc.cast(values, pa.int64())
    # floor(ticks / per_ms) < time exactly where ticks < time * per_ms
    bound = min(max(time * _PER_MS.get(unit, 1), MIN_INT64), MAX_INT64)
    return int(pc.sum(pc.less(ticks, pa.scalar(bound, pa.int64()))).as_py())


def _unit(column: str, kind: pa.DataType) -> str:
    if kind == pa.int64():
        return "ms"
    if pa.types.is_timestamp(kind):
        return str(kind.unit)
    message = f"event-time column {column!r} is {kind}, neither int64 (ms) nor a timestamp"
    raise Rejected(message)


def _table(rows: Rows, schema: pa.Schema | None) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, Sequence) and all(isinstance(row, dict) for row in rows):
        return _from_dicts(rows, schema)
    message = f"rows are {type(rows).__name__}, not a Table, a RecordBatch or a list of dicts"
    raise Rejected(message)


def storable(table: pa.Table) -> pa.Table:
    """Return the table with what Parquet has no seconds for in ms, as it would be read back."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "s":
            kind = pa.timestamp("ms", field.type.tz)
            table = table.set_column(index, field.with_type(kind), table.column(index).cast(kind))
    return table


def _from_dicts(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    known = schema.names if schema is not None else list(names)
    unknown = [name for name in names if name not in known]
    if unknown:
        message = f"the rows differ from the segment's schema: no column {', '.join(unknown)}"
        raise Rejected(message)
    try:
        columns = {name: [row.get(name) for row in rows] for name in known}
        return pa.table(columns, schema=schema)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        message = f"the rows have no common form: {error}"
        raise Rejected(message) from error


def _differences(found: pa.Schema, wanted: pa.Schema) -> list[str]:
    types = {field.name: field.type for field in found}
    said = [f"no column {name}" for name in types if name not in wanted.names]
    for field in wanted:
        if field.name not in types:
            said.append(f"column {field.name} is missing")
        elif types[field.name] != field.type:
            said.append(f"column {field.name} is {types[field.name]}, not {field.type}")
    return said
