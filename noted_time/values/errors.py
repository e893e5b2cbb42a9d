"""The errors of noted-time, sorted by how the caller should react.

::

    NotedTimeError
    ├── Rejected            do not retry: the request itself is wrong
    │   ├── InvalidName
    │   ├── Unreadable
    │   ├── InvalidNote
    │   ├── NotesRefused
    │   ├── ImplausibleTime
    │   ├── InvalidScale
    │   ├── InvalidCut
    │   ├── InvalidFinalTime
    │   ├── StreamSealed
    │   ├── LimitReached
    │   │   └── TooManySegments
    │   ├── NotAllowed
    │   ├── SharedName
    │   ├── Fenced          stop writing
    │   ├── Recreated
    │   ├── AnotherLog
    │   ├── AnotherForm
    │   ├── NotObservable
    │   ├── UnreadableRows
    │   ├── UnknownStream
    │   ├── UnknownCall
    │   ├── UnknownDomain
    │   ├── UnknownWriter
    │   ├── UnknownReader
    │   └── RowsMissing
    ├── Conflict            read again, then retry
    │   ├── AlreadySealed
    │   ├── MarkConflict
    │   ├── NotLive
    │   ├── NotedMeanwhile
    │   └── NotCompleteYet
    ├── Unreachable         retry with backoff: the outcome is unknown
    │   └── UnexpectedAnswer
    ├── DeliveryFailed      produce the events again, then forgive
    └── ClientFailed        create a new client and report the cause
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from noted_time.installation import name_program
from noted_time.values.fencing import Session
from noted_time.values.spelling import OtherLog
from noted_time.values.times import (
    Beyond,
    Int64,
    format_time,
    pluralize,
    refuse_seconds,
    suspect_seconds,
)
from noted_time.values.writer_state import Late, Missing


class ProblemKind(Struct, frozen=True):
    """How a controller reports an error over HTTP: the code, the status and the facts.

    `facts` maps each additional field of the problem to its default in clients. A field is an
    attribute of the error with the same name, or with the name in `attributes`. If `has_own_class`,
    clients raise this class with the facts as arguments, otherwise a class by the status.
    """

    code: str
    status: int
    facts: Mapping[str, Any] = {}
    attributes: Mapping[str, str] = {}
    has_own_class: bool = False

    def members(self, error: Exception) -> dict[str, Any]:
        return {fact: getattr(error, self.attributes.get(fact, fact)) for fact in self.facts}

    def arguments(self, problem: Mapping[str, Any]) -> dict[str, Any]:
        values = {**self.facts, **problem}
        return {self.attributes.get(fact, fact): values[fact] for fact in self.facts}


class NotedTimeError(Exception):
    """The base class of all errors."""

    if TYPE_CHECKING:
        kind: ClassVar[ProblemKind]


class Rejected(NotedTimeError):
    """The request itself is wrong. Do not retry."""

    kind = ProblemKind("rejected", 422)


class InvalidName(Rejected):
    """A name does not match ``[A-Za-z0-9._-]{1,249}``, or is ``.`` or ``..``."""

    kind = ProblemKind("invalid_name", 422)

    def __init__(self, subject: str, name: str) -> None:
        legal = "1 to 249 characters of A-Z a-z 0-9 . _ -, and neither . nor .."
        super().__init__(f"{subject} {name[:260]!r} is not {legal}")
        self.what = subject
        self.name = name


class Unreadable(Rejected):
    """A text is not a time, a duration or a URL."""


class InvalidNote(Rejected):
    """A note was refused.

    `Refused` lists `status` and `last`; for ``unknown_domain``, `last` has the declared domains.
    If `first`, this process has no accepted note, so the note is behind an earlier process.
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
        reason = _REFUSAL_REASONS.get(status, "last is {last}")
        if beyond is not None and isinstance(last, int):
            reason = f"{beyond.sentence(last)} (at most {{last}} now)"
        if beyond is not None and status == "implausible_time":
            reason = refuse_seconds(beyond.time)
        if first and status in BEHIND_ANOTHER:
            reason += _EARLIER_PROCESS
        shown_last: object = ", ".join(last) if isinstance(last, tuple) else last
        if status in TIME_STATUSES and isinstance(last, int):
            shown_last = format_time(last)
        super().__init__(
            f"note of writer {writer!r} refused as {status}: {reason.format(last=shown_last)}"
        )
        self.writer = writer
        self.status = status
        self.last = last
        self.beyond = beyond


