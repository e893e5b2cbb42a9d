"""Finds rows that a query reads too late, and keeps them.

A row is *late* if its event time is below the lower in the start offset of its micro-batch. Spark's
watermark is never above this lower, so all rows that Spark drops as late are late here.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from spark_integration.extending import DELAY_METADATA, build_instant

LATE_COLUMN = "_late"


def split_late(events: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the rows in time and the late rows, both without the column `_late`.

    `events` come from `read_noted_log` with ``Columns(late="keep")``. The watermark drops no rows
    in time from windows, and under `strict` from no other operator. The late rows have no
    watermark, so nothing drops them, but Spark refuses to aggregate them in `append` mode.

    Use both in one query, because another query has other late rows. Raises `Rejected` without a
    column `_late`.
    """
    if LATE_COLUMN not in events.columns:
        raise Rejected(
            f'the events have no column {LATE_COLUMN}: read them with Columns(late="keep")'
        )
    rows_in_time = events.where(~F.col(LATE_COLUMN)).drop(LATE_COLUMN)
    late_rows = events.where(F.col(LATE_COLUMN)).drop(LATE_COLUMN)
    return rows_in_time, late_rows.select(
        *(_without_watermark(late_rows, name) for name in late_rows.columns)
    )


def _without_watermark(rows: DataFrame, name: str) -> Column:
    metadata = {
        key: value for key, value in rows.schema[name].metadata.items() if key != DELAY_METADATA
    }
    return F.col(f"`{name}`").alias(name, metadata=metadata)


def are_late(event_times: pa.Array, lower_ms: int | None) -> pa.Array:
    """Return for each row whether its event time is below `lower_ms` (ms); null is not.

    >>> are_late(pa.array([4_999, 5_000, None], pa.timestamp("us", "UTC")), 5).to_pylist()
    [True, False, False]
    """
    if lower_ms is None:
        return pa.repeat(pa.scalar(value=False), len(event_times))
    return pc.fill_null(pc.less(event_times, build_instant(lower_ms)[0]), fill_value=False)
