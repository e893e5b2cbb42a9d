"""How a query caught up, from what Spark reports of its micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from examples.flights.query import unix_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch that ended `ended_s` after the query began.

    `behind_ms` is how far its lower was behind the last one of the stream when it was planned, and
    `backlog` the flag in the offset log.
    """

    ended_s: float
    took_ms: int
    rows: int
    behind_ms: int
    backlog: bool | None


@dataclass(frozen=True, slots=True)
class CatchUp:
    """The course of a query: its batches, where it began, and its result.

    >>> batches = [Batch(2, 2000, 900, 7, True), Batch(4, 1900, 100, 0, True)]
    >>> one = CatchUp("late", 99, [*batches, Batch(5, 150, 20, 0, False)], lost=0, counted={})
    >>> one.caught_up_s, one.rows_per_second, one.live_ms, one.flag_until_s
    (4, 250.0, 150, 4)
    """

    name: str
    behind_ms: int
    batches: Sequence[Batch]
    lost: int
    counted: Mapping[tuple[int, str], int]

    @property
    def catching_up(self) -> Sequence[Batch]:
        """The batches up to the first one that reached the last mark."""
        return self.batches[: self._caught_up]

    @property
    def caught_up_s(self) -> float:
        """When that batch ended."""
        return self.catching_up[-1].ended_s

    @property
    def rows_per_second(self) -> float:
        """How fast the query read until then."""
        return sum(batch.rows for batch in self.catching_up) / self.caught_up_s

    @property
    def live_ms(self) -> float | None:
        """The median duration of a batch with rows after that, `None` if there was none."""
        took = [batch.took_ms for batch in self.batches[self._caught_up :] if batch.rows]
        return median(took) if took else None

    @property
    def flag_until_s(self) -> float:
        """When the last batch ended that was planned while there was a backlog."""
        return max((batch.ended_s for batch in self.batches if batch.backlog), default=0)

    @property
    def _caught_up(self) -> int:
        numbers = (n for n, batch in enumerate(self.batches, 1) if not batch.behind_ms)
        return next(numbers, len(self.batches))


def batches_of(reports: Sequence[dict[str, Any]], begin: int) -> list[Batch]:
    """Return the batches from what Spark reports; `begin` is the stream's first time in ms."""
    batches, rows_before, began = [], 0, unix_ms(reports[0]["timestamp"])
    for progress in reports:
        source, took = progress["sources"][0], progress["durationMs"]["triggerExecution"]
        end, rows = source["endOffset"], sum(source["endOffset"]["segments"].values())
        lower = end["marks"]["default"]["lower"] or begin
        batches.append(
            Batch(
                ended_s=(unix_ms(progress["timestamp"]) + took - began) / 1000,
                took_ms=took,
                rows=rows - rows_before,
                behind_ms=source["latestOffset"]["last_lower"] - lower,
                backlog=end.get("backlog"),
            )
        )
        rows_before = rows
    return batches
