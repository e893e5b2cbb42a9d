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
from noted_time.values import UNIX_MS, Rejected, counted
from noted_time_cli.analyse.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from noted_time_cli.analyse.columns import FileColumns

FORMATS = ("parquet", "csv")
TO_MS = {"s": 1000, "ms": 1}
"""The units of times that are integers."""


def of_files(pattern: str, columns: FileColumns, partition: str | None, most: int) -> Rows:
    """Read what matches a pattern; raises `Rejected` for columns and files that cannot be used."""
    named = glob(pattern, recursive=True)  # noqa: PTH207 - of an absolute pattern, too
    files = sorted(Path(each) for each in named if Path(each).is_file())
    if not files:
        raise Rejected(f"no file matches {pattern!r}: quote the pattern, and check where it begins")
    return _rows([(0, file) for file in files], columns, partition, most)


def of_log(root: Path, stream: str, columns: FileColumns, most: int) -> Rows:
    """Read a file log, each segment in the order of its offsets; raises as `of_files`."""
    files = [*_files(root, stream)]
    if not files:
        raise Rejected(f"the file log {root} has no rows of {stream!r}: check both names")
    return _rows(files, columns, None, most)


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
    files: Sequence[tuple[int, Path]], columns: FileColumns, partition: str | None, most: int
) -> Rows:
    """Return the rows of files, each of a partition or with one in a column."""
    given = (columns.time, columns.arrival, partition, columns.who)
    wanted = [each for each in given if each is not None]
    tables = [_table(file, wanted) for _, file in files]
    numbers = np.repeat([number for number, _ in files], [len(table) for table in tables])
    table = pa.concat_tables(tables, promote_options="permissive")
    times = _times(table, columns.time, columns.unit)
    kept = np.flatnonzero(pc.is_valid(times).to_numpy())
    without = len(table) - len(kept)
    if not len(kept):
        raise Rejected(f"no row has a value in {columns.time!r}: name another column with --time")
    said = [*_doubts(int(pc.min(times).as_py()), columns)]
    came = None
    if columns.arrival is not None:
        came = _times(table, columns.arrival, columns.unit)
        if came.null_count:
            raise Rejected(f"{came.null_count:,} rows have no {columns.arrival}: leave it out")
        said.append(f"Rows came in as {columns.arrival} says.")
    if len(kept) > most:
        said.append(
            f"The last {most:,} of {counted(len(kept), 'row')} are judged; --records takes more."
        )
        kept = kept[-most:]
    return Rows(
        columns.time,
        _values(times)[kept],
        (numbers if partition is None else _names(table, partition))[kept],
        None if came is None else _values(came)[kept],
        columns.who,
        None if columns.who is None else _names(table, columns.who)[kept],
        without,
        said,
    )


def _doubts(least: int, columns: FileColumns) -> Iterator[str]:
    """Yield what is odd about times that are taken as Unix ms."""
    if least not in UNIX_MS and columns.unit == "ms":
        shown = np.datetime64(least, "ms")
        yield (
            f"{columns.time} begins at {least}, in Unix ms {shown}Z: if it is in seconds, add "
            "--unit s."
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
