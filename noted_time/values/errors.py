"""Every error of noted-time, sorted by what the caller should do.

::

    NotedTimeError
    ├── Rejected            don't retry: the request itself is wrong
    │   ├── InvalidName     a stream, writer, domain or reader name outside [A-Za-z0-9._-]{1,249}
    │   ├── Unreadable      a text is not a time or not a duration
    │   ├── InvalidNote     a writer's note was refused; `status` and `last` say why
    │   ├── NotesRefused    no note of a request was accepted; `answer` says why
    │   ├── ImplausibleTime a time in seconds was asked for of a stream in milliseconds
    │   ├── InvalidScale    a scale event names an unknown or sealed segment
    │   ├── InvalidCut      a final cut is behind what was noted, or beyond a sealed segment
    │   ├── InvalidFinalTime  a final time is not above the last lower
    │   ├── StreamSealed    the stream is sealed: it takes nothing more
    │   ├── LimitReached    the controller takes on no more of these
    │   │   └── TooManySegments  the stream takes on no more segments
    │   ├── NotAllowed      the token is missing, expired or revoked, or lacks the right
    │   ├── SharedName      another process notes under the writer's name
    │   ├── Fenced          another process took the writer's name over: stop writing
    │   ├── Recreated       a log or topic is not the one whose offsets were noted
    │   ├── AnotherLog      the positions of the stream are of another log
    │   ├── NotObservable   a topic's settings do not permit this way to observe it
    │   ├── UnknownStream   there is no stream of that name
    │   ├── UnknownDomain   the stream does not declare that domain
    │   ├── UnknownWriter   the stream has no member of that name
    │   ├── OpenStream      all writers are required of a stream that expects none
    │   ├── WritersMissing  a window is complete, but time passed it without some writers
    │   ├── RowsLate        a window is complete, but some rows of it were written too late
    │   └── UnknownReader   the group or its reader never reported
    ├── Conflict            read again, then retry
    │   ├── AlreadySealed   the stream was sealed in another way
    │   ├── MarkConflict    another owner appended the mark with that seq first
    │   ├── NotLive         the writer that was to be held is not waited for
    │   ├── NotedMeanwhile  the writer that was to be removed has noted since
    │   └── NotCompleteYet  no mark is complete to the time asked for; `lower` says how far it is
    ├── Unreachable         the outcome is unknown: retry with backoff
    │   └── UnexpectedAnswer  the answer is not that of a controller of this version
    ├── DeliveryFailed      events did not reach the log: produce them again, then forgive
    └── ClientFailed        a fault in the client itself: create a new one, and report the cause
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from noted_time.values.fencing import Session
from noted_time.values.log_id import OtherLog
from noted_time.values.membership import Late, Missing
from noted_time.values.times import Beyond, format_time, pluralize


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """How a controller answers an error: the word of its problem, its status and its facts.

    `facts` are members of the problem, each with what clients take if it is missing, and attributes
    of the error, under the same names or those in `attributes`. Clients raise the class itself if
    it `has_own_class`, with its facts as arguments, and otherwise what its status says.
    """

    code: str
    status: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    has_own_class: bool = False

    def members(self, error: Exception) -> dict[str, Any]:
        """Return the facts of an error."""
        return {each: getattr(error, self.attributes.get(each, each)) for each in self.facts}

    def arguments(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        """Return what its class is called with, by a problem.

        >>> UnknownDomain.kind.arguments({"domain": "b", "domains": ["a"]})
        {'domain': 'b', 'declared': ['a']}
        """
        known = {**self.facts, **problem}
        return {self.attributes.get(each, each): known[each] for each in self.facts}


class NotedTimeError(Exception):
    """Root of the tree."""

    if TYPE_CHECKING:
        kind: ClassVar[ProblemKind]


class Rejected(NotedTimeError):
    """The request itself is wrong: don't retry."""

    kind = ProblemKind("rejected", 422)


