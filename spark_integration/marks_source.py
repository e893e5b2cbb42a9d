"""The marks as a source of their own, which a union puts before the events of another source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructField, StructType, TimestampType

from spark_integration.marks_query import MarksQuery
from spark_integration.shipping import Shipped
from spark_integration.sources import CLIENT, TOKEN, QuerySource
from spark_integration.watermark import instant

if TYPE_CHECKING:
    from spark_integration.marks_planner import MarksPlanner
    from spark_integration.offsets import Json


@dataclass(frozen=True, slots=True)
class MarkTask(InputPartition):
    """The one row of a micro-batch: the time in ms."""

    mark_ms: int


class MarksSource(QuerySource):
    """Spark's entry: one `MarksQuery` per source of events."""

    query: MarksQuery

    @classmethod
    def name(cls) -> str:
        """Return the name under which Spark knows the source."""
        return "noted_marks"

    def schema(self) -> StructType:
        """Return one column, the time of the mark."""
        return StructType([StructField("time", TimestampType())])

    def streamReader(self, schema: StructType) -> MarksReader:  # noqa: ARG002, N802 - Spark's names
        """Return the reader of one run of a query."""
        client = json.loads(self.take(CLIENT) or "{}")
        return MarksReader(self.query, self.take(TOKEN), client)


class MarksReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lets marks into the query, as one row a micro-batch at most.

    `client` is the configuration of the Kafka client that looks at the topics.
    """

    def __init__(
        self, query: MarksQuery, token: str | None = None, client: Mapping[str, Any] | None = None
    ) -> None:
        self._bearer = token
        self._client = client or {}
        self._query = query

    def __getstate__(self) -> dict[str, Any]:
        """Return what the workers need, without secrets."""
        return {**self.__dict__, "_bearer": None, "_client": {}}

    @cached_property
    def _planner(self) -> MarksPlanner:
        # Only the planning process talks to controller and broker; workers are spared the imports.
        from spark_integration.marks_planner import planner_of  # noqa: PLC0415

        return planner_of(self._query, self._bearer, self._client)

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return an offset with a token of its own and no mark."""
        return self._planner.initial()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take the present marks, and none that come later."""
        self._planner.take_no_more_than_now()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: ARG002, N802
        """Return the marks for the next micro-batch; they are one row, whatever the limit."""
        return self._planner.following(start)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the mark's row; the same one for the same offsets, at any time.

        Raises `Rejected` if the marks do not cover all that the query reads. Spark has written
        the batch's end to the offset log by now but not begun to read it, and it calls this for the
        first batch of each run: so no row is judged by marks that do not cover it.
        """
        mark_ms = self._planner.watermark_ms(end)
        if start == end or mark_ms is None:
            return []
        return [MarkTask(mark_ms)]

    def stop(self) -> None:
        """Stop following marks."""
        if "_planner" in self.__dict__:
            self._planner.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the mark's row."""
        task: MarkTask = partition  # type: ignore[assignment]
        yield pa.RecordBatch.from_arrays([instant(task.mark_ms)], names=["time"])
