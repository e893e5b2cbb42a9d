"""The JSON bodies of answers, as OpenAPI shows them; pydantic checks none of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from controller.api.backlog_shapes import BacklogPolicyShape, CauseShape
from controller.api.order_shapes import ReaderLagShape
from controller.api.shapes import Position
from controller.store.port import Action


class MarkShape(BaseModel):
    """A mark: events with time < lower of every vouching writer lie below the cut."""

    seq: int
    lower: int
    upper: int
    cut: Position
    written_at: int
    excluded: list[str]
    upper_is_bound: bool
    final: bool


class ScaleShape(BaseModel):
    """A scale event that was taken."""

    sealed: Position
    created: dict[str, list[int]]


class SealShape(BaseModel):
    """When (Unix ms) a stream was sealed, and its final cut."""

    at: int
    cut: Position


class StreamShape(BaseModel):
    """A stream: its creation id, settings, last mark per domain, scale events, and its seal."""

    name: str
    id: str
    writer_timeout_ms: int
    mark_interval_ms: int
    returning_writer: str
    domains: list[str]
    mark_retention_ms: int
    max_time_ahead_ms: int | None
    writer_retention_ms: int
    expected_writers: list[str]
    reader_timeout_ms: int
    max_segments: int
    max_offset_jump: int | None
    marks: dict[str, MarkShape | None]
    scale_events: list[ScaleShape]
    corrections: int
    seal: SealShape | None


class TruncatedShape(StreamShape):
    """The stream; how many marks of each domain were dropped, or would be.

    `beyond` says that the cut goes beyond the last mark of some domain.
    """

    beyond: bool
    dropped: dict[str, int]


class SealedShape(StreamShape):
    """The stream; `never_noted` has members that joined and noted no time, at most 1000."""

    never_noted: list[str]


class StreamsPage(BaseModel):
    """A page of streams by name; `next` is the `after` of the next page."""

    streams: list[StreamShape]
    next: str | None


class ExclusionShape(BaseModel):
    """Why the watermark advanced without a writer, and since when in Unix ms.

    It ends when the writer, having returned, has noted a time above the lower.
    """

    reason: Literal["timed_out", "removed", "returned_late"]
    since: int


class LateShape(BaseModel):
    """Rows below the lower that a writer reported."""

    rows: int
    least: int


class SessionShape(BaseModel):
    """The process that has a writer's name, and since when; `null` where none has it."""

    session: str | None
    label: str
    since: int


class WriterShape(BaseModel):
    """A member: every moment in Unix ms; `timeout_ms` and `domains` are what it declared itself.

    Until `held_until` an operator keeps it from timing out. `session` is the process that has its
    name. `times_out_in_ms` and `lower_without`, the lower that there would be without it, are those
    of a holder of the domain asked for.
    """

    writer: str
    state: Literal["live", "idle", "finished", "excluded"]
    times: dict[str, int]
    position: Position
    noted_at: int
    holding_since: int | None
    excluded: ExclusionShape | None
    timeout_ms: int | None
    domains: list[str] | None
    held_until: int | None
    late: dict[str, LateShape]
    session: SessionShape | None
    times_out_in_ms: int | None
    lower_without: int | None


class ReplacedShape(BaseModel):
    """A wrong offset, and the marks of a domain that have it."""

    domain: str
    segment: int
    offset: int
    first_seq: int
    last_seq: int


class CorrectedShape(BaseModel):
    """What correcting a position does: what cuts have in place of the offsets that are replaced.

    At most 1000 of them are named.
    """

    dry_run: bool
    cuts: Position
    replaced: list[ReplacedShape]


class WritersPage(BaseModel):
    """A page of members, the longest holder first; `next` is the `start` of the next page.

    `total` counts the members that are asked for, `states` all members of the stream.
    """

    now: int
    total: int
    writers: list[WriterShape]
    states: dict[Literal["live", "idle", "finished", "excluded"], int]
    next: int | None


