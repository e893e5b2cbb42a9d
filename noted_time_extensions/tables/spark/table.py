"""Appends each micro-batch to a table once, with a claim in the commit."""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import TimestampNTZType, TimestampType
from pyspark.sql.utils import is_remote

from noted_time import Rejected
from noted_time.extending import MIN_INT64, parse_duration
from noted_time_extensions.tables.spark.claims import BatchClaim, TableClaims
from noted_time_extensions.tables.spark.formats import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("noted_time.spark")

WINDOW_FIELDS = ("start", "end")


class NotedTable:
    """Appends each micro-batch to a table, with its claim, for `foreachBatch`.

    `table` is ``delta:LOCATION`` or ``iceberg:CATALOG.TABLE``, created by the first rows. The
    session's connector writes the rows; for Delta without one, deltalake does, in the driver.

    A batch that runs again is not appended again. A batch without rows is committed if its claim
    has risen, at most once in `claim_every` (such as ``"10s"``). The first batch and the last one
    before the stream is quiet are always committed.

    Raises `Rejected` for Iceberg without a connector, and over Spark Connect.
    """

    def __init__(self, table: str, claims: TableClaims, *, claim_every: str = "10s") -> None:
        self._table = table
        self._claims = claims
        self._every_s = parse_duration(claim_every) / 1000
        self._committed_at = float("-inf")
        self._complete_to: int | None = None
        if is_remote():
            raise Rejected(
                "NotedTable cannot check the query's checkpoint over Spark Connect: use a classic "
                "session"
            )
        open_table(table)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Append the rows of a micro-batch."""
        claim = self._claims.of(batch_id)
        check_column(rows, self._claims.time_of)
        if self._has_unknown_windows(claim, rows):
            claim = self._cover_windows(claim, rows)
        if claim.is_committed(self._table):
            log.info("%s already contains batch %d", self._table, batch_id)
        elif rows.isEmpty() and not self._is_due(claim, batch_id):
            claim.withdraw(self._table)
            return
        else:
            claim.open(self._table).append(rows, claim.options(self._table))
        self._committed_at = clocks.monotonic()
        self._complete_to = claim.complete_to

    def _has_unknown_windows(self, claim: BatchClaim, rows: DataFrame) -> bool:
        """Return whether the rows are of windows whose size only they show."""
        if claim.bound in {None, MIN_INT64} or self._claims.window:
            return False
        return is_window_end(rows, self._claims.time_of)

    def _cover_windows(self, claim: BatchClaim, rows: DataFrame) -> BatchClaim:
        window, _, _ = self._claims.time_of.rpartition(".")
        start, end = (F.col(f"{window}.{name}").cast("timestamp") for name in WINDOW_FIELDS)
        (largest,) = rows.agg(F.max(F.unix_millis(end) - F.unix_millis(start))).collect()
        return claim.cover_windows(self._table, largest[0])

    def _is_due(self, claim: BatchClaim, batch_id: int) -> bool:
        if not batch_id:  # shows that no batch came before
            return True
        if claim.complete_to is None or claim.complete_to == self._complete_to:
            return False
        waited_s = clocks.monotonic() - self._committed_at
        return waited_s >= self._every_s or self._claims.is_last(batch_id)


def is_window_end(rows: DataFrame, name: str) -> bool:
    """Return whether a column is the end of a struct with the type of Spark's `window`."""
    window, _, end = name.rpartition(".")
    if not window or end != WINDOW_FIELDS[1]:
        return False
    kind: Any = rows.select(window).schema[0].dataType
    are_times = all(isinstance(part.dataType, TimestampType | TimestampNTZType) for part in kind)
    return are_times and [part.name for part in kind] == [*WINDOW_FIELDS]


def check_column(rows: DataFrame, name: str) -> None:
    schema: Any = rows.schema
    for part in name.split("."):
        names: Sequence[str] = getattr(schema, "names", ())
        if part not in names:
            column_names = ", ".join(rows.columns)
            raise Rejected(
                f"time_of={name!r} is not a column of the rows: use one of {column_names}"
            )
        schema = schema[part].dataType
