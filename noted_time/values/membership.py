"""What is particular to one writer: why it is excluded, its own terms, its late rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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
    """Rows that a writer wrote below the lower at that time: how many, and the least time."""

    rows: int
    least: int

    def join(self, other: LateRows) -> LateRows:
        """Return the sum of both.

        >>> LateRows(3, 500).join(LateRows(1, 200))
        LateRows(rows=4, least=200)
        """
        return LateRows(self.rows + other.rows, min(self.least, other.least))


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


MISSING_NAMED = 100
"""Maximum number of missing writers named at a time; all of them are counted."""


@dataclass(frozen=True, slots=True)
class MissingWriter:
    """A writer that the watermark advanced without: why, since when (Unix ms), its last time."""

    writer: str
    reason: MissingReason
    since: int | None
    time: int | None


@dataclass(frozen=True, slots=True)
class Missing:
    """At most `MISSING_NAMED` of the missing writers, and how many are missing.

    `is_known` is false if the ledger does not reach back far enough: there may be others.
    """

    writers: tuple[MissingWriter, ...] = ()
    count: int = 0
    is_known: bool = True

    def __bool__(self) -> bool:
        """Whether rows may be missing."""
        return self.count > 0 or not self.is_known

    @property
    def sentence(self) -> str:
        """The missing writers, each with its reason, as a clause.

        >>> Missing((MissingWriter("stock", "timed_out", 7, 5),), 3).sentence
        'without stock (timed_out) and 2 more writers'
        >>> Missing(is_known=False).sentence
        'but it is not known without which writers'
        """
        if not self.count:
            return "but it is not known without which writers" if self else "with all writers"
        named = ", ".join(f"{each.writer} ({each.reason})" for each in self.writers)
        more = self.count - len(self.writers)
        return f"without {named}{f' and {more} more writers' if more else ''}"


NOT_KNOWN = Missing(is_known=False)
