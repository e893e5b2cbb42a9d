"""State of single writers: exclusions, terms, late rows, and whether they vouch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from noted_time.installation import name_program
from noted_time.json_types import Offsets
from noted_time.open_enum import OpenEnum
from noted_time.values.times import (
    HOUR_MS,
    MAX_INT64,
    MIN_INT64,
    Int64,
    PositiveInt64,
    format_seconds,
    format_time,
    pluralize,
)

LatePlace = tuple[str, int, int, int]

MemberState = OpenEnum["live", "idle", "finished", "excluded"]

MemberStatus = OpenEnum[
    "not_joined",
    "not_expected",
    "counted",
    "idle",
    "finished",
    "timed_out",
    "removed",
    "returned_below",
    "narrowed",
    "sealed",
]
"""The status of a writer in one domain.

- `not_joined`, `not_expected`: it became a member, or was expected, only after a mark.
- `counted`: marks wait for it, and have its rows.
- `timed_out`, `removed`, `returned_below`: it is excluded. With `returned_below`, it returned below
  the last lower.
- `narrowed`: it dropped the domain from its `domains`.
- `sealed`: it noted no time before the seal.
"""

ExclusionReason = OpenEnum["timed_out", "removed", "returned_below"]
"""The statuses of a writer that is excluded."""

MissingReason = OpenEnum[ExclusionReason, "narrowed", "sealed", "not_joined", "not_expected"]
"""The statuses of a writer that a mark lacks."""

WriterStatus = OpenEnum[
    "returned_later",
    "idle",
    "finished",
    "excluded",
    "narrowed",
    "joined_later",
    "unknown",
    "missing",
]
"""Why a writer does not vouch for a time at a mark.

