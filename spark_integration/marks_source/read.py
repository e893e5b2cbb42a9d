"""Gives any streaming source an exact watermark, with marks as a second source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructField

from noted_time import AnotherLog, Rejected
from noted_time.client.transport import Transport
from reader_client.protocol.questions import ask_stream
from spark_integration.checkpoint.files import parse_place
from spark_integration.checkpoint.source_positions import KafkaTopic, PositionOf
from spark_integration.marks.arguments import SAFE_POLICY, Noted, WatermarkPolicy, check_promised
from spark_integration.marks.watermark import (
    IS_MARK,
    build_null,
    check_no_watermark,
    check_time,
    select_union_events,
)
from spark_integration.marks_source.query import MarksQuery
from spark_integration.session.settings import build_source_name, set_reader_name


def with_noted_watermark(  # noqa: PLR0913 - options are keyword-only
    events: DataFrame,
    event_time: str,
    noted: Noted,
    *,
    checkpoint_location: str,
    position: PositionOf | None = None,
    domain: str | None = None,
    policy: WatermarkPolicy = SAFE_POLICY,
) -> DataFrame:
    """Return the streaming `events` with a watermark that the writers vouch for.

    `checkpoint_location` is the `checkpointLocation` of the query. `position` maps the offset of
    the events' source, parsed from JSON, to segment → exclusive offset; the default is
    `KafkaTopic(stream)`. A `KafkaTopic` with a `client` raises `AnotherLog` if the stream belongs
    to another topic.

    `domain` is the time domain of `event_time`, by default the stream's only one. A mark arrives
    one micro-batch after its events; with `read_noted_kafka` it arrives in the same batch.

    Call this function once for each source, and join or union the results. The query fails with
    `Rejected` if `events` come from several sources, or from topics outside `position`.
    """
    check_promised(domain)
    policy.check_partial("with_noted_watermark")
    if isinstance(position, KafkaTopic) and position.client is not None:
        _check_log(noted, position.topic, position.client)
        position = replace(position, client=None)
    streams = {noted.name: position or KafkaTopic(noted.name)}
    query = MarksQuery(streams, noted.controller, checkpoint_location, domain=domain, policy=policy)
    check_events(events, event_time)
    marks = read_marks(events.sparkSession, query, noted.token)
    return unite_with_marks([marks], events, event_time, policy)


def _check_log(noted: Noted, topic: str, client: Mapping[str, Any]) -> None:
    from noted_time.kafka import Topic  # noqa: PLC0415 - an extra

    with closing(Transport(noted.controller, token=noted.token)) as transport:
        logs = transport.ask(ask_stream(noted.name)).logs
    AnotherLog.check(noted.name, logs, Topic(client, topic).look().id)


def read_marks(
    spark: SparkSession,
    query: MarksQuery,
    token: str | None,
    client: Mapping[str, Any] | None = None,
) -> DataFrame:
    from spark_integration.marks_source.source import MarksSource  # noqa: PLC0415 - not in every PySpark
    from spark_integration.session.sources import build_options, create_reader  # noqa: PLC0415 - likewise

    parse_place(query.checkpoint)
    source_name = build_source_name("marks", query.streams, query.domain)
    reader = set_reader_name(spark, spark.readStream, source_name)
    return create_reader(spark, reader, MarksSource, build_options(query, token, client)).load()


def unite_with_marks(
    marks: Sequence[DataFrame], events: DataFrame, event_time: str, policy: WatermarkPolicy
) -> DataFrame:
    """Return the events in a union with the marks, which come first."""
    mark_columns = [_select_for_mark(field, event_time) for field in events.schema]
    frames = []
    for marks_frame in marks:
        renamed_marks = marks_frame.withColumnRenamed("time", event_time)
        marks_with_watermark = renamed_marks.withWatermark(event_time, "0 seconds")
        frames.append(marks_with_watermark.select(*mark_columns, F.lit(col=True).alias(IS_MARK)))
    frames.append(events.withColumn(IS_MARK, F.lit(col=False)))
    union = frames[0]
    for frame in frames[1:]:
        union = union.union(frame)
    return select_union_events(union, event_time, policy.dedup_retention_ms)


def _select_for_mark(field: StructField, event_time: str) -> Column:
    if field.name == event_time:
        return F.col(f"`{event_time}`")
    return build_null(field.dataType).alias(field.name)


def check_events(events: DataFrame, event_time: str) -> None:
    if not events.isStreaming:
        raise Rejected("the events do not come from a streaming source: use spark.readStream")
    check_time(events, event_time)
    check_no_watermark(events)
