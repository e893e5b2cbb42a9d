"""The marks as a source of their own, which a union puts before the events of another source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructField, StructType, TimestampType

from spark_integration.marks.watermark import build_instant
from spark_integration.marks_source.query import MarksQuery
from spark_integration.session.planned_reader import PlannedReader
from spark_integration.session.sources import CLIENT_OPTION, TOKEN_OPTION, QuerySource

if TYPE_CHECKING:
    from spark_integration.marks_source.planner import MarksPlanner


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
        client = json.loads(self.take_secret(CLIENT_OPTION) or "{}")
        return MarksReader(self.query, self.take_secret(TOKEN_OPTION), client)


class MarksReader(PlannedReader["MarksPlanner"]):
    """Lets marks into the query, as one row a micro-batch at most, whatever the limit.

    `client` is the configuration of the Kafka client that looks at the topics.
    """

    def __init__(
        self, query: MarksQuery, token: str | None = None, client: Mapping[str, Any] | None = None
    ) -> None:
        self._query = query
        self._secrets = (token, client or {})

    def _create_planner(self) -> MarksPlanner:
        from spark_integration.marks_source.planner import create_planner  # noqa: PLC0415 - see `PlannedReader`

        return create_planner(self._query, *self._secrets)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the mark's row."""
        yield pa.RecordBatch.from_arrays([build_instant(partition.value)], names=["time"])