TIME_STATUSES = ("invalid_time", "too_far_ahead")

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


class NotesRefused(Rejected):
    """No note of a request was accepted. `answer` contains the `results` as JSON."""

    kind = ProblemKind("notes_refused", 422)

    def __init__(self, message: str, answer: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.answer = answer


class ImplausibleTime(Rejected):
    """A requested time seems to be in seconds, while the times of the stream are Unix ms."""

    kind = ProblemKind("implausible_time", 422, {"time": 0, "lower": 0}, has_own_class=True)

    def __init__(self, time: Int64, lower: Int64) -> None:
        super().__init__(
            f"{suspect_seconds(time)}, so ask for {time * 1000}; the lower is {format_time(lower)}"
        )
        self.time = time
        self.lower = lower


class InvalidScale(Rejected):
    """A scale event contradicts the known segments of the stream."""

    kind = ProblemKind("invalid_scale", 422, {"segment": 0})

    def __init__(self, segment: int, reason: str) -> None:
        super().__init__(f"segment {segment}: {reason}")
        self.segment = segment
        self.reason = reason


class InvalidCut(Rejected):
    """A final cut contradicts the known segments of the stream.

    `behind` has noted offsets above the cut, `beyond` final offsets of sealed segments below it.
    """

    kind = ProblemKind("invalid_cut", 422, {"behind": {}, "beyond": {}})

    def __init__(self, behind: Mapping[int, int], beyond: Mapping[int, int]) -> None:
        facts = (("behind what was noted", behind), ("beyond the end of a segment", beyond))
        conflicts = "; ".join(
            f"{conflict}: {dict(offsets)}" for conflict, offsets in facts if offsets
        )
        super().__init__(f"the final cut is {conflicts[:500]}")
        self.behind = behind
        self.beyond = beyond


class InvalidFinalTime(Rejected):
    """A final time is not above the last lower of its domain, or is an end of int64."""

    kind = ProblemKind("invalid_final_time", 422, {"domain": "", "lower": None})

    def __init__(self, domain: str, time: int, lower: int | None) -> None:
        is_end = lower is None or time > lower
        fault = "is an end of int64"
        if not is_end:
            fault = f"is not above {format_time(lower)}"
        super().__init__(f"final time {format_time(time)} of domain {domain!r} {fault}")
        self.domain = domain
        self.lower = lower


class StreamSealed(Rejected):
    """The stream is sealed: it accepts no more notes, scale events, domains or writers."""

    kind = ProblemKind("sealed", 422)

    def __init__(self, changes: str) -> None:
        super().__init__(f"the stream is sealed and takes no more {changes}")


class Recreated(Rejected):
    """A log or topic has other records than before at the noted offsets, or fewer records.

    It `is_certain` if the id of the log changed. A killed broker can report lower ends briefly.
    """

    def __init__(self, log: str, fact: str, *, is_certain: bool = False) -> None:
        doubt = (
            "Restart first, because after a failure ends may be too low for a moment. If this "
            "error repeats, the"
        )
        beginning = "The" if is_certain else doubt
        super().__init__(
            f"{log} was deleted and created again, or lost records: {fact}. {beginning} stream "
            "still has the old offsets: delete it or use another one. Then start queries with a "
            "new checkpoint and consumers with another group.id"
        )
        self.is_certain = is_certain


class AnotherLog(Rejected):
    """The positions of the stream belong to another log, such as a topic of another cluster."""

    def __init__(self, stream: str, other: OtherLog) -> None:
        super().__init__(
            f"{stream} belongs to another log: {other.sentence}. Use a separate "
            "stream for each topic of each cluster, and a new stream for a topic that was created "
            "again. Only a linked or restored log may share the stream "
            f"({name_program()} stream log STREAM {other.given})"
        )
        self.other = other

    @classmethod
    def check(cls, stream: str, logs: Sequence[str], log: str | None) -> None:
        """Raise the error if `log` is not in the `logs` of a stream; logs without ids pass."""
        if logs and log is not None and log not in logs:
            raise cls(f"stream {stream!r}", OtherLog(logs[-1], log))


class AnotherForm(Rejected):
    """The event times of the stream are read in another form.

    `stated` and `other` are both forms in words.
    """

    kind = ProblemKind("another_form", 422, {"stated": "", "other": ""}, has_own_class=True)

    def __init__(self, stated: str, other: str) -> None:
        super().__init__(
            f"the event times are read as stated, {stated}, and not in another form, {other}: use "
            f"the stated one, or state the other one from now on (`{name_program()} stream set "
            "STREAM --event-time-form …`)"
        )
        self.stated = stated
        self.other = other


class NotObservable(Rejected):
    """The settings of a topic, its brokers or its registry prevent this way of observing it."""


class UnreadableRows(Rejected):
    """A log may have rows that cannot be read, or not yet, so its watermark waits.

    `segment` may have them. `pattern` names them in printable characters.
    """

    def __init__(self, fact: str, segment: int, pattern: str) -> None:
        super().__init__(fact)
        self.segment = segment
        self.pattern = pattern


class LimitReached(Rejected):
    """The controller accepts at most `limit` of `what`. `remedy` states the solution."""

    kind = ProblemKind("limit_reached", 422, {"limit": 0})

    def __init__(self, resources: str, limit: int, remedy: str) -> None:
        super().__init__(f"the limit of {limit} {resources} is reached: {remedy}")
        self.what = resources
        self.limit = limit


class TooManySegments(LimitReached):
    """The stream would have more segments than its settings allow."""

    kind = ProblemKind("too_many_segments", 422, {"limit": 0})

    def __init__(self, limit: int) -> None:
        super().__init__("segments of the stream", limit, "raise max_segments of the stream")


class NotAllowed(Rejected):
    """The token is missing, expired or revoked, or does not have the required right."""


class SharedName(Rejected):
    """Another process notes under the name of the writer, and each supersedes the other."""

    def __init__(self, writer: str) -> None:
        super().__init__(
            f"requests of writer {writer!r} are overtaken again and again, "
            "because another process notes under its name: give each process its own writer name"
        )
        self.writer = writer


class Fenced(Rejected):
    """Another process took over the name of the writer: stop this process.

    - `label`, `session`: the younger process, each `None` if it is not known.
    - `began_at`: when the younger process took over (Unix ms).
    - `rows`: the number of rows since the last accepted note of this client. No note covers them,
      unless the younger process found them.
    """

    def __init__(self, writer: str, session: Session, rows: int) -> None:
        written_rows = pluralize(rows, "row") if rows else "rows"
        super().__init__(
            f"writer {writer!r} is fenced: {session.who} took its name over at "
            f"{format_time(session.began_at)}, so this process can no longer note, and "
            f"{written_rows} written since its last accepted note may be late: end this process. "
            "To run both, give each process its own writer name"
        )
        self.writer = writer
        self.label = session.label or None
        self.session = session.id
        self.began_at = session.began_at
        self.rows = rows


class UnknownStream(Rejected):
    """No stream has this name."""

    kind = ProblemKind("unknown_stream", 404, has_own_class=True)

    def __init__(self, stream: str, similar_names: Sequence[str] = (), remedy: str = "") -> None:
        remedy = remedy or f"create it with `{name_program()} stream create {stream}`"
        super().__init__(f"there is no stream {stream!r}: {suggest_names(similar_names) or remedy}")
        self.stream = stream


class UnknownCall(Rejected):
    """The controller does not have this call, because it is older or the URL is wrong."""

    kind = ProblemKind("not_found", 404, {"detail": ""}, has_own_class=True)

    def __init__(self, detail: str) -> None:
        super().__init__(f"404 Not found: {detail}")
        self.detail = detail


class UnknownDomain(Rejected):
    """The stream does not declare this domain."""

    kind = ProblemKind(
        "unknown_domain",
        404,
        {"domain": "", "domains": ()},
        {"domains": "declared"},
        has_own_class=True,
    )

    def __init__(self, domain: str, declared: Collection[str]) -> None:
        self.domain = domain
        self.declared = tuple(declared)
        super().__init__(
            f"the stream has no domain {domain!r}; it declares {', '.join(self.declared)}"
        )


class UnknownWriter(Rejected):
    """The stream has no member with this name."""

    kind = ProblemKind("unknown_writer", 404, {"writer": ""}, has_own_class=True)

    def __init__(
        self, writer: str, similar_names: Sequence[str] = (), stream: str = "STREAM"
    ) -> None:
        remedy = suggest_names(similar_names) or f"`{name_program()} writers {stream}` lists them"
        super().__init__(f"there is no writer {writer!r}: {remedy}")
        self.writer = writer


def suggest_names(names: Sequence[str]) -> str:
    """Return a question that names what may be meant.

    >>> suggest_names(["lima", "lyon"]), suggest_names([])
    ("did you mean 'lima' or 'lyon'?", '')
    """
    if not names:
        return ""
    return f"did you mean {' or '.join(map(repr, names))}?"


class RowsMissing(Rejected):
    """A window is complete, but it may lack rows of missing writers, or rows that came too late.

    `missing` are writers that the watermark advanced without, `late` writers with late rows. Each
    names at most 100. If its `is_known` is false, there may be more.
    """

    def __init__(self, missing: Missing, late: Late) -> None:
        super().__init__(f"the window is complete{missing.sentence}{late.sentence}")
        self.missing = missing
        self.late = late


class UnknownReader(Rejected):
    """The reader group, or the reader in it, has never reported a position."""

    kind = ProblemKind("unknown_reader", 404, {"group": "", "reader": None}, has_own_class=True)

    def __init__(self, group: str, reader: str | None = None) -> None:
        if reader is None:
            subject = f"reader group {group!r}"
        else:
            subject = f"reader {reader!r} of {group!r}"
        super().__init__(f"{subject} is not online: it has reported no position")
        self.group = group
        self.reader = reader


class Conflict(NotedTimeError):
    """The state has changed since it was read. Read it again, then retry."""

    kind = ProblemKind("conflict", 409)


class MarkConflict(Conflict):
    """Another owner appended a mark with this seq first."""

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
    """The writer to remove has sent a note since, at `noted_at` (Unix ms)."""

    kind = ProblemKind("noted_meanwhile", 409, {"writer": "", "noted_at": 0}, has_own_class=True)

    def __init__(self, writer: str, noted_at: Int64) -> None:
        super().__init__(
            f"writer {writer!r} has noted meanwhile; check it again before you remove it"
        )
        self.writer = writer
        self.noted_at = noted_at


class NotLive(Conflict):
    """The watermark does not wait for the writer: its `state` is idle, finished or excluded."""

    kind = ProblemKind("not_live", 409, {"writer": "", "state": ""})

    def __init__(self, writer: str, state: str) -> None:
        super().__init__(
            f"writer {writer!r} is {state}: the watermark does not wait for it, so it has no "
            "timeout to suspend. Hold the writer after it has noted again"
        )
        self.writer = writer
        self.state = state


class NotCompleteYet(Conflict):
    """No mark is complete to the requested time."""

    kind = ProblemKind(
        "not_complete_yet",
        404,
        {"lower": None, "complete_to": 0},
        {"complete_to": "time"},
        has_own_class=True,
    )

    def __init__(self, time: Int64, lower: Int64 | None, sentence: str = "") -> None:
        state = "there is no mark yet"
        if lower is not None:
            state = f"the lower is {format_time(lower)}"
        super().__init__(sentence or f"time {format_time(time)} is not complete yet: {state}")
        self.time = time
        self.lower = lower


class Unreachable(NotedTimeError):
    """The controller did not answer, so the outcome of the request is unknown.

    `retry_after_s` is the delay that the controller requested, or `None`.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnexpectedAnswer(Unreachable):
    """The answer is not from a controller of this version: the URL may be wrong.

    If the answer looks like a controller's, `why` is the difference.
    """

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why


class ClientFailed(NotedTimeError):
    """The client failed and no longer sends or follows.

    Notes that `flush` did not confirm may be lost. Create a new client, and report `__cause__`.
    """


class DeliveryFailed(NotedTimeError):
    """Events were not written to the log, so the notes of the writer are kept back.

    `failed` is the number of events, and `reason` is the error of the first. Produce the events
    again, or accept their loss, and call `forgive()`, except after a transaction, whose events all
    fail. Kafka refuses a whole batch if one event is too large.
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
        remedy = "its notes are kept back: produce what failed again, then call forgive()"
        if is_aborted:
            remedy = "the transaction was aborted: produce all of its events again"
        elif drops_notes:
            remedy = (
                "its notes are kept back: call forgive(), which drops them, produce what failed "
                "again, "
                "and note time again"
            )
        super().__init__(
            f"events of writer {writer!r} were not delivered: {failed}, the first because of "
            f"{reason}; {remedy}"
        )
        self.failed = failed
        self.reason = reason
