"""The JSON bodies of the API as pydantic knows them: what is checked, and what OpenAPI shows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from noted_time.cut import MAX_INT64, MIN_INT64
from noted_time.note import MAX_NOTES_PER_REQUEST, SEGMENTS_PER_POSITION

SEGMENTS = 10**18
"""Segment ids are below this, so that the pattern of their names in JSON says it all."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Int64 = Annotated[int, Field(ge=MIN_INT64, le=MAX_INT64)]
Duration = Annotated[int, Field(ge=0, le=MAX_INT64)]
Offset = Annotated[int, Field(ge=0, le=MAX_INT64)]
Segment = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,17})$")]
Position = Annotated[
    dict[Segment, Offset],
    Field(
        description="segment → exclusive offset; a missing segment means 0",
        json_schema_extra={"additionalProperties": False},
    ),
]
GivenPosition = Annotated[Position, Field(max_length=SEGMENTS_PER_POSITION)]
Predecessor = Annotated[int, Field(ge=0, lt=SEGMENTS)]


SOME = Field(max_length=SEGMENTS_PER_POSITION)
DIFFERENT = Field(min_length=1, max_length=100, json_schema_extra={"uniqueItems": True})


class Request(BaseModel):
    """A body: unknown fields are refused, and so are numbers in strings."""

    model_config = ConfigDict(extra="forbid", strict=True)


class StreamChanges(Request):
    """The settings of a stream to set or change; all optional, durations in ms."""

    writer_timeout_ms: Annotated[int, Field(ge=1, le=MAX_INT64)] | None = None
    mark_interval_ms: Duration | None = None
    returning_writer: Literal["hold", "exclude"] | None = None
    keys: Annotated[list[Name], DIFFERENT] | None = None
    mark_retention_ms: Duration | None = None
    max_time_ahead_ms: Annotated[
        Duration | None,
        Field(description="how far beyond the wall clock a note's time may be; null: any time"),
    ] = None
    writer_retention_ms: Duration | None = None


class Note(Request):
    """One writer's claim: all its events with time < `time` lie below `position`."""

    writer: Name
    time: Int64 | None = None
    position: GivenPosition = Field(default_factory=dict)
    key: Name | None = None
    max_time: Int64 | None = None
    state: Literal["live", "idle", "left"] = "live"
    sequence: Annotated[int, Field(ge=1, le=MAX_INT64)] | None = None


class NotesBody(Request):
    """1 to 1000 notes."""

    notes: Annotated[list[Note], Field(min_length=1, max_length=MAX_NOTES_PER_REQUEST)]


class WindowRequest(Request):
    """A reader's position."""

    position: GivenPosition
    key: Name | None = None


class ReaderReport(Request):
    """How far a reader has read."""

    position: GivenPosition = Field(default_factory=dict)


class ScaleRequest(Request):
    """Segments sealed at their final offsets; successors created: segment → predecessors."""

    sealed: GivenPosition = Field(default_factory=dict)
    created: dict[Segment, Annotated[list[Predecessor], SOME]] = Field(
        default_factory=dict,
        max_length=SEGMENTS_PER_POSITION,
        json_schema_extra={"additionalProperties": False},
    )


class TruncateRequest(Request):
    """Where the stream's own retention lets readers begin."""

    cut: Position


class MarkShape(BaseModel):
    """A mark: events with time < lower of every vouching writer lie below the cut."""

    seq: int
    lower: int
    upper: int
    cut: Position
    written_at: int
    left_out: list[str]


class ScaleShape(BaseModel):
    """A scale event that was taken."""

    sealed: Position
    created: dict[str, list[int]]


class StreamShape(BaseModel):
    """A stream: its creation id, settings, last mark per key and scale events."""

    name: str
    id: str
    writer_timeout_ms: int
    mark_interval_ms: int
    returning_writer: str
    keys: list[str]
    mark_retention_ms: int
    max_time_ahead_ms: int | None
    writer_retention_ms: int
    marks: dict[str, MarkShape | None]
    scale_events: list[ScaleShape]


class StreamsPage(BaseModel):
    """A page of streams by name; `next` is the `after` of the next page."""

    streams: list[StreamShape]
    next: str | None


class WriterShape(BaseModel):
    """A member: `noted_at` and `holding_since` in Unix ms."""

    writer: str
    state: Literal["live", "idle", "left", "left_out"]
    times: dict[str, int]
    position: Position
    noted_at: int
    holding_since: int | None


class WritersPage(BaseModel):
    """A page of members, the longest holder first; `next` is the `start` of the next page."""

    writers: list[WriterShape]
    next: int | None


class MarksAnswer(BaseModel):
    """Marks after a seq; `stream_id` tells a stream made again under the same name."""

    stream_id: str
    scale_events: int
    marks: list[MarkShape]


class WindowShape(BaseModel):
    """A time window; null where no mark bounds it."""

    lower: int | None
    upper: int | None
    lower_seq: int | None
    upper_seq: int | None


class GroupShape(BaseModel):
    """A reader group: its combined position, each reader's segments, and the window per key."""

    position: Position
    readers: dict[str, Position]
    windows: dict[str, WindowShape]


class WaitingShape(BaseModel):
    """A member that is waited for."""

    writer: str
    time: int | None
    since_ms: int
    left_out_in_ms: int


class ExplainShape(BaseModel):
    """The decision now; `waiting_for` names at most 1000 of the `holders`, the longest first.

    `without` is the lower that the stream would have without each of them.
    """

    decision: Literal["advance", "hold", "quiet"]
    lower: int | None
    next_lower: int | None
    waiting_for: list[WaitingShape]
    holders: int
    without: dict[str, int | None]


class AcceptedShape(BaseModel):
    """The note is durable; `lower` is the last mark's: what lies below is already late."""

    status: Literal["accepted"]
    lower: int | None


class InvalidPositionShape(BaseModel):
    """The note goes back in these segments, or beyond the end of a sealed one."""

    status: Literal["invalid_position"]
    last: Position


class UnknownKeyShape(BaseModel):
    """The stream does not declare the note's key; `last` are those it does."""

    status: Literal["unknown_key"]
    last: list[str]


class RefusedShape(BaseModel):
    """The note falls behind, or goes beyond a bound of the stream.

    `last` is the writer's last time or sequence, the largest time allowed now, or how many segments
    or writers there may be.
    """

    status: Literal[
        "invalid_time", "superseded", "too_far_ahead", "too_many_segments", "too_many_writers"
    ]
    last: int


class NotesAnswer(BaseModel):
    """What became of each note, in order."""

    results: list[AcceptedShape | InvalidPositionShape | UnknownKeyShape | RefusedShape]


class Problem(BaseModel):
    """An RFC 9457 problem document; `code` is the kind."""

    type: str
    title: str
    status: int
    code: str
    detail: str
