"""Turns mark rows into a query's watermark."""

from __future__ import annotations

import re
from typing import NoReturn
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DataType, TimestampType

from noted_time import Rejected

DELAY_METADATA = "spark.watermarkDelayMs"  # only `dropDuplicatesWithinWatermark` uses the value

MARK_TIME = "_noted_mark_time"  # in a scan; null for events

IS_MARK = "_noted_is_mark"

MULTIPLE_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"

ONLY_ONE = (
    "leave withWatermark out, because the marks are the query's watermark: with two, Spark would "
    "take the least of both, even under spark.sql.streaming.statefulOperator.allowMultiple=false, "
    "which Spark's own error suggests"
)
WATERMARK_NODE = re.compile(r"^[-+:| ]*~?EventTimeWatermark ", re.MULTILINE)

INSTANT_TYPE = pa.timestamp("us", tz="UTC")
FIRST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


def select_scan_events(rows: DataFrame, event_time: str, dedup_retention_ms: int) -> DataFrame:
    is_event = F.col(MARK_TIME).isNull()
    rows_with_watermark = rows.withWatermark(MARK_TIME, "0 seconds")
    events = rows_with_watermark.where(pin_filter(is_event))
    return _select_columns(events, MARK_TIME, event_time, dedup_retention_ms)


def select_union_events(union: DataFrame, event_time: str, dedup_retention_ms: int) -> DataFrame:
    events = union.where(pin_filter(~F.col(IS_MARK)))
    return _select_columns(events, IS_MARK, event_time, dedup_retention_ms)


def _select_columns(
    events: DataFrame, mark_column: str, event_time: str, dedup_retention_ms: int
) -> DataFrame:
    """Return the events without the column of marks; they refuse another watermark."""
    columns: list[Column] = []
    for name in events.columns:
        column = F.col(f"`{name}`")
        if name == mark_column:
            continue
        if name == event_time:
            column = column.alias(name, metadata={DELAY_METADATA: dedup_retention_ms})
        columns.append(column)
    selected_events = events.select(*columns)
    selected_events.withWatermark = _refuse  # type: ignore[method-assign]
    return selected_events


def _refuse(*_: object, **__: object) -> NoReturn:
    raise Rejected(f"the events already have the watermark of their writers: {ONLY_ONE}")


def check_time(events: DataFrame, event_time: str) -> None:
    if event_time not in events.columns:
        raise Rejected(f"the events have no column {event_time}")
    if not isinstance(events.schema[event_time].dataType, TimestampType):
        raise Rejected(f"column {event_time} of the events is not a timestamp")


def check_no_watermark(events: DataFrame) -> None:
    """Raise `Rejected` if the plan has a watermark, even on a column that was dropped since."""
    name = f"noted_time_{uuid4().hex}"
    events.createOrReplaceTempView(name)
    try:
        (row,) = events.sparkSession.sql(f"EXPLAIN EXTENDED TABLE {name}").collect()
    finally:
        events.sparkSession.catalog.dropTempView(name)
    if WATERMARK_NODE.search(row[0]):
        raise Rejected(f"the events already have a watermark: {ONLY_ONE}")


def pin_filter(condition: Column) -> Column:
    """Return a filter that Spark does not move.

    Spark pushes a deterministic filter below the watermark, unless it mentions the watermarked
    column. There it would drop the mark rows, and the watermark would never advance. The
    partition's id makes the condition nondeterministic at no cost.
    """
    return F.when(F.spark_partition_id() >= 0, condition).otherwise(value=False)


def build_null(data_type: DataType) -> Column:
    """Return a null that Spark does not take for a constant.

    For a batch with marks but no rows, Spark would replace a join's condition with false, and lose
    this batch's pairs with rows of former batches.
    """
    null = F.lit(None).cast(data_type)
    return F.when(F.spark_partition_id() < 0, null).otherwise(null)


def is_watermark(time_ms: int) -> bool:
    """Return whether a time in Unix ms is in Spark's years 1 to 9999.

    >>> is_watermark(1_357_034_220_000), is_watermark(1_357_034_220_000_000)
    (True, False)
    """
    return FIRST_MS < time_ms <= LAST_MS


def build_instant(time_ms: int) -> pa.Array:
    return pa.array([time_ms * 1000], INSTANT_TYPE)
