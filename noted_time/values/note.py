"""What a writer claims when it notes time, and the answers to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from noted_time.values.errors import AnotherLog, InvalidNote
from noted_time.values.fencing import Session
from noted_time.values.log_id import OtherLog
from noted_time.values.membership import ExcludedSince, LateRows
from noted_time.values.times import MAX_INT64, MIN_INT64, Beyond

State = Literal["live", "idle", "finished"]
"""`live`; `idle`: don't wait for me, I may return; `finished`: I am done, my position is final."""

RefusedStatus = Literal[
    "invalid_time",
    "invalid_position",
    "implausible_position",
    "unknown_domain",
    "superseded",
    "fenced",
    "too_far_ahead",
    "too_many_segments",
    "too_many_writers",
    "unknown_writer",
    "not_vouched",
    "sealed",
    "another_log",
]
"""Why a note is refused, see `Refused`."""

MAX_NOTES_PER_REQUEST = 1000

MOST_DOMAINS = 100
"""Maximum number of domains that a stream declares and a note names."""

MOST_LATE = 24
"""Maximum number of reports of late rows that a note has, such as one for each hour of a day."""

UNCHANGED_TIMEOUT = 0
"""The `timeout_ms` of a note that does not change it; a timeout is never 0."""

HELD_LENGTH = 200

LogFactKind = Literal["open_transaction", "moved_by"]

MOST_LOG_FACTS = 4
"""Maximum number of facts that a note has about the log that its writer observes."""

LEAST_TIME, LARGEST_TIME = MIN_INT64 + 1, MAX_INT64 - 1
"""The times that may be noted; the ends of int64 stand for before and after all time."""

SEGMENTS_PER_POSITION = 4096
"""Maximum number of segments named by one position, or by all notes of a writer together."""


@dataclass(frozen=True, slots=True)
class LogFact:
    """What an observer found in a segment of the log, for people; nothing is decided by it.

    `open_transaction`: records from `offset` on cannot be read yet, since `time` (Unix ms) at the
    latest. `moved_by`: the record at `offset` has a `time` ahead of the observer's clock, and the
    segment's time is by it; `by` is the record's key, if that is text.
    """

    kind: LogFactKind
    segment: int
    offset: int
    time: int
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """One writer's claim: all my events with time < `time` lie below `position` (PDP-33).

    Times are int64 of the application's own clock, Unix milliseconds by convention. A note without
    a time only says that the writer is alive and how far it wrote.

    >>> Note("UA", 1357034220000, {0: 10})  # doctest: +NORMALIZE_WHITESPACE
    Note(writer='UA', time=1357034220000, position={0: 10}, domain=None, max_time=None,
         state='live', sequence=None, domains=None, timeout_ms=0, late=None, session=None,
         takes_over=False, label='', max_times=None, took_over=None,
         held=None, log=None, observes=False, because=(), since=None)
    """

    writer: str
    """The writer that claims it."""
    time: int | None = None
    """The time below which all is written."""
    position: Mapping[int, int] = field(default_factory=dict)
    """Segment → exclusive offset; a segment that is not named keeps its offset."""
    domain: str | None = None
    """The time domain; `None` stands for the stream's default."""
    max_time: int | None = None
    """The largest event time written so far, if the writer knows it."""
    state: State = "live"
    """Whether to wait for this writer from now on."""
    sequence: int | None = None
    """The number of its request among all of the writer's, from 1 on. It rises with each request,
    also with a repeated one, so that a request delivered late is recognised. `None`: requests are
    ordered by their arrival only.
    """
    domains: tuple[str, ...] | None = None
    """The domains that the writer vouches for from now on; `None`: as before, at first all."""
    timeout_ms: int | None = UNCHANGED_TIMEOUT
    """The writer's own timeout from now on; `None`: the stream's, `UNCHANGED_TIMEOUT`: as
    before."""
    late: LateRows | Sequence[LateRows] | None = None
    """Rows that it wrote below the lower since it last reported such rows; at most `MOST_LATE`."""
    session: str | None = None
    """The process that notes; `None`: not given, and assumed to be the right one."""
    takes_over: bool = False
    """Whether it takes over the writer's name from the process that has it."""
    label: str = ""
    """A name of the process for people; kept when its session begins."""
    max_times: Mapping[str, int] | None = None
    """The largest time in each of the named domains, if the rows written have times in all of them.
    For the note's own domain the larger of the two counts.
    """
    took_over: tuple[str, ...] | None = None
    """The sessions from which it had taken the name; if one of them has it, it takes it over again.
    """
    held: str | None = None
    """Why the writer lives and does not note, for people; a note without it ends that."""
    log: str | None = None
    """The id of the log that its position is of, if that has one; see `log_id`."""
    observes: bool = False
    """Whether it notes for writers that do not, from what it sees in the log."""
    because: Sequence[LogFact] = ()
    """What it found in the log that holds time or moved it, at most `MOST_LOG_FACTS`."""
    since: int | None = None
    """The least time of its rows, of a first note; `None`: they may have any time."""


