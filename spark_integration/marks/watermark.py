"""The plan that turns mark rows into the watermark of a query, and hides them from the user."""

from __future__ import annotations

import re
from typing import NoReturn
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import TimestampType

from noted_time import Rejected

DELAY_METADATA = "spark.watermarkDelayMs"
"""The metadata by which Spark recognises a watermarked column.

The value only decides for how long `dropDuplicatesWithinWatermark` remembers an event.
"""

MARK_TIME = "_noted_mark_time"
"""The column of the one scan that carries a mark's time; null for events."""

IS_MARK = "_noted_is_mark"
"""The column of the union that distinguishes a mark from an event."""

MULTIPLE_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
"""The setting that says which of several watermarks is that of the query."""

ONLY_ONE = (
    "leave withWatermark out, because the marks are the query's watermark: with two, time would be "
    "the least of both, even under spark.sql.streaming.statefulOperator.allowMultiple=false, which "
    "Spark's own error advises"
)
WATERMARK_NODE = re.compile(r"^[-+:| ]*~?EventTimeWatermark ", re.MULTILINE)
"""A watermark in the text of a plan."""

INSTANT_TYPE = pa.timestamp("us", tz="UTC")
FIRST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
LAST_MS = 253_402_300_799_999
"""The end of Spark's time: 9999-12-31T23:59:59.999Z."""


def select_scan_events(rows: DataFrame, event_time: str, dedup_retention_ms: int) -> DataFrame:
    """Return the events of a scan, under the watermark of the `MARK_TIME` of its mark rows."""
    timed = rows.withWatermark(MARK_TIME, "0 seconds")
    return _select_events(
        timed, MARK_TIME, F.col(MARK_TIME).isNull(), (event_time, dedup_retention_ms)
    )


def select_union_events(union: DataFrame, event_time: str, dedup_retention_ms: int) -> DataFrame:
    """Return the events of a union whose first side, the marks, has the watermark."""
    return _select_events(union, IS_MARK, ~F.col(IS_MARK), (event_time, dedup_retention_ms))


def _select_events(
    rows: DataFrame, mark: str, condition: Column, timed: tuple[str, int]
) -> DataFrame:
    event_time, dedup_retention_ms = timed
    columns = {name: F.col(f"`{name}`") for name in rows.columns if name != mark}
    columns[event_time] = columns[event_time].alias(
        event_time, metadata={DELAY_METADATA: dedup_retention_ms}
    )
    events = rows.where(pin_filter(condition)).select(*columns.values())
    events.withWatermark = _refuse  # type: ignore[method-assign]
    return events


def _refuse(*_: object, **__: object) -> NoReturn:
    """Take the place of `withWatermark`, for which Spark would fail the query's first batch."""
    raise Rejected(f"the events have the watermark of their writers: {ONLY_ONE}")


def check_time(events: DataFrame, event_time: str) -> None:
    """Raise `Rejected` unless the events have that column, a timestamp."""
    if event_time not in events.columns:
        raise Rejected(f"the events have no column {event_time}")
    if not isinstance(events.schema[event_time].dataType, TimestampType):
        raise Rejected(f"column {event_time} of the events is not a timestamp")


def check_no_watermark(events: DataFrame) -> None:
    """Raise `Rejected` if events have a watermark, also one of a column that was dropped since.

    Their plan says so. Spark shows it as the answer of a statement, which needs a view.
    """
    name = f"noted_time_{uuid4().hex}"
    events.createOrReplaceTempView(name)
    try:
        (row,) = events.sparkSession.sql(f"EXPLAIN EXTENDED TABLE {name}").collect()
    finally:
        events.sparkSession.catalog.dropTempView(name)
    if WATERMARK_NODE.search(row[0]):
        raise Rejected(f"the events have a watermark of their own: {ONLY_ONE}")


def pin_filter(condition: Column) -> Column:
    """Return the condition of a filter as one that no other filter moves past, either way.

    Spark pushes a deterministic filter (the user's own, or the `isnotnull` it infers for a join)
    below the watermark unless it mentions the watermarked column; the marks, null in every other
    column, would be gone before they were seen, and the watermark would never advance, silently. It
    neither pushes a nondeterministic condition down nor merges another filter with it. The
    partition's id makes the condition nondeterministic, and costs nothing.
    """
    return F.when(F.spark_partition_id() >= 0, condition).otherwise(value=False)


def is_watermark(time_ms: int) -> bool:
    """Whether Spark can express a time in Unix ms, and the one before it, as a watermark.

    Its timestamps go from the year 1 to the year 9999. A watermark above that would reach the
    commit log, and make every later row late for good.

    >>> is_watermark(1_357_034_220_000), is_watermark(1_357_034_220_000_000)
    (True, False)
    """
    return FIRST_MS < time_ms <= LAST_MS


def build_instant(time_ms: int) -> pa.Array:
    """Return a time in Unix ms as one of Spark's timestamps."""
    return pa.array([time_ms * 1000], INSTANT_TYPE)
