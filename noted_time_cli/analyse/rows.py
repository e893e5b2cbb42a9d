"""The rows to judge, and their arrival times."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from noted_time.analysis import group_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.int64]

ASSUMED_ARRIVALS = (
    "Arrival times are not known. Each row is assumed to arrive at the newest event time before it "
    "in its partition. Delays in transit are not seen, and no waits are shown."
)
REPLAY_NOTICE = (
    "Rows are read in the order of a backfill, an equal share of each partition at a time. The "
    "losses say nothing about live reading."
)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows in the order of each partition, as columns.

    Times and arrivals are in Unix ms. `whose` groups late rows. Rows without an event time are
    skipped.
    """

    event_time: str
    times: Times
    partitions: NDArray[Any]
    offsets: Times
    arrivals: Times | None = None
    who: str | None = None
    whose: NDArray[Any] | None = None
    without_time: int = 0
    said: list[str] = field(default_factory=list)
    log_id: str | None = None

    @property
    def names(self) -> NDArray[Any]:
        return self.partitions if self.whose is None else self.whose

    def remove_rows(self, rows: NDArray[np.int64]) -> Rows:
        kept: dict[str, Any] = {}
        for name in ("times", "partitions", "arrivals", "whose", "offsets"):
            column = getattr(self, name)
            kept[name] = None if column is None else np.delete(column, rows)
        return replace(self, **kept)

    def assume_arrivals(self) -> Times:
        found = np.empty(len(self.times), np.int64)
        for rows in group_rows(self.partitions):
            found[rows] = np.maximum.accumulate(self.times[rows])
        return found

    def order_as_replay(self) -> Times:
        """Return for each row the share of its partition that is read then, in billionths."""
        found = np.empty(len(self.times), np.int64)
        for rows in group_rows(self.partitions):
            found[rows] = np.linspace(0, 1e9, len(rows), dtype=np.int64)
        return found
