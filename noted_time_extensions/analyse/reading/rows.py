"""The rows to judge, and their arrival times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from noted_time.extending import (
    FIRST_TIMES,
    HOUR_MS,
    PLACEHOLDER_WORDS,
    UNIX_MS,
    TimeForm,
    find_bounds,
    group_rows,
    join_names,
    pluralize,
)
from noted_time_extensions.analyse.reading.twice import describe_hours, resolve_twice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noted_time_extensions.analyse.reading.file_orders import OrderDoubt

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

    Times and arrivals are in Unix ms. `group_of_row` groups late rows. Rows without an event time
    are skipped. `second` has another reading of the times, where a zone had an hour twice. `files`
    has the place of each row's file, and `order_doubt` why the files may have another order.
    """

    event_time: str
    times: Times
    partitions: NDArray[Any]
    offsets: Times
    arrivals: Times | None = None
    group_column: str | None = None
    group_of_row: NDArray[Any] | None = None
    without_time: int = 0
    notices: list[str] = field(default_factory=list)
    log_id: str | None = None
    second: Times | None = None
    files: Times | None = None
    order_doubt: OrderDoubt | None = None

    @property
    def names(self) -> NDArray[Any]:
        return self.partitions if self.group_of_row is None else self.group_of_row

    def remove_rows(self, rows: NDArray[np.int64]) -> Rows:
        columns: dict[str, Any] = {}
        names = ("times", "partitions", "arrivals", "group_of_row", "offsets", "second", "files")
        for name in names:
            column = getattr(self, name)
            if column is not None:
                columns[name] = np.delete(column, rows)
        return replace(self, **columns)

    def remove_impossible(self, form: TimeForm) -> Rows:
        """Remove the rows outside 1971 to 2199 if most first rows are inside, and describe them."""
        outside = np.flatnonzero((self.times < UNIX_MS.start) | (self.times >= UNIX_MS.stop))
        if not len(outside) or find_bounds(self.times[:FIRST_TIMES].tolist()) is not UNIX_MS:
            return self
        kinds = [form.describe_outside(time) for time in self.times[outside].tolist()]
        names = self.names[outside].tolist()
        notices = list(self.notices)
        for (name, kind), number in Counter(zip(names, kinds, strict=True)).items():
            group = f"{self.group_column} {name}" if self.group_column else f"partition {name}"
            rows = pluralize(number, "row")
            notices.append(f"{rows} of {group} left out, with {kind or PLACEHOLDER_WORDS}.")
        return replace(self.remove_rows(outside), notices=notices)

    def resolve_twice(self, form: TimeForm) -> Rows:
        """Take the second of two hours where that is clear, and describe these rows."""
        if self.second is None or form.zone is None:
            return self
        times, other_times, doubted_rows = resolve_twice(
            self.times, self.second, self.partitions, self.arrivals
        )
        changed_rows = np.flatnonzero(times != self.times)
        notices = list(self.notices)
        for hour in describe_hours(self.times[changed_rows], self.second[changed_rows], form.zone):
            notices.append(f"{hour}: they are of the second hour, as the times step back.")
        for hour in describe_hours(self.times[doubted_rows], self.second[doubted_rows], form.zone):
            notices.append(f"{hour}: they are taken for the first hour.")
        second = other_times if len(doubted_rows) else None
        return replace(self, times=times, second=second, notices=notices)

    def name_silent(self) -> Rows:
        """Name the partitions without a row in the last hour."""
        clock = self.times if self.arrivals is None else self.arrivals
        until = clock.max() - HOUR_MS
        names = []
        for rows in group_rows(self.partitions):
            if clock[rows].max() <= until:
                names.append(str(self.partitions[rows[0]]))
        if not names or until not in UNIX_MS:
            return self
        subject = f"Partition {join_names(names)} has"
        if len(names) > 1:
            subject = f"Partitions {join_names(names)} have"
        silent = (
            f"{subject} no row in the last hour: Flink's watermark waits without end, and an "
            "observer's for --idle."
        )
        return replace(self, notices=[*self.notices, silent])

    def assume_arrivals(self) -> Times:
        arrivals = np.empty(len(self.times), np.int64)
        for rows in group_rows(self.partitions):
            arrivals[rows] = np.maximum.accumulate(self.times[rows])
        return arrivals

    def order_otherwise(self) -> Rows | None:
        """Return the rows in the other order that their files may have, `None` without a doubt."""
        if self.order_doubt is None or self.files is None:
            return None
        file_ranks = self.order_doubt.places
        if file_ranks is None:
            earliest_times = np.full(self.files.max() + 1, np.iinfo(np.int64).max)
            np.minimum.at(earliest_times, self.files, self.times)
            file_ranks = earliest_times
        order = np.argsort(file_ranks[self.files], kind="stable")
        return replace(self, times=self.times[order], partitions=self.partitions[order])

    def order_as_replay(self) -> Times:
        """Return how far into its partition each row is, in billionths."""
        arrivals = np.empty(len(self.times), np.int64)
        for rows in group_rows(self.partitions):
            arrivals[rows] = np.linspace(0, 1e9, len(rows), dtype=np.int64)
        return arrivals
