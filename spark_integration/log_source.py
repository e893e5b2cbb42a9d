"""The file log as a streaming source of Spark: events, and the marks that they have reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark_integration.log_query import LogQuery
from spark_integration.log_rows import LogTask, RowShape, added_columns, scan_schema
from spark_integration.offsets import Json
from spark_integration.planner import Planner
from spark_integration.shipping import Shipped
from spark_integration.sources import TOKEN, QuerySource

if TYPE_CHECKING:
    import pyarrow as pa


class LogSource(QuerySource):
    """Spark's entry: one `LogQuery` per stream."""

    query: LogQuery

    @classmethod
    def name(cls) -> str:
        """Return the name under which Spark knows the source."""
        return "noted_log"

    def schema(self) -> StructType:
        """Return the schema of the log's first file, and the columns of marks and rows."""
        return scan_schema(self.query)

    def streamReader(self, schema: StructType) -> LogReader:  # noqa: N802 - Spark's name
        """Return the reader of one run of a query."""
        shape = RowShape(schema, self.query.event_time, added_columns(self.query))
        return LogReader(self.query, shape, self.take(TOKEN))


class LogReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in a process beside the driver, and reads their parts on the workers.

    The parts are sent with a pickled copy of this object, so it holds only values until the first
    offset is asked for.
    """

    def __init__(self, query: LogQuery, shape: RowShape, token: str | None = None) -> None:
        self._bearer = token
        self._query = query
        self._shape = shape

    @cached_property
    def _planner(self) -> Planner:
        # Only the planning process talks HTTP; workers are spared the import.
        from spark_integration.planner import Planner  # noqa: PLC0415

        return Planner(self._query, self._shape.columns, self._bearer)

    def __getstate__(self) -> dict[str, Any]:
        """Return what the workers need, without the token."""
        return {**self.__dict__, "_bearer": None}

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return the start of the log, with no mark."""
        return self._query.beginning.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of rows per micro-batch."""
        limit = self._query.batches.max_rows_per_trigger
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read nothing that is appended from now on."""
        self._planner.read_no_more_than_now()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        """Return where the next micro-batch ends."""
        return self._planner.plan(self._query.offset(start), limit).ends.to_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        """Return what the query's progress shows: how far it is behind, and why."""
        return self._planner.latest() if "_planner" in self.__dict__ else None

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; the same ones for the same offsets, at any time."""
        return self._planner.tasks(self._query.offset(start), self._query.offset(end))

    def stop(self) -> None:
        """Stop following marks."""
        if "_planner" in self.__dict__:
            self._planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of one task; raises `UnreadableFile`."""
        task: LogTask = partition  # type: ignore[assignment]
        events = self._shape.events(task.work, task.late_below)
        yield from task.times.rows(events, self._query.event_time)
        if task.mark_ms is not None:
            yield self._shape.mark(task.mark_ms)
