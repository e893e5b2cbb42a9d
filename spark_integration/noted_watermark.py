"""How a query on any other streaming source gets an exact watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import TimestampType

from noted_time import Rejected
from noted_time.values import checked_name
from spark_integration.marks_source import MarksQuery, MarksSource
from spark_integration.options import OnSeal, check_one_of
from spark_integration.positions import KafkaTopic
from spark_integration.sources import reader_for
from spark_integration.watermark import DELAY, IS_MARK, events_of_union

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from spark_integration.positions import PositionOf


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
    from more than one source, or from Kafka topics that `position` does not cover: the rows that
    the marks say nothing of would be dropped as late. Call this function once for each source, and
    join or union the results.
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
    """Return the marks in the shape of the events; first in a union, whose watermark is theirs."""
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