class InvalidName(Rejected):
    """A name is not of the form ``[A-Za-z0-9._-]{1,249}``, or is ``.`` or ``..``."""

    kind = ProblemKind("invalid_name", 422)

    def __init__(self, what: str, name: str) -> None:
        legal = "1 to 249 characters of A-Z a-z 0-9 . _ -, and neither . nor .."
        super().__init__(f"{what} {name[:260]!r} is not {legal}")
        self.what = what
        self.name = name


class Unreadable(Rejected):
    """A text is not a time, or not a duration."""


class InvalidNote(Rejected):
    """A note was refused.

    =================================================================  ==========================
    `status`, the wire word                                            `last`
    =================================================================  ==========================
    ``invalid_time``, ``invalid_position``, ``superseded``             what the note fell behind
    ``unknown_domain``, ``not_vouched``                                the domains there are
    ``too_far_ahead``, ``too_many_segments``, ``too_many_writers``     the bound that it exceeds
    ``implausible_position``                                           the same, by segment
    ``unknown_writer``, ``sealed``                                     `None`
    =================================================================  ==========================

    `beyond` says which time of a note is ``too_far_ahead``, `None` if that is not known. `first`
    says that no note of this process was accepted before: an earlier process noted what it fell
    behind.
    """

    def __init__(
        self,
        writer: str,
        status: str,
        last: int | Mapping[int, int] | tuple[str, ...] | Session | None,
        beyond: Beyond | None = None,
        *,
        first: bool = False,
    ) -> None:
        why = _REFUSAL_REASONS.get(status, "last is {last}")
        if beyond is not None and isinstance(last, int):
            why = f"{beyond.sentence(last)} (at most {{last}} now)"
        if first and status in BEHIND_ANOTHER:
            why += _EARLIER_PROCESS
        shown: object = ", ".join(last) if isinstance(last, tuple) else last
        if status in TIME_STATUSES and isinstance(last, int):
            shown = format_time(last)
        super().__init__(f"note of writer {writer!r} refused as {status}: {why.format(last=shown)}")
        self.writer = writer
        self.status = status
        self.last = last
        self.beyond = beyond


TIME_STATUSES = ("invalid_time", "too_far_ahead")
"""The statuses whose `last` is a time."""

BEHIND_ANOTHER = ("invalid_time", "invalid_position")

_EARLIER_PROCESS = (
    ", noted by an earlier process under its name, which may still be running: join without a "
    "position, flush, and then look up the ends of the segments"
)

_REFUSAL_REASONS = {
    "invalid_time": "it noted {last} before, and a time may not go back",
    "invalid_position": "it was at {last} before, and a position may not go back",
    "unknown_domain": "the stream declares {last}",
    "not_vouched": "it vouches for {last}; add the domain to domains= of its client",
    "sealed": "the stream is sealed and takes no more notes",
    "implausible_position": "at most {last} would be taken; is the offset right, or "
    "max_offset_jump of the stream too small?",
    "unknown_writer": "it never joined, so it can be neither idle nor finished; is the name right?",
}
"""What a refusal means, for those that `last` alone does not explain."""