def list_reports(late: LateRows | Sequence[LateRows] | None) -> Sequence[LateRows]:
    """Return the reports of a note, of which it may have one or several."""
    if late is None:
        return ()
    return late if isinstance(late, list | tuple) else (late,)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The note counts; `lower` is that of its domain's last mark, `None` before the first.

    `exclusion` is set while time advances without the writer, not if it was silent and no mark went
    on without it. If it joined, `timeout_ms` is the
    timeout in force, and `position` and `times` (the last of each domain) are all that it noted, if
    it named a position before: a restarted writer continues from there. If it `takes_over`,
    `took_over` are the sessions that lost the name.
    """

    lower: int | None
    exclusion: ExcludedSince | None = None
    position: Mapping[int, int] | None = None
    times: Mapping[str, int] | None = None
    timeout_ms: int | None = None
    took_over: tuple[str, ...] | None = None

    @property
    def says_only_lower(self) -> bool:
        """Whether there is no more to say of the note than the lower."""
        return self.exclusion is None and self.timeout_ms is None and self.took_over is None


@dataclass(frozen=True, slots=True)
class Refused:
    """The note fell behind what its writer noted before, or exceeds a bound.

    `last` is what it fell behind. For `invalid_time` that is an int, for `invalid_position` the
    offsets of the offending segments. For `superseded` it is the largest sequence accepted of the
    writer, and for `fenced` the session that has its name now. Or `last` is the bound: for
    `too_far_ahead` the largest time allowed now, for `implausible_position` the largest offsets
    allowed now. For `too_many_segments` (of one writer or the stream) and `too_many_writers` it is
    their number. For `not_vouched` it has the first ten domains that the writer vouches for, for
    `another_log` both logs. It is `None` for `unknown_domain`, `unknown_writer`, and `sealed`: the
    stream takes no more notes. `beyond` says which time is `too_far_ahead`.
    """

    status: RefusedStatus
    last: int | Mapping[int, int] | tuple[str, ...] | Session | OtherLog | None = None
    beyond: Beyond | None = None

    @property
    def detail(self) -> str | None:
        """How far the time is ahead, or which log it is, if that is why the note is refused."""
        if isinstance(self.last, OtherLog):
            return self.last.sentence
        if self.beyond is None or not isinstance(self.last, int):
            return None
        return self.beyond.sentence(self.last)

    def error(self, writer: str, *, first: bool = False) -> InvalidNote | AnotherLog:
        """Return the error of a writer's client, `first` if no note was accepted of it before."""
        if isinstance(self.last, OtherLog):
            return AnotherLog(f"the stream of writer {writer!r}", self.last)
        return InvalidNote(writer, self.status, self.last, self.beyond, first=first)