With `returned_later` and `joined_later`, a later mark counts it.
"""

STATUS_WORDS = {
    "timed_out": "timed out",
    "removed": "removed by an operator",
    "returned_below": "came back below the watermark",
    "narrowed": "dropped this domain",
    "sealed": "noted nothing before the seal",
    "not_joined": "had not joined",
    "not_expected": "was not expected yet",
    "returned_later": "returned later",
    "joined_later": "joined later",
}

NAMES_PER_SENTENCE = 5


def join_names(names: Sequence[str], number: int | None = None) -> str:
    """Join at most five names for a sentence. `number` is the number of all names, if larger.

    >>> join_names(["a", "b"]), join_names(["a", "b"], 9), join_names("abcdefgh")
    ('a and b', 'a, b and 7 more', 'a, b, c, d, e and 3 more')
    """
    shown_names = [*names[:NAMES_PER_SENTENCE]]
    all_count = len(names) if number is None else number
    hidden_count = all_count - len(shown_names)
    if hidden_count > 0:
        shown_names.append(f"{hidden_count:,} more")
    *first_names, last_name = shown_names
    if not first_names:
        return last_name
    return f"{', '.join(first_names)} and {last_name}"


class Terms(Struct, frozen=True):
    """The terms of one writer; `suspension_ends_served_ms` is on the service clock.

    Without `timeout_ms`, the stream's timeout applies. Without `domains`, it vouches for all.
    """

    timeout_ms: int | None = None
    domains: tuple[str, ...] | None = None
    suspension_ends_served_ms: int | None = None
    suspended_by: str | None = None
    suspension_reason: str | None = None
    removed_by: str | None = None


NO_TERMS = Terms()


class Spell(Struct, frozen=True):
    """A spell during which the marks of a domain count a writer.

    Marks from `from_seq` on contain all rows of the writer below `to_time`. While the spell lasts,
    `to_time` is null, and each mark contains the rows below its own lower.
    """

    from_seq: int
    to_time: Int64 | None = None

    @property
    def end(self) -> int:
        """The end of the times that the writer vouches for, after all times while it lasts."""
        if self.to_time is None:
            return MAX_INT64
        return self.to_time


FROM_FIRST_MARK: tuple[Spell] = (Spell(1),)

LONGEST_SUSPENSION_MS = 90 * 24 * 60 * 60_000


class LateRows(Struct, frozen=True):
    """Rows that a writer wrote below the lower; `max_time` is their largest time, if known."""

    rows: PositiveInt64
    min_time: Int64
    max_time: Annotated[
        Int64 | None, Meta(description="their largest time; absent: up to the lower")
    ] = None

    def join(self, other: LateRows) -> LateRows:
        max_time = None
        if self.max_time is not None and other.max_time is not None:
            max_time = max(self.max_time, other.max_time)
        return LateRows(_sum(self.rows, other.rows), min(self.min_time, other.min_time), max_time)


def is_reversed(late: LateRows) -> bool:
    """Return whether `max_time` is below `min_time`."""
    return late.max_time is not None and late.max_time < late.min_time


class LateReport(Struct, frozen=True):
    """Late rows of a writer with times from `min_time` to `max_time`.

    Of merged reports, the first was received at `first_seen_at` and the last at `last_seen_at`
    (Unix ms), which was `seen_served_ms` on the service clock, if that is known.

    - `min_time`: `None` if the rows may have any time up to `max_time`.
    - `lateness`: how far `min_time` was below the lower when the rows were reported.
    - `may_have_more`: whether there may be more rows, because the writer declared no event times.
    """

    writer: str
    rows: int
    min_time: int | None
    max_time: int
    first_seen_at: int
    last_seen_at: int
    lateness: int = 0
    may_have_more: bool = False
    seen_served_ms: int | None = None

    @property
    def first(self) -> int:
        if self.min_time is None:
            return MIN_INT64
        return self.min_time

    @property
    def place(self) -> LatePlace:
        """The writer and the hours of event times and arrival; equal places are merged."""
        hours = self.first // HOUR_MS, self.max_time // HOUR_MS, self.first_seen_at // HOUR_MS
        return self.writer, *hours

    def join(self, other: LateReport) -> LateReport:
        """Return both reports as one, which knows only what both know.

        >>> one = LateReport("till", 2, 5, 6, first_seen_at=10, last_seen_at=10, lateness=1)
        >>> other = LateReport("till", 0, None, 9, 20, 30, may_have_more=True, seen_served_ms=7)
        >>> both = one.join(other)
        >>> both.rows, both.min_time, both.max_time, both.first_seen_at, both.last_seen_at
        (2, None, 9, 10, 30)
        >>> both.lateness, both.may_have_more, both.seen_served_ms
        (1, True, 7)
        """
        is_known = self.min_time is not None and other.min_time is not None
        served_moments = [
            served_ms
            for served_ms in (self.seen_served_ms, other.seen_served_ms)
            if served_ms is not None
        ]
        return LateReport(
            self.writer,
            _sum(self.rows, other.rows),
            min(self.first, other.first) if is_known else None,
            max(self.max_time, other.max_time),
            min(self.first_seen_at, other.first_seen_at),
            max(self.last_seen_at, other.last_seen_at),
            max(self.lateness, other.lateness),
            self.may_have_more or other.may_have_more,
            max(served_moments, default=None),
        )


def group_late_rows(times: Iterable[int]) -> list[LateRows]:
    """Group late rows with these times by hour.

    >>> group_late_rows([3_600_000, 7, 5])
    [LateRows(rows=2, min_time=5, max_time=7), LateRows(rows=1, min_time=3600000, max_time=3600000)]
    """
    times_by_hour = (
        list(hour_times) for _, hour_times in groupby(sorted(times), lambda time: time // HOUR_MS)
    )
    return [
        LateRows(len(hour_times), hour_times[0], hour_times[-1]) for hour_times in times_by_hour
    ]


def _sum(rows: int, more_rows: int) -> int:
    return min(rows + more_rows, MAX_INT64)


_EXCLUSION_REASONS = {
    "timed_out": (
        "it was silent for its timeout",
        "note more often, call idle() while nothing is written, or give the client a timeout_ms",
    ),
    "removed": ("an operator removed it", "the ledger of the stream says who"),
    "returned_below": (
        "it came back after the watermark had passed its time",
        "join before the first write, or have the stream expect the writer (expected_writers)",
    ),
}  # what happened, and how to avoid it


class Exclusion(Struct, frozen=True):
    """Why the watermark advances without a writer, and since when (Unix ms).

    The exclusion ends when the writer has returned and a later note has a time above the lower, or
    when it is idle or finished. An answer to a note has the `lower`: rows below it are late.
    """

    reason: ExclusionReason
    excluded_at: Int64
    lower: Int64 | UnsetType | None = UNSET

    @property
    def sentence(self) -> str:
        """An explanation with the remedy, to follow the writer's name.

        >>> Exclusion("timed_out", excluded_at=1357041600000, lower=90).sentence[:81]
        'the watermark has been advancing without it since 2013-01-01T12:00:00Z (timed_out'
        """
        cause, remedy = _EXCLUSION_REASONS.get(
            self.reason, ("see explain", "see explain of the stream")
        )
        lower = format_time(None if self.lower is UNSET else self.lower)
        return (
            f"the watermark has been advancing without it since {format_time(self.excluded_at)} "
            f"({self.reason}: {cause}), so rows that it writes below {lower} are late until it "
            f"has noted a time above that; to avoid it, {remedy}"
        )


WRITERS_NAMED = 100


class Absence(Struct, frozen=True):
    """A writer that marks exclude, or that is not a member yet; `last_time` is its last time.

    An entry of the ledger also has the writer's `position`, and `from_time`: the least time of
    events that may be missing. This is the writer's last time, or without one the lower of the
    previous mark, and of a removed writer the lesser of both. `None` if events with any time may be
    missing.

    - `began_at`: when the writer was excluded or joined (Unix ms).
    - `may_have_been_member`: whether a writer that joined later may have been a member before,
      because the stream has forgotten writers.
    """

    writer: str
    reason: MissingReason
    began_at: Int64 | None
    last_time: Int64 | None
    position: Offsets | UnsetType = UNSET
    from_time: Int64 | UnsetType | None = UNSET
    may_have_been_member: bool | UnsetType = UNSET

    @property
    def joined_later(self) -> bool:
        return self.reason in {"not_joined", "not_expected"}

    def describe(self, now: int | None = None) -> str:
        """Return why the writer is missing, and since when, if `now` (Unix ms) is given."""
        words = STATUS_WORDS.get(self.reason, self.reason)
        if self.joined_later and self.may_have_been_member is True:
            return f"{self.writer} may not have been a member"
        if self.joined_later:
            return f"{self.writer} {words}"
        if now is None or self.began_at is None:
            return f"{self.writer}: {words}"
        return f"{self.writer}: {words} {format_seconds(now - self.began_at)} ago"


class LateWriter(Struct, frozen=True):
    """A writer with late rows in a window.

    - `min_time`: the least time. `None` if the rows may have any time.
    - `last_seen_at`: when the writer last reported such rows (Unix ms).
    - `may_lie_outside`: whether some of the rows may be outside the window.
    - `may_have_more`: whether there may be more rows, because the writer declared no event times.
    """

    writer: str
    rows: int
    min_time: Int64 | None
    max_time: Int64
    last_seen_at: Int64
    may_lie_outside: bool = False
    may_have_more: bool = False

    @property
    def row_count(self) -> str:
        if self.may_have_more:
            return f"{self.rows} and more"
        return f"{'at most ' if self.may_lie_outside else ''}{self.rows}"


class Late(Struct, frozen=True):
    """At most `WRITERS_NAMED` of the writers with late rows in a window, and the number of all.

    If `is_known` is false, there may be more writers.
    """

    writers: tuple[LateWriter, ...] = ()
    count: int = 0
    is_known: bool = False

    def __bool__(self) -> bool:
        return self.count > 0 or not self.is_known

    @property
    def sentence(self) -> str:
        """As `describe`, also if the writers are not known."""
        if self.count or self.is_known:
            return self.describe()
        return f"{self.describe()}, but it is not known which rows came too late"

    def describe(self) -> str:
        """Return the writers with late rows as the end of a sentence; those without a number last.

        >>> Late((LateWriter("pos", 3, 5, 6, 7), LateWriter("UA", 9, 1, 8, 8, True)), 4).describe()
        ', with late rows of pos (3), UA (at most 9) and 2 more'
        >>> till = LateWriter("till", 0, None, 6, 7, may_have_more=True)
        >>> Late((LateWriter("pos", 3, 5, 6, 7), till), 2).describe()
        ', with late rows of pos (3); till may have late rows'
        """
        counted_writers: list[str] = []
        uncounted_writers: list[str] = []
        for writer in self.writers:
            if writer.rows:
                counted_writers.append(f"{writer.writer} ({writer.row_count})")
            else:
                uncounted_writers.append(writer.writer)
        count = len(counted_writers) if uncounted_writers else self.count
        ending = ""
        if counted_writers:
            ending += f", with late rows of {join_names(counted_writers, count)}"
        if uncounted_writers:
            ending += f"; {join_names(uncounted_writers, self.count - count)} may have late rows"
        return ending


class Missing(Struct, frozen=True):
    """At most `WRITERS_NAMED` of the missing writers of a window, and the number of all.

    `joined_later` of them were not members yet. If `is_known` is false, there may be more writers.
    """

    writers: tuple[Absence, ...] = ()
    count: int = 0
    joined_later: int = 0
    is_known: bool = False

    def __bool__(self) -> bool:
        return self.count > self.joined_later or not self.is_known

    @property
    def sentence(self) -> str:
        """As `describe`, also if the writers are not known."""
        if self.count or self.is_known:
            return self.describe()
        doubt = ", but who is missing is not known: it is older than the ledger or the first mark"
        return self.describe() + doubt

    def describe(self, now: int | None = None) -> str:
        """Return the missing writers as the end of a sentence; `now` is in Unix ms.

        >>> away = Absence("stock", "timed_out", 0, 5)
        >>> new = Absence("paris", "not_expected", 0, None)
        >>> Missing((away, new), 2, 1).describe(now=14_400_000)
        ', without stock: timed out 4h ago; paris was not expected yet'
        >>> Missing((new,), 3, 3).describe()
        '; paris was not expected yet and 2 more'
        """
        absent_writers: list[str] = []
        later_writers: list[str] = []
        for absence in self.writers[:NAMES_PER_SENTENCE]:
            writers = later_writers if absence.joined_later else absent_writers
            writers.append(absence.describe(now))
        ending = ""
        if absent_writers:
            ending += f", without {join_names(absent_writers, self.count - self.joined_later)}"
        if later_writers:
            ending += f"; {join_names(later_writers, self.joined_later)}"
        return ending


class NotVouching(Struct, frozen=True):
    """A writer that does not vouch for a time, but perhaps for times below `to_time`."""

    writer: str
    reason: WriterStatus
    to_time: Int64 | None = None
    is_expected: bool = False

    @property
    def may_come(self) -> bool:
        """Whether a later mark may include the writer if it only continues to note."""
        return self.reason in {"returned_later", "joined_later"}

    @property
    def sentence(self) -> str:
        limit = ""
        if self.to_time is not None:
            limit = f", vouches to {format_time(self.to_time)}"
        return f"{self.writer} ({STATUS_WORDS.get(self.reason, self.reason)}{limit})"


def suggest_ending(stream: str, writer: str, domain: str) -> str:
    """Return how to end a writer's absence in a domain that it dropped."""
    command = f"{name_program()} remove {stream} {writer} --domain {domain}"
    return f"let {writer} note {domain} again, or end this with `{command}`"


