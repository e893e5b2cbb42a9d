"""The rows to judge, and their arrival times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from noted_time.analysis import group_rows
from noted_time.observing import UNIT_NAMES, count_unix
from noted_time.values import UNIX_MS, format_time, pluralize

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


PLACEHOLDER_TIMES = {0, -1}
PLACEHOLDER_YEAR = "9999"
"""A year that stands for no time, as 0 and -1 do."""


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

    def remove_impossible(self) -> Rows:
        """Remove the rows outside 1971 to 2199 if most rows are inside, and describe them."""
        outside = np.flatnonzero((self.times < UNIX_MS.start) | (self.times >= UNIX_MS.stop))
        if not len(outside) or 2 * len(outside) >= len(self.times):
            return self
        described = [*self.said]
        names, kinds = self.names[outside], [*map(_classify_time, self.times[outside].tolist())]
        for (name, kind), number in Counter(zip(names.tolist(), kinds, strict=True)).items():
            whose = f"{self.who} {name}" if self.who else f"partition {name}"
            described.append(f"{pluralize(number, 'row')} of {whose} left out, with {kind}.")
        return replace(self.remove_rows(outside), said=described)

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


def _classify_time(ms: int) -> str:
    if ms in PLACEHOLDER_TIMES or format_time(ms).startswith(PLACEHOLDER_YEAR):
        return "times that stand for none (0, -1 or the year 9999)"
    unit = next((words for unit, words in UNIT_NAMES.items() if count_unix(unit, [ms])), None)
    return f"times that look like Unix {unit}" if unit else "times in no year from 1971 to 2199"
