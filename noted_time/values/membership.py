"""State of single writers: exclusions, terms, late rows, and whether they vouch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

ExclusionReason = OpenEnum["timed_out", "removed", "returned_late"]
"""Why a writer is excluded. With `returned_late`, it returned below the last lower."""

MissingReason = OpenEnum[ExclusionReason, "narrowed", "sealed", "not_joined", "not_expected"]
"""Why a writer is missing: an exclusion, the seal, or it joined or became expected later.

A writer that `narrowed` dropped the domain from its `domains`.
"""


NARROWED_WORDS = "dropped this domain"

REASON_WORDS = {
    "timed_out": "timed out",
    "removed": "removed by an operator",
    "returned_late": "came back late",
    "narrowed": NARROWED_WORDS,
    "sealed": "noted nothing before the seal",
    "not_joined": "had not joined",
    "not_expected": "was not expected yet",
}

NAMES_PER_SENTENCE = 5


def join_names(names: Sequence[str], number: int | None = None) -> str:
    """Join at most five names for a sentence. `number` is the number of all names, if larger.

    >>> join_names(["a", "b"]), join_names(["a", "b"], 9), join_names("abcdefgh")
    ('a and b', 'a, b and 7 more', 'a, b, c, d, e and 3 more')
    """
    shown = names[:NAMES_PER_SENTENCE]
    more = (len(names) if number is None else number) - len(shown)
    *first, last = [*shown, f"{more:,} more"] if more > 0 else shown
    return f"{', '.join(first)} and {last}" if first else last


class Terms(Struct, frozen=True):
    """The terms of one writer; `hold_until` is on the service clock.

    Without `timeout_ms`, the stream's timeout applies. Without `domains`, it vouches for all.
    """

    timeout_ms: int | None = None
    domains: tuple[str, ...] | None = None
    hold_until: int | None = None
    held_by: str | None = None
    held_for: str | None = None
    removed_by: str | None = None


NO_TERMS = Terms()


class Spell(Struct, frozen=True):
    """A spell during which the marks of a domain count a writer.

    Marks from `from_seq` on contain all rows of the writer below `until`. While the spell lasts,
    `until` is null, and each mark contains the rows below its own lower.
    """

    from_seq: int
    until: Int64 | None = None

    @property
    def end(self) -> int:
        """The end of the times that the writer vouches for, after all times while it lasts."""
        return MAX_INT64 if self.until is None else self.until


FROM_FIRST_MARK: tuple[Spell] = (Spell(1),)

LONGEST_HOLD_MS = 90 * 24 * 60 * 60_000


class LateRows(Struct, frozen=True):
    """Rows that a writer wrote below the lower; `most` is their largest time, if known."""

    rows: PositiveInt64
    least: Int64
    most: Annotated[
        Int64 | None, Meta(description="their largest time; absent: up to the lower")
    ] = None

    def join(self, other: LateRows) -> LateRows:
        most = None if self.most is None or other.most is None else max(self.most, other.most)
        return LateRows(_sum(self.rows, other.rows), min(self.least, other.least), most)


def is_reversed(late: LateRows) -> bool:
    """Return whether `most` is below `least`."""
    return late.most is not None and late.most < late.least


class LateReport(Struct, frozen=True):
    """Late rows of a writer with times from `least` to `most`.

    Of merged reports, the first was received at `first_seen` and the last at `last_seen` (Unix ms),
    which was `served_at` on the service clock, if that is known.

    - `least`: `None` if the rows may have any time up to `most`.
    - `behind`: how far `least` was below the lower when the rows were reported.
    - `unknown`: whether there may be more rows, because the writer declared no event times.
    """

    writer: str
    rows: int
    least: int | None
    most: int
    first_seen: int
    last_seen: int
    behind: int = 0
    unknown: bool = False
    served_at: int | None = None

    @property
    def first(self) -> int:
        return MIN_INT64 if self.least is None else self.least

    @property
    def place(self) -> LatePlace:
        """The writer and the hours of event times and arrival; equal places are merged."""
        hours = self.first // HOUR_MS, self.most // HOUR_MS, self.first_seen // HOUR_MS
        return self.writer, *hours

    def join(self, other: LateReport) -> LateReport:
        """Return both reports as one, which knows only what both know.

        >>> one = LateReport("till", 2, 5, 6, first_seen=10, last_seen=10, behind=1)
        >>> both = one.join(LateReport("till", 0, None, 9, 20, 30, unknown=True, served_at=7))
        >>> both.rows, both.least, both.most, both.first_seen, both.last_seen
        (2, None, 9, 10, 30)
        >>> both.behind, both.unknown, both.served_at
        (1, True, 7)
        """
        is_known = self.least is not None and other.least is not None
        served = [each for each in (self.served_at, other.served_at) if each is not None]
        return LateReport(
            self.writer,
            _sum(self.rows, other.rows),
            min(self.first, other.first) if is_known else None,
            max(self.most, other.most),
            min(self.first_seen, other.first_seen),
            max(self.last_seen, other.last_seen),
            max(self.behind, other.behind),
            self.unknown or other.unknown,
            max(served, default=None),
        )


def group_late_rows(times: Iterable[int]) -> list[LateRows]:
    """Group late rows with these times by hour.

    >>> group_late_rows([3_600_000, 7, 5])
    [LateRows(rows=2, least=5, most=7), LateRows(rows=1, least=3600000, most=3600000)]
    """
    hours = (list(each) for _, each in groupby(sorted(times), lambda time: time // HOUR_MS))
    return [LateRows(len(each), each[0], each[-1]) for each in hours]


def _sum(rows: int, more: int) -> int:
    return min(rows + more, MAX_INT64)


_EXCLUSION_REASONS = {
    "timed_out": (
        "it was silent for its timeout",
        "note more often, call idle() while nothing is written, or give the client a timeout_ms",
    ),
    "removed": ("an operator removed it", "the ledger of the stream says who"),
    "returned_late": (
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
    since: Int64
    lower: Int64 | UnsetType | None = UNSET

    @property
    def sentence(self) -> str:
        """An explanation with the remedy, to follow the writer's name.

        >>> Exclusion("timed_out", since=1357041600000, lower=90).sentence[:81]
        'the watermark has been advancing without it since 2013-01-01T12:00:00Z (timed_out'
        """
        happened, remedy = _EXCLUSION_REASONS.get(
            self.reason, ("see explain", "see explain of the stream")
        )
        lower = format_time(None if self.lower is UNSET else self.lower)
        return (
            f"the watermark has been advancing without it since {format_time(self.since)} "
            f"({self.reason}: {happened}), so rows that it writes below {lower} are late until it "
            f"has noted a time above that; to avoid it, {remedy}"
        )


WRITERS_NAMED = 100


class Absence(Struct, frozen=True):
    """A writer that marks exclude, or that is not a member yet; `time` is its last time.

    An entry of the ledger also has the writer's `position`, and `missing_from`: the least time of
    events that may be missing. This is the writer's last time, or without one the lower of the
    previous mark. `None` if events with any time may be missing.

    - `since`: when the writer was excluded or joined (Unix ms).
    """

    writer: str
    reason: MissingReason
    since: Int64 | None
    time: Int64 | None
    position: Offsets | UnsetType = UNSET
    missing_from: Int64 | UnsetType | None = UNSET

    @property
    def joined_later(self) -> bool:
        return self.reason in {"not_joined", "not_expected"}

    def describe(self, now: int | None = None) -> str:
        """Return why the writer is missing, and since when, if `now` (Unix ms) is given."""
        words = REASON_WORDS.get(self.reason, self.reason)
        if self.joined_later:
            return f"{self.writer} {words}"
        if now is None or self.since is None:
            return f"{self.writer}: {words}"
        return f"{self.writer}: {words} {format_seconds(now - self.since)} ago"


class LateWriter(Struct, frozen=True):
    """A writer with late rows in a window.

    - `least`: the least time. `None` if the rows may have any time.
    - `last_seen`: when the writer last reported such rows (Unix ms).
    - `at_most`: whether some of the rows may be outside the window.
    - `unknown`: whether there may be more rows, because the writer declared no event times.
    """

    writer: str
    rows: int
    least: Int64 | None
    most: Int64
    last_seen: Int64
    at_most: bool = False
    unknown: bool = False

    @property
    def row_count(self) -> str:
        if self.unknown:
            return f"{self.rows} and more"
        return f"{'at most ' if self.at_most else ''}{self.rows}"


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
        unknown = "" if self.count or not self else ", but it is not known which rows came too late"
        return self.describe() + unknown

    def describe(self) -> str:
        """Return the writers with late rows as the end of a sentence; those without a number last.

        >>> Late((LateWriter("pos", 3, 5, 6, 7), LateWriter("UA", 9, 1, 8, 8, True)), 4).describe()
        ', with late rows of pos (3), UA (at most 9) and 2 more'
        >>> till = LateWriter("till", 0, None, 6, 7, unknown=True)
        >>> Late((LateWriter("pos", 3, 5, 6, 7), till), 2).describe()
        ', with late rows of pos (3); till may have late rows'
        """
        named = [f"{each.writer} ({each.row_count})" for each in self.writers if each.rows]
        others = [each.writer for each in self.writers if not each.rows]
        count, rows = len(named) if others else self.count, ""
        if named:
            rows = f", with late rows of {join_names(named, count)}"
        if not others:
            return rows
        others_named = join_names(others, self.count - count)
        return f"{rows}; {others_named} may have late rows"


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
        what = ", but who is missing is not known: it is older than the ledger or the first mark"
        return self.describe() + ("" if self.count or self.is_known else what)

    def describe(self, now: int | None = None) -> str:
        """Return the missing writers as the end of a sentence; `now` is in Unix ms.

        >>> away = Absence("stock", "timed_out", 0, 5)
        >>> new = Absence("paris", "not_expected", 0, None)
        >>> Missing((away, new), 2, 1).describe(now=14_400_000)
        ', without stock: timed out 4h ago; paris was not expected yet'
        >>> Missing((new,), 3, 3).describe()
        '; paris was not expected yet and 2 more'
        """
        named = self.writers[:NAMES_PER_SENTENCE]
        absent = [each.describe(now) for each in named if not each.joined_later]
        newer = [each.describe(now) for each in named if each.joined_later]
        later = self.joined_later
        without = f", without {join_names(absent, self.count - later)}" if absent else ""
        return f"{without}; {join_names(newer, later)}" if newer else without


WriterStatus = OpenEnum[
    "live", "idle", "finished", "excluded", "narrowed", "joined_later", "unknown", "missing"
]
"""Why a writer does not vouch for a time at a mark."""


class NotVouching(Struct, frozen=True):
    """A writer that does not vouch for a time, but perhaps for times below `until`."""

    writer: str
    reason: WriterStatus
    until: Int64 | None = None
    is_expected: bool = False

    @property
    def may_come(self) -> bool:
        """Whether a later mark may include the writer if it only continues to note."""
        return self.reason in {"live", "joined_later"}

    @property
    def sentence(self) -> str:
        until = "" if self.until is None else f", vouches to {format_time(self.until)}"
        return f"{self.writer} ({STATUS_WORDS.get(self.reason, self.reason)}{until})"


STATUS_WORDS = {
    "live": "returned later",
    "joined_later": "joined later",
    "narrowed": NARROWED_WORDS,
}


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
        writers = pluralize(self.count, "writer")
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