class VouchedBy(Struct, frozen=True):
    """The writers that vouch for a time at a mark.

    - `count`: the number of writers that vouch. `names` contains at most 100.
    - `expected`: the number of expected writers. If it is 0, the complete set is not known.
    - `not_vouching`: at most 100 members that do not vouch, expected writers first.
    - `names_known`: false if the stream has forgotten members that vouched.
    """

    count: int
    names: tuple[str, ...] = ()
    expected: int = 0
    expected_vouching: int = 0
    not_vouching: tuple[NotVouching, ...] = ()
    not_vouching_count: int = 0
    names_known: bool = False

    @property
    def sentence(self) -> str:
        """Which writers vouch for the time, as a clause.

        >>> VouchedBy(1, ("berlin",)).sentence
        'by berlin (1 writer, none expected)'
        """
        return self.describe()

    def describe(self, named_elsewhere: Collection[str] = ()) -> str:
        """Return the clause without those not vouching that the sentence names elsewhere.

        >>> away = NotVouching("lima", "idle", is_expected=True)
        >>> by = VouchedBy(1, ("berlin",), 2, 1, (away,), 1)
        >>> by.describe(), by.describe(["lima"])
        ('by 1 of 2 expected writers, not by lima (idle)', 'by 1 of 2 expected writers')
        """
        writers = pluralize(self.count, "writer")
        if not self.expected and not self.count:
            return "but nobody vouches for it"
        if not self.expected:
            names = _list_few(self.names, max(0, self.count - FEW_NAMES))
            return f"by {names} ({writers}, none expected)"
        if self.expected_vouching == self.expected:
            return f"by {writers}, all that are expected"
        clause = f"by {self.expected_vouching:,} of {self.expected:,} expected writers"
        unnamed_count = self.expected - self.expected_vouching
        unnamed_writers: list[str] = []
        for writer in self.not_vouching:
            if writer.is_expected and writer.writer in named_elsewhere:
                unnamed_count -= 1
            elif writer.is_expected:
                unnamed_writers.append(writer.sentence)
        if not unnamed_count:
            return clause
        other_count = unnamed_count - min(len(unnamed_writers), FEW_NAMES)
        return f"{clause}, not by {_list_few(unnamed_writers, other_count)}"


FEW_NAMES = 5


def _list_few(names: Sequence[str], other_count: int) -> str:
    """List the first names, with the number of the others."""
    first_names = ", ".join(names[:FEW_NAMES])
    return f"{first_names} and {other_count:,} more" if other_count else first_names
