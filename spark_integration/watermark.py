"""The plan that turns mark rows into the watermark of a query, and keeps them from its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELAY = "spark.watermarkDelayMs"
"""The metadata by which Spark knows the column that a watermark is about.

The value moves nothing but the memory of `dropDuplicatesWithinWatermark`.
"""

MARK_TIME = "_noted_mark_time"
"""The column of the one scan that carries a mark's time; null for events."""

IS_MARK = "_noted_is_mark"
"""The column of the union that tells a mark from an event."""

INSTANT = pa.timestamp("us", tz="UTC")
_LAST_MS = (2**63 - 1) // 1000


def events_of_scan(rows: DataFrame, event_time: str, remember_ms: int) -> DataFrame:
    """Return the events of a scan, under the watermark of the `MARK_TIME` of its mark rows."""
    timed = rows.withWatermark(MARK_TIME, "0 seconds")
    return _events(timed, MARK_TIME, F.col(MARK_TIME).isNull(), (event_time, remember_ms))


def events_of_union(union: DataFrame, event_time: str, remember_ms: int) -> DataFrame:
    """Return the events of a union whose first side, the marks, has the watermark."""
    return _events(union, IS_MARK, ~F.col(IS_MARK), (event_time, remember_ms))


def _events(rows: DataFrame, mark: str, condition: Column, timed: tuple[str, int]) -> DataFrame:
    event_time, remember_ms = timed
    columns = {name: F.col(f"`{name}`") for name in rows.columns if name != mark}
    columns[event_time] = columns[event_time].alias(event_time, metadata={DELAY: remember_ms})
    return rows.where(_above_the_watermark(condition)).select(*columns.values())


def _above_the_watermark(condition: Column) -> Column:
    """Return the condition as one that no filter moves past, in either direction.

    Spark pushes a deterministic filter (the user's own, or the `isnotnull` it infers for a join)
    below the watermark unless it mentions the watermarked column; the marks, null in every other
    column, would be gone before they were seen, and time would stand still without an error. It
    neither pushes a nondeterministic condition down nor merges another filter with it. The
    partition's id makes for such a condition, and costs nothing.
    """
    return F.when(F.spark_partition_id() >= 0, condition).otherwise(value=False)


def instant(time_ms: int) -> pa.Array:
    """Return a time in Unix ms as Spark's timestamps have it.

    Raises `Rejected` for one that they cannot hold: then the stream's time is not in ms.
    """
    if not -_LAST_MS <= time_ms <= _LAST_MS:
        raise Rejected(f"noted time {time_ms} is no timestamp: Spark needs Unix milliseconds")
    return pa.array([time_ms * 1000], INSTANT)
