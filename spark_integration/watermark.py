"""The plan that turns mark rows into the watermark of a query, and keeps them from the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELAY_METADATA = {"spark.watermarkDelayMs": 0}
"""How Spark knows the column that a watermark is about."""


def only_events(rows: DataFrame, mark_time: str, event_time: str) -> DataFrame:
    """Drop the rows that have a `mark_time`, and declare the watermark to be about `event_time`.

    `rows` carries its watermark on `mark_time`.
    """
    events = rows.where(_kept_above(F.col(mark_time).isNull()))
    return events.select(*(_column(name, event_time) for name in rows.columns if name != mark_time))


def _kept_above(condition: Column) -> Column:
    """Return the condition as one that no filter moves past, in either direction.

    Spark pushes a deterministic filter (the user's own, or the `isnotnull` it infers for a join)
    below the watermark unless it mentions the watermarked column; the marks, null in every other
    column, would be gone before they were seen, and time would stand still without an error. It
    neither pushes a nondeterministic condition down nor merges another filter with it. The
    partition's id is such a condition, and costs nothing.
    """
    return F.when(F.spark_partition_id() >= 0, condition).otherwise(value=False)


def _column(name: str, event_time: str) -> Column:
    column = F.col(f"`{name}`")
    return column.alias(name, metadata=DELAY_METADATA) if name == event_time else column