class MarksAnswer(BaseModel):
    """Marks after a seq; `stream_id` tells a stream made again under the same name.

    `sealed`: no mark follows the last one. `final_cut` is where the stream ends then, null before.
    Where `corrections` is more than before, read all marks again. `has_more`: the answer ended
    before the last mark there is. `quiet`: no writer is waited for, and no mark follows until one
    is live again.
    """

    stream_id: str
    scale_events: int
    corrections: int
    sealed: bool
    final_cut: Position | None
    quiet: bool
    marks: list[MarkShape]
    has_more: bool


class WindowShape(BaseModel):
    """A time window; null where no mark bounds it. `sealed`: all of a sealed stream was read."""

    lower: int | None
    upper: int | None
    lower_seq: int | None
    upper_seq: int | None
    sealed: bool


class GroupShape(BaseModel):
    """A reader group: its combined position, each reader's segments, and the window per domain.

    `backlog` says whether it has one, `because` by what, and `since` since when in Unix ms.
    """

    position: Position
    readers: dict[str, Position]
    windows: dict[str, WindowShape]
    backlog: bool
    because: list[CauseShape]
    since: int | None


class GroupNowShape(GroupShape):
    """The same, and per domain how far its lower is behind the watermark, and each reader."""

    now: int
    behind: dict[str, int | None]
    lags: dict[str, dict[str, ReaderLagShape]]
    backlog_policy: BacklogPolicyShape | None


class GroupRowShape(BaseModel):
    """A reader group: readers online, segments of its position, last report if any in Unix ms.

    Per domain its window, and how far its lower is behind the watermark.
    """

    group: str
    readers: int
    segments: int
    reported_at: int | None
    windows: dict[str, WindowShape]
    behind: dict[str, int | None]


class GroupsPage(BaseModel):
    """A page of reader groups by name; `next` is the `after` of the next page."""

    now: int
    groups: list[GroupRowShape]
    next: str | None


class WaitingShape(BaseModel):
    """A member that is waited for."""

    writer: str
    time: int | None
    held_for_ms: int
    times_out_in_ms: int


class WouldShape(BaseModel):
    """What a dry run leads to: with `advance` the next mark's lower, cut and excluded writers."""

    decision: Literal["advance", "hold", "quiet", "sealed"]
    lower: int | None
    cut: Position | None
    excluded: list[str]


class HintShape(BaseModel):
    """A writer whose notes look wrong: `detail` says it, to follow the writer's name.

    Two processes noted under its name within the hour (`fenced`), its time is probably in
    `seconds`, or it noted times and never named a position (`no_position`).
    """

    writer: str
    hint: Literal["fenced", "seconds", "no_position"]
    detail: str


class ExplainShape(BaseModel):
    """The decision now; `waiting_for` names some of the `holders`, the longest first.

    `lower_without` is the lower that the stream would have without each of them; `hints` name ten
    writers whose notes look wrong. `sentences` put it in words: first what was decided, last what
    the dry run leads to.
    """

    now: int
    decision: Literal["advance", "hold", "quiet", "sealed"]
    lower: int | None
    written_at: int | None
    next_lower: int | None
    waiting_for: list[WaitingShape]
    holders: int
    lower_without: dict[str, int | None]
    would: WouldShape | None
    hints: list[HintShape]
    sentences: list[str]


class AbsenceShape(BaseModel):
    """A writer that a mark went on without, or one that reported late rows.

    `since` is when it was excluded, in Unix ms. Its events may be missing from the time
    `missing_from` on, `null`: at any time.
    """

    writer: str
    time: int | None
    position: Position
    reason: Literal["timed_out", "removed", "returned_late", "late_rows", "sealed", "corrected"]
    late: LateShape | None
    since: int | None
    missing_from: int | None


