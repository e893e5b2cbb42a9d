"""Rows of Parquet or CSV files, and of a file log."""

from __future__ import annotations

import time
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from noted_time.filelog import LogDirectories
from noted_time.values import UNIX_MS, Rejected
from noted_time_cli.analyse.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

FORMATS = ("parquet", "csv")
TO_MS = {"s": 1000, "ms": 1}
"""The units of times that are integers."""


def of_files(  # noqa: PLR0913 - one parameter for each flag
    pattern: str,
    column: str,
    *,
    arrival: str | None,
    partition: str | None,
    who: str | None,
    unit: str,
    most: int,
) -> Rows:
    """Read what matches a pattern; raises `Rejected` for columns and files that cannot be used."""
    named = glob(pattern, recursive=True)  # noqa: PTH207 - of an absolute pattern, too
    files = sorted(each for each in named if Path(each).is_file())
    if not files:
        raise Rejected(f"no file matches {pattern!r}: quote the pattern, and check where it begins")
    wanted = [each for each in (column, arrival, partition, who) if each is not None]
    tables = [(0, _table(Path(each), wanted)) for each in files]
    return _rows(tables, (column, arrival, partition, who), unit, most)


def of_log(  # noqa: PLR0913 - one parameter for each flag
    root: Path,
    stream: str,
    column: str,
    *,
    arrival: str | None,
    who: str | None,
    unit: str,
    most: int,
) -> Rows:
    """Read a file log, each segment in the order of its offsets; raises as `of_files`."""
    wanted = [each for each in (column, arrival, who) if each is not None]
    tables = [(number, _table(path, wanted)) for number, path in _files(root, stream)]
    if not tables:
        raise Rejected(f"the file log {root} has no rows of {stream!r}: check both names")
    return _rows(tables, (column, arrival, None, who), unit, most)


def _files(root: Path, stream: str) -> Iterator[tuple[int, Path]]:
    for number, segment in LogDirectories(root, stream, time.monotonic).segments().items():
        for _, new in segment.changed():
            yield from ((number, segment.path / name) for name in new)


def _table(file: Path, columns: Iterable[str]) -> pa.Table:
    kind = file.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise Rejected(
            f"{file} is neither Parquet nor CSV: its name has to end in .parquet or .csv"
        )
    try:
        found = ds.dataset(file, format=kind, partitioning=None)
        for each in columns:
            if each not in found.schema.names:
                there = ", ".join(found.schema.names)
                raise Rejected(f"{file} has no column {each!r}; it has {there}")
        return found.to_table(columns=list(dict.fromkeys(columns)))
    except (pa.ArrowException, OSError) as error:
        raise Rejected(f"{file} cannot be read: {error}") from error


def _rows(
    tables: list[tuple[int, pa.Table]],
    columns: tuple[str, str | None, str | None, str | None],
    unit: str,
    most: int,
) -> Rows:
    column, arrival, partition, who = columns
    numbers = np.repeat([number for number, _ in tables], [len(table) for _, table in tables])
    table = pa.concat_tables([table for _, table in tables], promote_options="permissive")
    times = _times(table, column, unit)
    has_time = pc.is_valid(times).to_numpy()
    without = len(table) - int(np.count_nonzero(has_time))
    if without == len(table):
        raise Rejected(f"no row has a value in {column!r}: name another column with --time")
    said = []
    least = int(pc.min(times).as_py())
    if least not in UNIX_MS and unit == "ms":
        said.append(
            f"{column} begins at {least}, in Unix ms {np.datetime64(least, 'ms')}Z: if it is in "
            "seconds, add --unit s."
        )
    came = None if arrival is None else _times(table, arrival, unit)
    if came is not None and came.null_count:
        raise Rejected(f"{came.null_count:,} rows have no {arrival}: leave --arrival out")
    if partition is not None:
        numbers = _names(table, partition)
    whose = None if who is None else _names(table, who)
    kept = np.flatnonzero(has_time)
    if len(kept) > most:
        kept = kept[-most:]
        said.append(f"Only the last {most:,} rows are judged: --records takes more.")
    if came is not None:
        said.append(f"Rows came in as {arrival} says.")
    return Rows(
        column,
        _values(times)[kept],
        numbers[kept],
        None if came is None else _values(came)[kept],
        who,
        None if whose is None else whose[kept],
        without,
        said,
    )


def _times(table: pa.Table, column: str, unit: str) -> pa.ChunkedArray:
    """Return the times of a column in Unix ms, rounded down."""
    values = table.column(column)
    if pa.types.is_string(values.type):
        try:
            values = pc.cast(values, pa.timestamp("us", "UTC"))
        except pa.ArrowException:
            raise Rejected(f"{column!r} is text that is no time: {values[0].as_py()!r}") from None
    if pa.types.is_timestamp(values.type):
        return pc.cast(pc.cast(values, pa.timestamp("ms", values.type.tz), safe=False), pa.int64())
    if not pa.types.is_integer(values.type):
        raise Rejected(f"{column!r} is {values.type}: times are timestamps, or integers (--unit)")
    return pc.multiply_checked(pc.cast(values, pa.int64()), TO_MS[unit])


def _names(table: pa.Table, column: str) -> NDArray[Any]:
    return np.asarray(pc.cast(table.column(column), pa.string()).fill_null("-").to_numpy(), str)


def _values(times: pa.ChunkedArray) -> NDArray[np.int64]:
    found: NDArray[np.int64] = times.fill_null(0).to_numpy()
    return found