class NotesRefused(Rejected):
    """No note of a request was accepted; `answer` has the `results` of each, as JSON."""

    kind = ProblemKind("notes_refused", 422)

    def __init__(self, message: str, answer: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.answer = answer


class ImplausibleTime(Rejected):
    """A time asked for looks like seconds, while the times of the stream are Unix milliseconds.

    As milliseconds it lies in the first years after 1970, so it would be complete at once.
    """

    kind = ProblemKind("implausible_time", 422, {"time": 0, "lower": 0}, has_own_class=True)

    def __init__(self, time: int, lower: int) -> None:
        super().__init__(
            f"is {time} in seconds? The times of the stream are in milliseconds, "
            f"so ask for {time * 1000}; the lower is {format_time(lower)}"
        )
        self.time = time
        self.lower = lower


class InvalidScale(Rejected):
    """A scale event contradicts what is known of the stream's segments."""

    kind = ProblemKind("invalid_scale", 422, {"segment": 0})

    def __init__(self, segment: int, reason: str) -> None:
        super().__init__(f"segment {segment}: {reason}")
        self.segment = segment
        self.reason = reason


class InvalidCut(Rejected):
    """A final cut contradicts what is known of the stream's segments.

    `behind` has the noted or marked offsets that the cut is behind, and `beyond` the final offsets
    of the sealed segments that it exceeds.
    """

    kind = ProblemKind("invalid_cut", 422, {"behind": {}, "beyond": {}})

    def __init__(self, behind: Mapping[int, int], beyond: Mapping[int, int]) -> None:
        facts = (("behind what was noted", behind), ("beyond the end of a segment", beyond))
        found = "; ".join(f"{what}: {dict(offsets)}" for what, offsets in facts if offsets)
        super().__init__(f"the final cut is {found[:500]}")
        self.behind = behind
        self.beyond = beyond


class InvalidFinalTime(Rejected):
    """A final time is not above the last lower of its domain, or is an end of int64."""

    kind = ProblemKind("invalid_final_time", 422, {"domain": "", "lower": None})

    def __init__(self, domain: str, time: int, lower: int | None) -> None:
        is_end = lower is None or time > lower
        what = "is an end of int64" if is_end else f"is not above {format_time(lower)}"
        super().__init__(f"final time {format_time(time)} of domain {domain!r} {what}")
        self.domain = domain
        self.lower = lower


class StreamSealed(Rejected):
    """The stream is sealed: it takes no more notes, scale events, domains or writers."""

    kind = ProblemKind("sealed", 422)

    def __init__(self, what: str) -> None:
        super().__init__(f"the stream is sealed and takes no more {what}")


class Recreated(Rejected):
    """A log or topic has other records at the offsets that were noted, or fewer.

    `is_certain` if its id shows that. Its ends do not, unless they stay so: a broker that was
    killed reports lower ones for a moment once it is back, though nothing is lost.
    """

    def __init__(self, log: str, fact: str, *, is_certain: bool = False) -> None:
        first = (
            "Its"
            if is_certain
            else "Restart first: after a failure, ends may lie too low for a moment. If it says so "
            "again, its"
        )
        super().__init__(
            f"{log} was deleted and created again, or lost records: {fact}. {first} stream has the "
            "old offsets: delete the stream too, or name another one, and start again, queries "
            "with a new checkpoint and consumers with another group.id"
        )
        self.is_certain = is_certain


class AnotherLog(Rejected):
    """The positions of a stream are of another log, such as the topic of another cluster."""

    def __init__(self, stream: str, other: OtherLog) -> None:
        super().__init__(
            f"{stream} is of another log: {other.sentence}. Each topic of each cluster needs a "
            "stream of its own, and one that was created again a new one; only a linked or "
            f"restored log may share it (noted-time stream log STREAM {other.given})"
        )
        self.other = other

    @classmethod
    def check(cls, stream: str, logs: Sequence[str], log: str | None) -> None:
        """Raise it if a log that is read is none of the stream's `logs`, where both have ids."""
        if logs and log is not None and log not in logs:
            raise cls(f"stream {stream!r}", OtherLog(logs[-1], log))


class NotObservable(Rejected):
    """The settings of a topic, or of its brokers, do not permit this way to observe it."""


class LimitReached(Rejected):
    """The controller accepts at most `limit` of `what`; `remedy` says what to do."""

    kind = ProblemKind("limit_reached", 422, {"limit": 0})

    def __init__(self, what: str, limit: int, remedy: str) -> None:
        super().__init__(f"the limit of {limit} {what} is reached: {remedy}")
        self.what = what
        self.limit = limit


class TooManySegments(LimitReached):
    """The stream would have more segments than its settings allow."""

    kind = ProblemKind("too_many_segments", 422, {"limit": 0})

    def __init__(self, limit: int) -> None:
        super().__init__("segments of the stream", limit, "raise max_segments of the stream")


class NotAllowed(Rejected):
    """The token is missing, expired or revoked, or lacks the right; another token may have it."""


class SharedName(Rejected):
    """Another process notes under the writer's name: each supersedes the other's requests."""

    def __init__(self, writer: str) -> None:
        super().__init__(
            f"requests of writer {writer!r} are overtaken again and again: "
            "another process notes under its name; give each process a writer name of its own"
        )
        self.writer = writer


class Fenced(Rejected):
    """Another process took over the writer's name, so this one can no longer note: stop it.

    `label` and `session` are those of the younger process, each `None` if not known, and `since` is
    when it took over, in Unix ms. `rows` is how many rows this client was given since its last
    accepted note: no note covers them, unless the younger process found them.
    """

    def __init__(self, writer: str, held: Session, rows: int) -> None:
        written = pluralize(rows, "row") if rows else "what was"
        super().__init__(
            f"writer {writer!r} is fenced: {held.who} took its name over at "
            f"{format_time(held.since)}, so this process notes nothing any more, and {written} "
            "written since its last accepted note may be late; end it, and give each process a "
            "writer name of its own if both are to run"
        )
        self.writer = writer
        self.label = held.label or None
        self.session = held.id
        self.since = held.since
        self.rows = rows


class UnknownStream(Rejected):
    """No stream has that name."""

    kind = ProblemKind("unknown_stream", 404, has_own_class=True)

    def __init__(self, stream: str, alike: Sequence[str] = ()) -> None:
        """`alike` are streams that there are, one of which may be meant."""
        remedy = _suggest(alike) or f"create it with `noted-time stream create {stream}`"
        super().__init__(f"there is no stream {stream!r}: {remedy}")
        self.stream = stream


class UnknownDomain(Rejected):
    """The stream does not declare that domain."""

    kind = ProblemKind(
        "unknown_domain",
        404,
        {"domain": "", "domains": ()},
        {"domains": "declared"},
        has_own_class=True,
    )

    def __init__(self, domain: str, declared: Iterable[str]) -> None:
        self.domain = domain
        self.declared = tuple(declared)
        super().__init__(
            f"the stream has no domain {domain!r}; it declares {', '.join(self.declared)}"
        )


class UnknownWriter(Rejected):
    """The stream has no member of that name."""

    kind = ProblemKind("unknown_writer", 404, {"writer": ""}, has_own_class=True)

    def __init__(self, writer: str, alike: Sequence[str] = ()) -> None:
        """`alike` are writers that there are, one of which may be meant."""
        remedy = _suggest(alike) or "`noted-time writers STREAM` lists them"
        super().__init__(f"there is no writer {writer!r}: {remedy}")
        self.writer = writer


def _suggest(alike: Sequence[str]) -> str:
    return f"did you mean {' or '.join(map(repr, alike))}?" if alike else ""


class OpenStream(Rejected):
    """All writers are required of a stream that expects none: who should be there is not known."""

    kind = ProblemKind("open_stream", 422, {"stream": ""}, has_own_class=True)

    def __init__(self, stream: str) -> None:
        super().__init__(
            f"{stream} expects no writers, so who should be there is not known: declare them "
            f"(`noted-time stream create {stream} --expected-writer …`), or name them "
            "(`--require …`), or accept those that ever joined (`--require-known`)"
        )
        self.stream = stream


class WritersMissing(Rejected):
    """A window is complete, but time passed it without these writers: rows may be missing.

    `missing` has at most 100 of the `missing.count` writers. If `missing.is_known` is false it is
    not known which writers are missing.
    """

    def __init__(self, missing: Missing) -> None:
        super().__init__(f"the window is complete, {missing.sentence}")
        self.missing = missing


class RowsLate(Rejected):
    """A window is complete, but these writers wrote rows of it too late for a read to return them.

    `late` has at most 100 of the `late.count` writers. If `late.is_known` is false it is not known
    which rows are late.
    """

    def __init__(self, late: Late) -> None:
        super().__init__(f"the window is complete, {late.sentence}")
        self.late = late


class UnknownReader(Rejected):
    """The reader group, or the reader in it, never reported a position."""

    kind = ProblemKind("unknown_reader", 404, {"group": "", "reader": None}, has_own_class=True)

    def __init__(self, group: str, reader: str | None = None) -> None:
        who = f"reader group {group!r}" if reader is None else f"reader {reader!r} of {group!r}"
        super().__init__(f"{who} is not online: it has reported no position")
        self.group = group
        self.reader = reader


class Conflict(NotedTimeError):
    """What was read has changed: read again, then retry."""

    kind = ProblemKind("conflict", 409)


class MarkConflict(Conflict):
    """A mark with that seq is already there, appended by another owner."""

    def __init__(self, stream: str, domain: str, seq: int) -> None:
        super().__init__(
            f"mark {seq} of stream {stream!r}, domain {domain!r} was appended by another"
        )
        self.stream = stream
        self.domain = domain
        self.seq = seq


class AlreadySealed(Conflict):
    """The stream was sealed before, with another cut or other final times."""

    kind = ProblemKind("already_sealed", 409)

    def __init__(self) -> None:
        super().__init__("the stream is already sealed, with another cut or other final times")


class NotedMeanwhile(Conflict):
    """The writer sent a note after the given moment.

    `noted_at` is when, in Unix ms.
    """

    kind = ProblemKind("noted_meanwhile", 409, {"writer": "", "noted_at": 0}, has_own_class=True)

    def __init__(self, writer: str, noted_at: int) -> None:
        super().__init__(f"writer {writer!r} has noted meanwhile; look again before you remove it")
        self.writer = writer
        self.noted_at = noted_at


class NotLive(Conflict):
    """Nothing waits for the writer: it is idle, finished or excluded, its `state`."""

    kind = ProblemKind("not_live", 409, {"writer": "", "state": ""})

    def __init__(self, writer: str, state: str) -> None:
        super().__init__(
            f"writer {writer!r} is {state}: nothing waits for it, so it has no timeout to suspend; "
            "hold it once it has noted again"
        )
        self.writer = writer
        self.state = state


class NotCompleteYet(Conflict):
    """No mark is complete to the time asked for."""

    kind = ProblemKind(
        "not_complete_yet",
        404,
        {"lower": None, "complete_to": 0},
        {"complete_to": "time"},
        has_own_class=True,
    )

    def __init__(self, time: int, lower: int | None) -> None:
        now = "there is no mark yet" if lower is None else f"the lower is {format_time(lower)}"
        super().__init__(f"time {format_time(time)} is not complete yet: {now}")
        self.time = time
        self.lower = lower


class Unreachable(NotedTimeError):
    """The controller did not answer; whether it acted is unknown.

    `retry_after_s` is how long it asked clients to wait, if it did.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnexpectedAnswer(Unreachable):
    """The answer is not that of a controller of this version, but of a proxy or another service.

    The outcome of the request is unknown, so it is retried; the URL may be wrong. `why` says what
    was odd in an answer that looked like a controller's, empty if it did not.
    """

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why


class ClientFailed(NotedTimeError):
    """The client itself failed, and no longer sends or follows.

    `__cause__` is the fault. What `flush` did not confirm may not be durable. Create a new client,
    and report the cause.
    """


class DeliveryFailed(NotedTimeError):
    """Events did not reach the log, so the writer's notes are held.

    `failed` is how many, and `reason` what the log says of the first. Produce them again, or decide
    that they are lost, and call `forgive()`. In a transaction, all of its events failed; there is
    nothing to forgive. Kafka refuses events in batches: one that is too large fails all others of
    its batch.
    """

    def __init__(
        self,
        writer: str,
        failed: int,
        reason: str,
        *,
        is_aborted: bool = False,
        drops_notes: bool = False,
    ) -> None:
        remedy = "its notes are held: produce what failed again, then call forgive()"
        if is_aborted:
            remedy = "the transaction was aborted: produce all of its events again"
        elif drops_notes:
            remedy = (
                "its notes are held: call forgive(), which drops them, produce what failed again, "
                "and note time again"
            )
        super().__init__(
            f"events of writer {writer!r} were not delivered: {failed}, the first because of "
            f"{reason}; {remedy}"
        )
        self.failed = failed
        self.reason = reason
