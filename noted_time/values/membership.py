"""What is particular to one writer: why it is excluded, its own terms, its late rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Literal, NamedTuple, TypeVar

from noted_time.values.times import HOUR_MS, MAX_INT64, MIN_INT64, format_time

Named = TypeVar("Named")
LatePlace = tuple[str, int, int, int]

ExclusionReason = Literal["timed_out", "removed", "returned_late"]
"""Why a writer is excluded: it timed out, an operator removed it, or it returned below the last
lower."""

MissingReason = Literal[ExclusionReason, "sealed", "not_joined", "not_expected"]
"""Why a writer is missing: it is excluded, it was live when the stream was sealed, or it joined (or
was expected) only later."""


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


class VouchingPeriod(NamedTuple):
    """Marks from `from_seq` on have all rows of a writer with times below `until`."""

    from_seq: int
    until: int

    @property
    def is_open(self) -> bool:
        """Whether it still lasts: each further mark has all rows below its lower."""
        return self.until == MAX_INT64


FROM_FIRST_MARK: tuple[VouchingPeriod] = (VouchingPeriod(1, MAX_INT64),)
"""The periods of a writer that every mark of a domain counts."""

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
    below the lower of that moment. If `unknown`, there may be others: the writer noted below the
    lower and declared no event times. `least` is `None` if it noted so for the first time.
    """

    writer: str
    rows: int
    least: int | None
    most: int
    first_seen: int
    last_seen: int
    behind: int = 0
    unknown: bool = False

    @property
    def first(self) -> int:
        """The least time; of rows that may have any time, the largest."""
        return self.most if self.least is None else self.least

    @property
    def place(self) -> LatePlace:
        """Reports of one place merge: one writer, one hour of event time, one of arrival."""
        least = MIN_INT64 if self.least is None else self.least
        hours = least // HOUR_MS, self.most // HOUR_MS, self.first_seen // HOUR_MS
        return self.writer, *hours

    def join(self, other: LateReport) -> LateReport:
        """Return the sum of both, of one writer."""
        known = [each for each in (self.least, other.least) if each is not None]
        return LateReport(
            self.writer,
            _sum(self.rows, other.rows),
            min(known, default=None),
            max(self.most, other.most),
            min(self.first_seen, other.first_seen),
            max(self.last_seen, other.last_seen),
            max(self.behind, other.behind),
            self.unknown or other.unknown,
        )


