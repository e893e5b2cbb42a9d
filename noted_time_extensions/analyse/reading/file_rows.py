"""Read rows from files or a file log."""

from __future__ import annotations

import io
import time
from collections import deque
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import typer
from pyarrow.json import ParseOptions, read_json

from noted_time.extending import (
    FIRST_TIMES,
    LogPath,
    ObjectPath,
    Rejected,
    TimeForm,
    Unreadable,
    find_arrival,
    parse_root,
    pluralize,
    store_of,
)
from noted_time_extensions.analyse.reading.file_orders import find_order_doubt, sort_files
from noted_time_extensions.analyse.reading.rows import Rows
from noted_time_extensions.analyse.reading.table_folders import refuse_tables
from noted_time_extensions.files.extending import (
    ArrowTimes,
    LogDirectories,
    convert_times,
    list_first,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from noted_time_extensions.analyse.reading.columns import FileColumns, FileOrder

LINES_BYTES = 8 << 20
FILE_FORMATS = {"parquet": "parquet", "csv": "csv", "jsonl": "json", "json": "json"}
NAME_ENDINGS = ".parquet, .csv, .csv.gz, .jsonl, .jsonl.gz, .json or .json.gz"


def read_files(  # noqa: PLR0913, PLR0917 - one for each flag
    pattern: str,
    columns: FileColumns,
    form: TimeForm,
    partition: str | None,
    max_rows: int,
    order: FileOrder | None,
) -> Rows:
    if "://" in pattern:
        remedy = "copy them, or use `analyse log` for a file log"
        raise Unreadable(f"{pattern!r} is a URL, but the files are read here: {remedy}")
    matches = glob(pattern, recursive=True)  # noqa: PTH207 - of an absolute pattern, too
    paths = [Path(match) for match in matches]
    files = sort_files([path for path in paths if path.is_file()], order)
    if not files and paths:
        inside = Path(pattern, "*.parquet").as_posix()
        raise Rejected(f"{pattern!r} is a directory: name its files, for example {inside!r}")
    if not files:
        raise Rejected(f"no file matches {pattern!r}: quote the pattern, and check where it begins")
    refuse_tables(pattern, files)
    if len(files) > 1 and not (order or columns.arrival or partition):
        raise typer.BadParameter(
            f"the order in which these {len(files)} files came in is not known: name the column "
            "with the arrival time (--arrival COLUMN) or the partition (--partition COLUMN), or "
            "give --order name or --order modified"
        )
    rows = _read_rows([(0, 0, file) for file in files], columns, form, partition, max_rows)
    if order is None:
        return rows
    return replace(rows, order_doubt=find_order_doubt(files, order))


def open_log(root: str, stream: str, ignore: Sequence[str]) -> LogDirectories:
    return LogDirectories(parse_root(root), stream, time.monotonic, ignore)


def read_log(log: LogDirectories, columns: FileColumns, form: TimeForm, max_rows: int) -> Rows:
    files = log.list_all()
    log.check_names()
    if not files:
        raise Rejected(f"the file log {log.root} has no rows of {log.stream!r}: check both names")
    return _read_rows(files, columns, form, None, max_rows)


def _read_last_rows(file: LogPath, columns: list[str], max_rows: int) -> tuple[pa.Table, int]:
    """Return the last rows of a file, and how many are before them.

    Few rows are kept at a time, because a small file may have very many.
    """
    kind = FILE_FORMATS.get(file.name.lower().removesuffix(".gz").rpartition(".")[2])
    if kind is None:
        raise Rejected(f"{file} has an unknown format: its name has to end in {NAME_ENDINGS}")
    if isinstance(file, Path) and not file.stat().st_size:
        raise Rejected(f"{file} is empty: leave it out")
    last_batches: deque[pa.RecordBatch] = deque()
    row_count = 0
    dropped_count = 0
    try:
        schema, read_batches = _open_file(file, kind)
        for column in columns:
            if column not in schema.names:
                column_names = ", ".join(schema.names)
                raise Rejected(f"{file} has no column {column!r}; it has {column_names}")
        for batch in read_batches(columns=columns):
            last_batches.append(batch.select(columns))
            row_count += batch.num_rows
            while last_batches and row_count - dropped_count - last_batches[0].num_rows >= max_rows:
                dropped_count += last_batches.popleft().num_rows
    except (pa.ArrowException, OSError, KeyError) as error:
        raise Rejected(f"{file} cannot be read: {error}") from error
    read_schema = pa.schema([schema.field(column) for column in columns])
    table = pa.Table.from_batches(last_batches, read_schema)
    table = table.slice(max(0, table.num_rows - max_rows))
    if kind == "csv":
        table = _keep_as_text(table)
    return table, row_count - table.num_rows


def _open_file(file: LogPath, kind: str) -> tuple[pa.Schema, Callable[..., Iterator[Any]]]:
    """Return the schema, and a function that yields batches of columns."""
    if kind == "parquet" or isinstance(file, ObjectPath):
        parquet = pq.ParquetFile(store_of(file).open(file))
        return parquet.schema_arrow, parquet.iter_batches
    if kind == "json":
        return _open_json_lines(file)
    dataset = ds.dataset(file, format=kind)
    return dataset.schema, dataset.to_batches


def _open_json_lines(file: Path) -> tuple[pa.Schema, Callable[..., Iterator[Any]]]:
    """Keep dates as text, because pyarrow would read dates without a zone as UTC."""
    schemas = [_name_dates_text(read_json(lines).schema) for lines in _read_lines(file)]
    if not schemas:
        raise Rejected(f"{file} is empty")
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    options = ParseOptions(explicit_schema=schema)

    def read_batches(columns: list[str]) -> Iterator[pa.RecordBatch]:
        for lines in _read_lines(file):
            yield from read_json(lines, parse_options=options).select(columns).to_batches()

    return schema, read_batches


def _read_lines(file: Path) -> Iterator[io.BytesIO]:
    """Yield whole lines, about `LINES_BYTES` at a time."""
    rest = b""
    with pa.input_stream(file) as stream:
        while block := stream.read(LINES_BYTES):
            lines, end, rest = (rest + block).rpartition(b"\n")
            if lines.strip():
                yield io.BytesIO(lines + end)
    if rest.strip():
        yield io.BytesIO(rest)


def _name_dates_text(schema: pa.Schema) -> pa.Schema:
    fields = []
    for column in schema:
        is_date = pa.types.is_temporal(column.type)
        fields.append((column.name, pa.string() if is_date else column.type))
    return pa.schema(fields)


def _keep_as_text(table: pa.Table) -> pa.Table:
    for number, field in enumerate(table.schema):
        if pa.types.is_temporal(field.type) and getattr(field.type, "tz", None) is None:
            texts = pc.cast(table.column(number), pa.string())
            table = table.set_column(number, field.name, texts)
    return table


class LastRows(NamedTuple):
    """The last rows of several files, in their order.

    `places` has the place of each row's file. `earlier_count` counts the rows before them.
    """

    table: pa.Table
    segments: NDArray[np.int64]
    offsets: NDArray[np.int64]
    places: NDArray[np.int64]
    earlier_count: int


def _read_last_rows_of_files(
    files: Sequence[tuple[int, int, LogPath]], columns: list[str], max_rows: int
) -> LastRows:
    """Read files backwards, until there are `max_rows`."""
    tables: list[pa.Table] = []
    segments: list[NDArray[np.int64]] = []
    offsets: list[NDArray[np.int64]] = []
    file_numbers: list[NDArray[np.int64]] = []
    rows_left = max_rows
    earlier_count = 0
    for file_number, (segment, start, file) in reversed([*enumerate(files)]):
        table, rows_before = _read_last_rows(file, columns, rows_left)
        tables.insert(0, table)
        segments.insert(0, np.full(len(table), segment))
        offsets.insert(0, start + rows_before + np.arange(len(table)))
        file_numbers.insert(0, np.full(len(table), file_number))
        rows_left -= len(table)
        earlier_count += rows_before
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise Rejected(f"these files write a column in different forms: {error}") from error
    if not len(table):
        subject = f"{files[0][2]} has" if len(files) == 1 else f"these {len(files)} files have"
        raise Rejected(f"{subject} no rows: name files with rows")
    return LastRows(
        table,
        np.concatenate(segments),
        np.concatenate(offsets),
        np.concatenate(file_numbers),
        earlier_count,
    )


def _read_rows(
    files: Sequence[tuple[int, int, LogPath]],
    columns: FileColumns,
    form: TimeForm,
    partition: str | None,
    max_rows: int,
) -> Rows:
    """Read files, each given by its partition, start offset and path."""
    column_options = (columns.time, columns.arrival, partition, columns.who)
    column_names = list(dict.fromkeys(name for name in column_options if name is not None))
    table, segments, offsets, places, earlier_count = _read_last_rows_of_files(
        files, column_names, max_rows
    )
    arrivals = None
    arrival = _find_modification(files)
    if columns.arrival is not None:
        arrivals, *_ = _convert_times(table, columns.arrival, form, arrival)
        arrival = find_arrival(pc.drop_null(arrivals)[:FIRST_TIMES].to_pylist(), arrival)
    times, second_times, left_out = _convert_times(table, columns.time, form, arrival)
    row_numbers = np.flatnonzero(pc.is_valid(times).to_numpy())
    if not len(row_numbers):
        raise Rejected(f"no row has a value in {columns.time!r}: name another column with --time")
    notices = []
    for kind, number in left_out.items():
        notices.append(f"{pluralize(number, 'row')} left out, with {kind}.")
    if arrivals is not None:
        if arrivals.null_count:
            missing = f"{arrivals.null_count:,} rows have no {columns.arrival}"
            raise Rejected(f"{missing}: leave --arrival out, or remove these rows")
        notices.append(f"Rows came in as {columns.arrival} says.")
    if earlier_count:
        total = pluralize(earlier_count + len(table), "row")
        notices.append(f"The last {max_rows:,} of {total} are judged; --records takes more.")
    partitions = segments
    if partition is not None:
        partitions = _read_names(table, partition)
    rows = Rows(
        columns.time,
        _convert_values(times)[row_numbers],
        partitions[row_numbers],
        offsets[row_numbers],
        group_column=columns.who,
        without_time=len(table) - len(row_numbers) - left_out.total(),
        notices=notices,
        files=places[row_numbers],
    )
    if arrivals is not None:
        rows = replace(rows, arrivals=_convert_values(arrivals)[row_numbers])
    if columns.who is not None:
        rows = replace(rows, group_of_row=_read_names(table, columns.who)[row_numbers])
    if second_times is not times:
        rows = replace(rows, second=_convert_values(second_times)[row_numbers])
    return rows


def _find_modification(files: Sequence[tuple[int, int, LogPath]]) -> int:
    """Return when the newest local file was modified, in Unix ms, or now without any."""
    modification_times = []
    for _, _, file in files:
        if isinstance(file, Path):
            modification_times.append(file.stat().st_mtime_ns // 10**6)
    return max(modification_times, default=int(time.time() * 1000))


def _convert_times(table: pa.Table, column: str, form: TimeForm, arrival: int) -> ArrowTimes:
    values = table.column(column)
    first = list_first(values, column, form)
    return convert_times(values, column, form.judge(column, first, arrival))


def _read_names(table: pa.Table, column: str) -> NDArray[Any]:
    return np.asarray(pc.cast(table.column(column), pa.string()).fill_null("-").to_numpy(), str)


def _convert_values(times: pa.ChunkedArray) -> NDArray[np.int64]:
    values: NDArray[np.int64] = times.fill_null(0).to_numpy()
    return values
