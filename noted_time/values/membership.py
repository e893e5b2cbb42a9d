"""What is particular to one writer: why it is excluded, its own terms, its late rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Literal, TypeVar

from noted_time.values.times import HOUR_MS, MAX_INT64

Named = TypeVar("Named")
LatePlace = tuple[str, int, int, int]

ExclusionReason = Literal["timed_out", "removed", "returned_late"]
"""Why a writer is excluded: it timed out, an operator removed it, or it returned below the last
lower."""

MissingReason = Literal[ExclusionReason, "sealed"]
"""Why a writer is missing: it is excluded, or it was live when the stream was sealed."""

Reason = Literal[MissingReason, "late_rows"]
"""Why a mark names a writer: it is missing, or it reported rows written below the lower."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one writer; most writers have none of their own.

    `timeout_ms` and `domains` (those it vouches for) are what the writer declared; `None` stands
    for the stream's timeout and for all domains. `hold_until` (service clock) is how long the
    operator `held_by` suspends its timeout, with `held_for` as the reason, and `removed_by` the
    operator who removed it.
    """

    timeout_ms: int | None = None
    domains: tuple[str, ...] | None = None
    hold_until: int | None = None
    held_by: str | None = None
    held_for: str | None = None
    removed_by: str | None = None


NO_TERMS = Terms()

LONGEST_HOLD_MS = 90 * 24 * 60 * 60_000
"""For how long an operator can suspend a timeout at a time: 90 days."""


@dataclass(frozen=True, slots=True)
class LateRows:
    """Rows that a writer wrote below the lower at that time: how many, and the least time.

    `most` is their largest time, `None` if it is not known.
    """

    rows: int
    least: int
    most: int | None = None

    def join(self, other: LateRows) -> LateRows:
        """Return the sum of both.

        >>> LateRows(3, 500, 600).join(LateRows(1, 200, 700))
        LateRows(rows=4, least=200, most=700)
        """
        most = None if self.most is None or other.most is None else max(self.most, other.most)
        return LateRows(_sum(self.rows, other.rows), min(self.least, other.least), most)


@dataclass(frozen=True, slots=True)
class LateReport:
    """Late rows of a writer with times from `least` to `most`, reported from `first_seen` on.

    The last report was `last_seen`, both in Unix ms. `behind` is by how much the least time was
    below the lower of that moment.
    """

    writer: str
    rows: int
    least: int
    most: int
    first_seen: int
    last_seen: int
    behind: int = 0

    @property
    def place(self) -> LatePlace:
        """Reports of one place merge: one writer, one hour of event time, one of arrival."""
        hours = self.least // HOUR_MS, self.most // HOUR_MS, self.first_seen // HOUR_MS
        return self.writer, *hours

    def join(self, other: LateReport) -> LateReport:
        """Return the sum of both, of one writer."""
        return LateReport(
            self.writer,
            _sum(self.rows, other.rows),
            min(self.least, other.least),
            max(self.most, other.most),
            min(self.first_seen, other.first_seen),
            max(self.last_seen, other.last_seen),
            max(self.behind, other.behind),
        )


def late_by_hour(times: Iterable[int]) -> list[LateRows]:
    """Return late rows with these times, those of each full hour by themselves.

    >>> late_by_hour([3_600_000, 7, 5])
    [LateRows(rows=2, least=5, most=7), LateRows(rows=1, least=3600000, most=3600000)]
    """
    hours = (list(each) for _, each in groupby(sorted(times), lambda time: time // HOUR_MS))
    return [LateRows(len(each), each[0], each[-1]) for each in hours]


def _sum(rows: int, more: int) -> int:
    return min(rows + more, MAX_INT64)


@dataclass(frozen=True, slots=True)
class ExcludedSince:
    """Why time advances without a writer, and since when (Unix ms).

    It lasts until the writer has returned and then noted a time above the lower by a later note, or
    reports that it is idle or finished. The writer, the API and the page all read it here.
    """

    reason: ExclusionReason
    since: int


@dataclass(frozen=True, slots=True)
class Absence:
    """One writer that a mark advanced without, with its last time and position.

    `since` is when it was excluded (Unix ms). Its events may be missing from `missing_from` on: its
    last time, or, if it noted none, the lower before the mark. `None`: at any time, as for an
    expected writer that never noted.
    """

    writer: str
    time: int | None
    position: Mapping[int, int]
    reason: Reason
    late: LateRows | None = None
    since: int | None = None
    missing_from: int | None = None


WRITERS_NAMED = 100
"""Maximum number of missing or late writers named at a time; all of them are counted."""


@dataclass(frozen=True, slots=True)
class MissingWriter:
    """A writer that the watermark advanced without: why, since when (Unix ms), its last time."""

    writer: str
    reason: MissingReason
    since: int | None
    time: int | None


@dataclass(frozen=True, slots=True)
class LateWriter:
    """A writer with late rows in a window: how many, their least and largest times.

    `last_seen` is when it reported such rows last (Unix ms). `at_most`: the times reported leave
    the window, so not all of the rows need be of it.
    """

    writer: str
    rows: int
    least: int
    most: int
    last_seen: int
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class _Writers(Generic[Named]):
    """At most `WRITERS_NAMED` of the writers, and how many there are.

    `is_known` is false if what was recorded does not reach back far enough: there may be others.
    """

    writers: tuple[Named, ...] = ()
    count: int = 0
    is_known: bool = True

    def __bool__(self) -> bool:
        """Whether rows may be missing."""
        return self.count > 0 or not self.is_known


@dataclass(frozen=True, slots=True)
class Late(_Writers[LateWriter]):
    """The writers with late rows in a window."""

    @property
    def sentence(self) -> str:
        """How many rows came too late, as a clause.

        >>> Late((LateWriter("pos", 3, 5, 6, 7), LateWriter("UA", 9, 1, 8, 8, True)), 4).sentence
        'but rows came too late: 3 of pos, at most 9 of UA and those of 2 more writers'
        >>> Late(is_known=False).sentence
        'but it is not known which rows came too late'
        """
        if not self.count:
            return "but it is not known which rows came too late" if self else "with no late rows"
        named = ", ".join(
            f"{'at most ' if each.at_most else ''}{each.rows} of {each.writer}"
            for each in self.writers
        )
        more = self.count - len(self.writers)
        also = f" and those of {more} more writers" if more else ""
        return f"but rows came too late: {named}{also}"


@dataclass(frozen=True, slots=True)
class Missing(_Writers[MissingWriter]):
    """The missing writers of a window."""

    @property
    def sentence(self) -> str:
        """The missing writers, each with its reason, as a clause.

        >>> Missing((MissingWriter("stock", "timed_out", 7, 5),), 3).sentence
        'without stock (timed_out) and 2 more writers'
        >>> Missing(is_known=False).sentence
        'but who is missing is not known: it is older than the ledger or the first mark'
        """
        if not self:
            return "with all writers"
        if not self.count:
            return "but who is missing is not known: it is older than the ledger or the first mark"
        named = ", ".join(f"{each.writer} ({each.reason})" for each in self.writers)
        more = self.count - len(self.writers)
        return f"without {named}{f' and {more} more writers' if more else ''}"


NOT_KNOWN = Missing(is_known=False)
LATE_NOT_KNOWN = Late(is_known=False)
