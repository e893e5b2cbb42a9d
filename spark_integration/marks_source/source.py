"""The marks as a separate source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructField, StructType, TimestampType

from spark_integration.marks.planned_reader import PlannedReader
from spark_integration.marks.watermark import build_instant
from spark_integration.marks_source.query import MarksQuery
from spark_integration.session.sources import CLIENT_OPTION, TOKEN_OPTION, QuerySource

if TYPE_CHECKING:
    from spark_integration.marks_source.topics import TopicPlanner


class MarksSource(QuerySource):
    """Spark's entry point."""

    query: MarksQuery

    @classmethod
    def name(cls) -> str:
        return "noted_marks"

    def schema(self) -> StructType:
        return StructType([StructField("time", TimestampType())])

    def streamReader(self, schema: StructType) -> MarksReader:  # noqa: ARG002, N802 - Spark's names
        client = json.loads(self.take_secret(CLIENT_OPTION) or "{}")
        return MarksReader(self.query, self.take_secret(TOKEN_OPTION), client)


class MarksReader(PlannedReader):
    """Reads marks, at most a row per micro-batch; `client` configures the Kafka client."""

    def __init__(
        self, query: MarksQuery, token: str | None = None, client: Mapping[str, Any] | None = None
    ) -> None:
        self._query = query
        self._secrets = (token, client or {})

    @cached_property
    def _planner(self) -> TopicPlanner:
        from spark_integration.marks_source.topics import create_planner  # noqa: PLC0415 - see `PlannedReader`

        return create_planner(self._query, *self._secrets)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([build_instant(partition.value)], names=["time"])
