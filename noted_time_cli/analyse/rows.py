"""The rows to judge, from whatever they were read, and when each of them came in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from noted_time.analysis import group_rows

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Times = NDArray[np.int64]

ASSUMED_ARRIVALS = (
    "When rows came in is not known. Each is taken to have come when the newest time before it in "
    "its partition was made: a delay on the way is not seen, and no waits are shown."
)
REPLAY_NOTICE = (
    "Rows are taken in the order of a backfill, equal shares of each partition at a time: what it "
    "loses says nothing about live reading."
)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows in the order of each partition: event time in Unix ms, partition, arrival, and whose.

    `offsets` say where each lies in its partition of a log, and `log_id` is the log's id, if it has
    one.

    `arrivals` are `None` where nothing tells them; `whose` are the values of `who`, if that was
    asked for. `without_time` were passed over. `said` are sentences about what was read, and
    `event_time` is what users call it.
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
        """Whose each row is, by what was asked for; the partition, if nothing was."""
        return self.partitions if self.whose is None else self.whose

    def remove_rows(self, rows: NDArray[np.int64]) -> Rows:
        """Return the other rows."""
        kept: dict[str, Any] = {}
        for name in ("times", "partitions", "arrivals", "whose", "offsets"):
            column = getattr(self, name)
            kept[name] = None if column is None else np.delete(column, rows)
        return replace(self, **kept)

    def assume_arrivals(self) -> Times:
        """Return the largest time so far in the partition of each row."""
        found = np.empty(len(self.times), np.int64)
        for of_it in group_rows(self.partitions):
            found[of_it] = np.maximum.accumulate(self.times[of_it])
        return found

    def order_as_replay(self) -> Times:
        """Return how much of its partition is read with each row, in billionths."""
        found = np.empty(len(self.times), np.int64)
        for of_it in group_rows(self.partitions):
            found[of_it] = np.linspace(0, 1e9, len(of_it), dtype=np.int64)
        return found
