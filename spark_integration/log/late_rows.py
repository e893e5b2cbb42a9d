"""Which rows a query read too late, and how they go past what would drop them.

A row is *late* if its event time is below the lower that the query had sent before the
micro-batch that reads the row: the lower in the start offset of that batch. Spark writes that
offset into its offset log before it runs the batch, so a batch that is run again has the same late
rows, with or without a controller.

Spark judges rows by a watermark that is never above this lower: it lags by one batch, and by 1 ms
under `strict`. So every row that it drops for being below the watermark is late here. The converse
does not hold: a window that is still open accepts a late row.

A mark enters a query once its cut is read, and the events below its lower lie below its cut. So no
row of a writer that keeps its promise is late.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from spark_integration.marks.watermark import DELAY_METADATA, build_instant

LATE_COLUMN = "_late"
"""The column that tells whether a row is late."""


def split_late(events: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the rows that are in time and those that are late, both without the column `_late`.

    `events` come from `read_noted_log` with ``Columns(late="keep")``. What is in time stays under
    the watermark, which drops none of it from windows, and under `strict` from no other operator.
    The late rows carry no watermark, so nothing drops them; an aggregation of them in the mode
    `append` is refused by Spark.

    Use both in one query, as a union of their results: another query has other micro-batches, hence
    other late rows. Raises `Rejected` if `events` have no `_late`.
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
    """Return of each row whether its event time is below `below` (ms).

    No row is late without a bound, nor is one without an event time.

    >>> are_late(pa.array([4_999, 5_000, None], pa.timestamp("us", "UTC")), 5).to_pylist()
    [True, False, False]
    """
    if below is None:
        return pa.repeat(pa.scalar(value=False), len(event_times))
    return pc.fill_null(pc.less(event_times, build_instant(below)[0]), fill_value=False)
