"""Rows that a query reads too late, and how to keep them from being dropped.

A row is *late* if its event time is below the lower that the query had admitted before the
micro-batch that reads the row. This lower is in the start offset of the batch. Spark writes that
offset before it runs the batch, so a batch that runs again has the same late rows.

Spark's watermark is never above this lower: it lags by one batch, and by 1 ms under `strict`. So
all rows that Spark drops as late are late here. A window that is still open accepts a late row.

A mark is admitted once its cut is read, and the events below its lower lie below its cut. So a
writer that keeps its promise has no late rows.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from spark_integration.marks.watermark import DELAY_METADATA, build_instant

LATE_COLUMN = "_late"
"""The column that contains whether a row is late."""


def split_late(events: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the rows in time and the late rows, both without the column `_late`.

    `events` come from `read_noted_log` with ``Columns(late="keep")``. The rows in time keep the
    watermark. It drops none of them from windows, and under `strict` from no other operator. The
    late rows have no watermark, so nothing drops them, but Spark refuses to aggregate them in
    `append` mode.

    Use both in one query, as a union of their results, because another query has other
    micro-batches and so other late rows. Raises `Rejected` if `events` have no column `_late`.
    """
    if LATE_COLUMN not in events.columns:
        raise Rejected(
            f'the events have no column {LATE_COLUMN}: read them with Columns(late="keep")'
        )
    in_time = events.where(~F.col(LATE_COLUMN)).drop(LATE_COLUMN)
    late = events.where(F.col(LATE_COLUMN)).drop(LATE_COLUMN)
    return in_time, late.select(*(_without_watermark(late, name) for name in late.columns))


def _without_watermark(rows: DataFrame, name: str) -> Column:
    kept = {k: v for k, v in rows.schema[name].metadata.items() if k != DELAY_METADATA}
    return F.col(f"`{name}`").alias(name, metadata=kept)


def are_late(event_times: pa.Array, below: int | None) -> pa.Array:
    """Return for each row whether its event time is below `below` (ms).

    Without a bound no row is late. A row without an event time is not late.
    >>> are_late(pa.array([4_999, 5_000, None], pa.timestamp("us", "UTC")), 5).to_pylist()
    [True, False, False]
    """
    if below is None:
        return pa.repeat(pa.scalar(value=False), len(event_times))
    return pc.fill_null(pc.less(event_times, build_instant(below)[0]), fill_value=False)
