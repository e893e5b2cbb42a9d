"""How a query on any other streaming source gets an exact watermark: marks as a second source."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructField, StructType, TimestampType

from noted_time import Rejected
from noted_time.values import checked_name
from spark_integration.offsets import Json, MarksOffset
from spark_integration.options import OnSeal, check_one_of
from spark_integration.plan import Watermark
from spark_integration.positions import KafkaTopic, PositionOf
from spark_integration.query_progress import QueryProgress
from spark_integration.release import Releaser
from spark_integration.sources import QuerySource, reader_for
from spark_integration.watermark import DELAY, IS_MARK, events_of_union, instant


def with_noted_watermark(  # noqa: PLR0913 - the options of a source; all but two are named
    events: DataFrame,
    event_time: str,
    *,
    stream: str,
    controller_url: str,
    checkpoint_location: str,
    token: str | None = None,
    position: PositionOf | None = None,
    domain: str | None = None,
    strict: bool = True,
    dedup_retention_ms: int = 0,
    on_seal: OnSeal = "close",
) -> DataFrame:
    """Return the streaming `events` with a watermark that the writers vouch for.

    `checkpoint_location` is the `checkpointLocation` with which the query will be started: its
    offset log says how far the query has read, and so which marks it has reached. `position` maps
    the offset of the events' source, as parsed from the JSON in that log, to segment → exclusive
    offset. By default it is `KafkaTopic(stream)`, the Kafka topic named like the stream.

    A mark arrives one micro-batch after the events that it covers. `token`, `domain`, `strict`,
    `dedup_retention_ms` and `on_seal` are as in `read_noted_log` and its `ReadRange`.

    Raises `Rejected` if `event_time` is not a timestamp, or if `events` are not streaming or have a
    watermark already: with watermarks on both sides of a union, a quiet stream would hold the
    query's watermark. The query fails with `Rejected`, before it has read a row, if `events` come
    from more than one source, or from Kafka topics that `position` does not cover: rows that the
    marks do not cover would be dropped as late. Call this function once for each source, and join
    or union the results.
    """
    _check(events, event_time)
    check_one_of("on_seal", on_seal, OnSeal)
    query = MarksQuery(
        stream=checked_name("stream", stream),
        controller_url=controller_url,
        checkpoint=checkpoint_location,
        position_of=position or KafkaTopic(stream),
        domain=domain,
        strict=strict,
        on_seal=on_seal,
    )
    marks = _marks(events, event_time, query, token)
    union = marks.union(events.withColumn(IS_MARK, F.lit(col=False)))
    return events_of_union(union, event_time, dedup_retention_ms)


def _marks(events: DataFrame, event_time: str, query: MarksQuery, token: str | None) -> DataFrame:
    """Return the marks in the shape of the events; the first side of a union sets its watermark."""
    spark = events.sparkSession
    source = reader_for(spark, spark.readStream, MarksSource, query, token)
    timed = (
        source.load().withColumnRenamed("time", event_time).withWatermark(event_time, "0 seconds")
    )
    columns = (_of_mark(field, event_time) for field in events.schema)
    return timed.select(*columns, F.lit(col=True).alias(IS_MARK))


def _of_mark(field: StructField, event_time: str) -> Column:
    if field.name == event_time:
        return F.col(f"`{event_time}`")
    return F.lit(None).cast(field.dataType).alias(field.name)


def _check(events: DataFrame, event_time: str) -> None:
    if not events.isStreaming:
        raise Rejected("the events are not read by a streaming source: use spark.readStream")
    if event_time not in events.columns:
        raise Rejected(f"the events have no column {event_time}")
    for field in events.schema:
        if DELAY in field.metadata:
            raise Rejected(f"column {field.name} of the events has a watermark of its own")
    if not isinstance(events.schema[event_time].dataType, TimestampType):
        raise Rejected(f"column {event_time} of the events is not a timestamp")


@dataclass(frozen=True, slots=True)
class MarksQuery:
    """Which marks a query needs, and where to find how far it has read."""

    stream: str
    controller_url: str
    checkpoint: str
    position_of: PositionOf
    domain: str | None = None
    strict: bool = True
    on_seal: OnSeal = "close"


@dataclass(frozen=True, slots=True)
class MarkTask(InputPartition):
    """The one row of a micro-batch: the time in ms."""

    mark_ms: int


class MarksSource(QuerySource):
    """Spark's entry: one `MarksQuery` per stream."""

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
        return MarksReader(self.query, self.token)


class MarksReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lets a mark into the query once the offset log shows that its cut is read.

    That is one micro-batch after the events themselves, and never before them.
    """

    def __init__(self, query: MarksQuery, token: str | None = None) -> None:
        self._bearer = token
        self._query = query
        self._stated = self._closed = False
        self._available_now = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what the workers need, without the token."""
        return {**self.__dict__, "_bearer": None}

    @cached_property
    def _token(self) -> str:
        return uuid.uuid4().hex

    @cached_property
    def _progress(self) -> QueryProgress:
        return QueryProgress(self._query.checkpoint)

    @cached_property
    def _releaser(self) -> Releaser:
        # Only the planning process talks HTTP; workers are spared the import.
        from spark_integration.marks_feed import ControllerFeed  # noqa: PLC0415

        query = self._query
        return Releaser(
            ControllerFeed(query.controller_url, query.stream, query.domain, token=self._bearer),
            query.on_seal,
        )

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return an offset with a token of its own and no mark."""
        return MarksOffset(self._query.stream, self._token).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take the present marks, and none that come later."""
        self._available_now = True

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: ARG002, N802
        """Return the mark for the next micro-batch; a mark is one row, whatever the limit.

        The first batch of a run always has a new offset. In a new query it brings the token into
        the offset log; in one that is continued it states the last lower again, since Spark's
        commit log keeps one watermark for the whole query and not that of each source
        (SPARK-50046). So does the batch after the end of a sealed stream: a query without state has
        no other one under the last watermark.
        """
        begun = MarksOffset.from_json(start)
        if begun.stream != self._query.stream:
            raise Rejected(
                f"the checkpoint is of stream {begun.stream!r}, and the query asks for marks of "
                f"{self._query.stream!r}: start a query with a new checkpoint"
            )
        if not (self._available_now and self._stated):
            self._releaser.follow(begun.mark)
        ended = begun
        if begun.run:
            position = self._progress.position(begun.token, self._query.position_of)
            ended = replace(begun, mark=self._releaser.release(begun.mark, position))
        is_due = not self._stated or (begun.mark.sealed and not self._closed)
        self._stated, self._closed = True, begun.mark.sealed
        return (replace(ended, run=begun.run + 1) if is_due else ended).to_json()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the mark's row; the same one for the same offsets, at any time.

        Raises `Rejected` if the marks do not cover all that the query reads. Spark has written
        the batch's end to the offset log by now but not begun to read it, and it calls this for the
        first batch of each run: so no row is judged by marks that do not cover it.
        """
        ended = MarksOffset.from_json(end)
        self._progress.position(ended.token, self._query.position_of)
        mark_ms = Watermark.after(ended.mark, strict=self._query.strict).ms
        if start == end or mark_ms is None:
            return []
        return [MarkTask(mark_ms)]

    def stop(self) -> None:
        """Stop following marks."""
        if "_releaser" in self.__dict__:
            self._releaser.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the mark's row."""
        task: MarkTask = partition  # type: ignore[assignment]
        yield pa.RecordBatch.from_arrays([instant(task.mark_ms)], names=["time"])