class EntryShape(BaseModel):
    """One mark of the ledger, `at` in Unix ms; `by` is who removed or corrected a writer by hand.

    `returned` names the writers that are missing no longer as of this mark.
    """

    seq: int
    at: int
    from_: Annotated[int | None, Field(alias="from")]
    to: int
    writers: list[AbsenceShape]
    by: str | None
    returned: list[str]


class LedgerPage(BaseModel):
    """A page of the ledger by seq; `next` is the `after` of the next page, in the same order."""

    entries: list[EntryShape]
    next: int | None


class ChangeShape(BaseModel):
    """A change made by hand, `at` in Unix ms: `by` whom, and why where they said it.

    Of changed settings `was` and `is` have those that changed.
    """

    number: int
    at: int
    action: Action
    writer: str | None
    was: dict[str, Any] | None
    is_: Annotated[dict[str, Any] | None, Field(alias="is")]
    by: str | None
    comment: str | None


class ChangesPage(BaseModel):
    """A page of the changes, the newest first; `next` is the `before` of the next page."""

    changes: list[ChangeShape]
    next: int | None


class AccessShape(BaseModel):
    """Whether tokens are asked for, the id of the one that was shown, and what it permits."""

    tokens: bool
    token: str | None
    administer: bool
    read_all: bool


class ExcludedShape(ExclusionShape):
    """The same to the writer itself; what it writes below `lower` is late."""

    lower: int | None


class AcceptedShape(BaseModel):
    """The note is durable; `lower` is the last mark's: what lies below is already late.

    `excluded` is there while the watermark goes on without the writer. Where it joined by this note
    `timeout_ms` is that in force, its own or the stream's, and `position` and `times` are all that
    is known of the writer's (the last time by domain), if it named a position before.
    """

    status: Literal["accepted"]
    lower: int | None
    excluded: ExcludedShape | None = None
    position: Position | None = None
    times: dict[str, int] | None = None
    timeout_ms: int | None = None


class InvalidPositionShape(BaseModel):
    """The note goes back in these segments, or beyond the end of a sealed one, or too far ahead.

    `last` are the offsets that it fell behind, the ends of segments, or the largest taken now.
    """

    status: Literal["invalid_position", "implausible_position"]
    last: Position


class NotVouchedShape(BaseModel):
    """The writer does not vouch for the note's domain; `last` are those it does."""

    status: Literal["not_vouched"]
    last: list[str]


class UnknownShape(BaseModel):
    """The stream declares no such domain, nobody knows a writer that is done, or it is sealed."""

    status: Literal["unknown_domain", "unknown_writer", "sealed"]
    last: None


class RefusedShape(BaseModel):
    """The note falls behind, or goes beyond a bound of the stream.

    `last` is the writer's last time or sequence, or how many segments or writers there may be.
    """

    status: Literal["invalid_time", "superseded", "too_many_segments", "too_many_writers"]
    last: int


class TooFarAheadShape(BaseModel):
    """A time of the note is beyond the largest that is allowed now, `last`.

    `field` says which: `time`, `max_time`, or `max_times.` and the domain; `detail` how far, and in
    which unit it may be.
    """

    status: Literal["too_far_ahead"]
    last: int
    field: str
    time: int
    detail: str


class FencedShape(BaseModel):
    """Another process took the writer's name over: this one's notes are refused from then on."""

    status: Literal["fenced"]
    last: SessionShape


class NotesAnswer(BaseModel):
    """What became of each note, in order, and how many were refused.

    `domains` are those that the stream declares, if a note was of another.
    """

    refused: int
    results: list[
        AcceptedShape
        | InvalidPositionShape
        | NotVouchedShape
        | UnknownShape
        | RefusedShape
        | TooFarAheadShape
        | FencedShape
    ]
    domains: list[str] | None = None


class Problem(BaseModel):
    """An RFC 9457 problem document; `code` is the kind."""

    type: str
    title: str
    status: int
    code: str
    detail: str


class NotesRefused(NotesAnswer, Problem):
    """The problem `notes_refused`: the request had no note that was accepted."""
