"""Spark's batch source for one complete window of the file log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from noted_time.extending import parse_root
from noted_time_extensions.files.spark.admission import (
    Slice,
    check_begins,
    check_there,
    divide_by_form,
    divide_into_tasks,
)
from noted_time_extensions.files.spark.forms import ColumnForms
from noted_time_extensions.files.spark.log_files import CutRange, LogFile, LogFiles, RowGroup
from noted_time_extensions.files.spark.log_rows import (
    LogTask,
    RowShape,
    read_file_schema,
    read_log_schema,
)
from spark_integration.extending import Picklable, QuerySource, TimeRange

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """A window of a log and its cuts."""

    root: str
    stream: str
    start: int
    end: int
    between: CutRange
    own_segments: bool = False
    columns: tuple[str, ...] = ()
    cores: int = 2
    ignore: tuple[str, ...] = ()
    forms: ColumnForms | None = None

    def open_files(
        self, between: CutRange | None = None, columns: Iterable[str] | None = None
    ) -> LogFiles:
        if columns is None:
            columns = (self.between.event_time,)
        root = parse_root(self.root)
        return LogFiles(root, self.stream, frozenset(columns), between, self.ignore)


class CompleteSource(QuerySource):
    """The data source that Spark registers."""

    query: WindowQuery

    @classmethod
    def name(cls) -> str:
        return "noted_complete"

    def schema(self) -> StructType:
        query = self.query
        event_time = query.between.event_time
        for file in chain.from_iterable(query.open_files(query.between).refresh().values()):
            return read_file_schema(file.path, event_time, query.columns)
        return read_log_schema(query.open_files(), event_time, query.columns)

    def reader(self, schema: StructType) -> WindowReader:
        return WindowReader(self.query, RowShape(schema, self.query.between.event_time))


class WindowReader(Picklable, DataSourceReader):
    """Plans a read; workers read its tasks."""

    def __init__(self, query: WindowQuery, shape: RowShape) -> None:
        self._query = query
        self._shape = shape

    def partitions(self) -> Sequence[InputPartition]:
        tasks = divide_into_tasks(list(self._find_work()), self._query.cores)
        times = TimeRange(self._query.start, self._query.end)
        return [LogTask(tuple(task), times) for task in tasks or [[]]]  # else Spark reads `None`

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._shape.read_task(partition)  # type: ignore[arg-type]

    def _find_work(self) -> Iterator[Slice]:
        query = self._query
        cut_range = query.between
        read_range = cut_range
        if not query.own_segments:
            read_range = replace(cut_range, from_cut={})
        files = query.open_files(read_range, self._shape.columns).refresh()
        for segment, range_end in cut_range.to_cut.items():
            segment_files = files.get(segment, [])
            range_begin = cut_range.from_cut.get(segment, 0)
            if range_begin < range_end:
                check_begins(segment_files, range_begin)
                check_there(segment_files, range_begin, range_end)
            first_offset = read_range.from_cut.get(segment, 0)
            for file in segment_files:
                yield from self._find_slices(file, segment, first_offset, range_end)

    def _find_slices(self, file: LogFile, segment: int, first: int, end: int) -> Iterator[Slice]:
        forms = self._query.forms or ColumnForms(self._query.stream, self._shape.event_time)
        if file.time_type is not None:
            forms.check_known(file.time_type, is_ours=file.is_ours)
        first_row = max(first - file.start, 0)
        end_row = min(end - file.start, file.end - file.start)
        for may_have_rows, groups in groupby(file.groups, self._may_have_rows):
            row_groups = list(groups)
            run_start = row_groups[0].first
            run_end = row_groups[-1].last
            if may_have_rows and run_start < end_row and run_end > first_row:
                slice_start = max(run_start, first_row)
                slice_end = min(run_end, end_row)
                row_slice = Slice(str(file.path), slice_start, slice_end, version=file.version)
                yield from divide_by_form(file, segment, row_slice, forms)

    def _may_have_rows(self, group: RowGroup) -> bool:
        """Return whether a row group may have rows of the window."""
        if group.least is None or group.most is None:
            return True
        return group.most >= self._query.start and group.least < self._query.end