def group_late_rows(times: Iterable[int]) -> list[LateRows]:
    """Return late rows with these times, those of each full hour by themselves.

    >>> group_late_rows([3_600_000, 7, 5])
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
    reason: MissingReason
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

    @property
    def joined_later(self) -> bool:
        """Whether it was no member yet."""
        return self.reason in {"not_joined", "not_expected"}


@dataclass(frozen=True, slots=True)
class LateWriter:
    """A writer with late rows in a window: how many, their least and largest times.

    `last_seen` is when it reported such rows last (Unix ms). `at_most`: the times reported leave
    the window, so not all of the rows need be of it. If `unknown`, there may be others: it noted
    below the lower and declared no event times. `least` is null if these may have any time.
    """

    writer: str
    rows: int
    least: int | None
    most: int
    last_seen: int
    at_most: bool = False
    unknown: bool = False

    @property
    def row_count(self) -> str:
        """How many rows, in words.

        >>> LateWriter("pos", 3, 5, 6, 7, at_most=True).row_count
        'at most 3'
        >>> LateWriter("till", 0, None, 6, 7, unknown=True).row_count
        'an unknown number'
        """
        if self.unknown:
            return f"{self.rows} and more" if self.rows else "an unknown number"
        return f"{'at most ' if self.at_most else ''}{self.rows}"


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
        named = ", ".join(f"{each.row_count} of {each.writer}" for each in self.writers)
        more = self.count - len(self.writers)
        also = f" and those of {more} more writers" if more else ""
        return f"but rows came too late: {named}{also}"


@dataclass(frozen=True, slots=True)
class Missing(_Writers[MissingWriter]):
    """The missing writers of a window; `joined_later` of them were no members yet."""

    joined_later: int = 0

    def __bool__(self) -> bool:
        """Whether rows of writers that were members may be missing."""
        return self.count > self.joined_later or not self.is_known

    @property
    def sentence(self) -> str:
        """The missing writers, each with its reason, as a clause.

        >>> Missing((MissingWriter("stock", "timed_out", 7, 5),), 3).sentence
        'without stock (timed_out) and 2 more writers'
        >>> Missing(is_known=False).sentence
        'but who is missing is not known: it is older than the ledger or the first mark'
        """
        if not self.count and self.is_known:
            return "with all writers"
        if not self.count:
            return "but who is missing is not known: it is older than the ledger or the first mark"
        named = ", ".join(f"{each.writer} ({each.reason})" for each in self.writers)
        more = self.count - len(self.writers)
        return f"without {named}{f' and {more} more writers' if more else ''}"


WriterStanding = Literal[
    "live", "idle", "finished", "excluded", "joined_later", "unknown", "missing"
]
"""Why a writer does not vouch for a time at a mark: its state now, or that it was no member yet, is
none now, or is missing."""


@dataclass(frozen=True, slots=True)
class NotVouching:
    """A writer that does not vouch for a time; it vouches for times up to `until`, if for any."""

    writer: str
    reason: WriterStanding
    until: int | None = None
    is_expected: bool = False

    @property
    def may_come(self) -> bool:
        """Whether a later mark counts it without its doing anything but noting time."""
        return self.reason in {"live", "joined_later"}

    @property
    def sentence(self) -> str:
        """The writer and why it does not vouch.

        >>> NotVouching("delhi", "idle", 20).sentence
        'delhi (idle, vouches to 20)'
        """
        until = "" if self.until is None else f", vouches to {format_time(self.until)}"
        return f"{self.writer} ({STANDING_WORDS.get(self.reason, self.reason)}{until})"


STANDING_WORDS = {"live": "returned later", "joined_later": "joined later"}


@dataclass(frozen=True, slots=True)
class VouchedBy:
    """Who vouches for a time at a mark: `count` writers, of which at most 100 are named.

    The stream expects `expected` writers, of which `expected_vouching` vouch; if it expects none,
    nobody knows who should be there. `not_vouching` has at most 100 of the `not_vouching_count`
    members that do not vouch, those that are expected first. If `names_known` is false, members
    that vouched are forgotten.
    """

    count: int
    names: tuple[str, ...] = ()
    expected: int = 0
    expected_vouching: int = 0
    not_vouching: tuple[NotVouching, ...] = ()
    not_vouching_count: int = 0
    names_known: bool = True

    @property
    def sentence(self) -> str:
        """By whom the time is vouched for, as a clause.

        >>> VouchedBy(1, ("berlin",)).sentence
        'by berlin (1 writer, none expected)'
        >>> VouchedBy(0).sentence
        'but nobody vouches for it'
        """
        writers = f"{self.count:,} writer{'' if self.count == 1 else 's'}"
        if not self.expected:
            if not self.count:
                return "but nobody vouches for it"
            named = ", ".join(self.names[:FEW_NAMES])
            more = f" and {self.count - FEW_NAMES:,} more" if self.count > FEW_NAMES else ""
            return f"by {named}{more} ({writers}, none expected)"
        if self.expected_vouching == self.expected:
            return f"by {writers}, all that are expected"
        absent = [each for each in self.not_vouching if each.is_expected]
        named = ", ".join(each.sentence for each in absent[:FEW_NAMES])
        others = self.expected - self.expected_vouching - min(len(absent), FEW_NAMES)
        also = f" and {others:,} more" if others else ""
        of = f"{self.expected_vouching:,} of {self.expected:,} expected writers"
        return f"by {of}, not by {named}{also}"


FEW_NAMES = 5
"""Maximum number of writers that a sentence names."""

VOUCHED_NOT_KNOWN = VouchedBy(0, names_known=False)
MISSING_NOT_KNOWN = Missing(is_known=False)
LATE_NOT_KNOWN = Late(is_known=False)
