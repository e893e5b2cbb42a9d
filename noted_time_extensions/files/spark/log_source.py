"""The file log as Spark's streaming source."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from noted_time_extensions.files.spark.log_rows import (
    RowShape,
    build_scan_schema,
    list_added_columns,
)
from noted_time_extensions.files.spark.query import LogQuery
from spark_integration.extending import TOKEN_OPTION, PlannedReader, QuerySource

if TYPE_CHECKING:
    import pyarrow as pa

    from noted_time_extensions.files.spark.segments import LogPlanner


class LogSource(QuerySource):
    """Spark's entry point."""

    query: LogQuery

    @classmethod
    def name(cls) -> str:
        return "noted_log"

    def schema(self) -> StructType:
        return build_scan_schema(self.query)

    def streamReader(self, schema: StructType) -> LogReader:  # noqa: N802 - Spark's name
        shape = RowShape(schema, self.query.event_time, list_added_columns(self.query))
        return LogReader(self.query, shape, self.take_secret(TOKEN_OPTION))


class LogReader(PlannedReader):
    """Reads events and marks of a log."""

    def __init__(self, query: LogQuery, shape: RowShape, token: str | None = None) -> None:
        self._query = query
        self._shape = shape
        self._secrets = (token,)

    @cached_property
    def _planner(self) -> LogPlanner:
        from noted_time_extensions.files.spark.segments import LogPlanner

        return LogPlanner(self._query, self._shape.columns, *self._secrets)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self._query.batches.max_rows_per_trigger
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._shape.read_task(partition)  # type: ignore[arg-type]
