"""The JSON bodies of what operators look at, as OpenAPI shows them; pydantic checks none."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field


class OverviewDomainShape(BaseModel):
    """A domain: its last mark, the decision, and its longest holder.

    `lag` has by how much the watermark was behind the wall clock at 30 moments of the last hour,
    the oldest first and the last of them now; null before the first mark, and where the lower is no
    Unix ms. What only the owner of the stream knows is null where it did not answer.
    """

    domain: str
    lower: int | None
    upper: int | None
    written_at: int | None
    decision: Literal["advance", "hold", "quiet", "sealed"] | None
    holders: int | None
    held_by: str | None
    held_for_ms: int | None
    times_out_in_ms: int | None
    lag: list[int | None]


class MembersShape(BaseModel):
    """How many members are in each state."""

    live: int
    idle: int
    finished: int
    excluded: int


class OverviewStreamShape(BaseModel):
    """A stream; where its owner did not answer, as the database knows it."""

    name: str
    id: str
    answered: bool
    writers: MembersShape | None
    domains: list[OverviewDomainShape]


class OverviewAnswer(BaseModel):
    """A page of the streams that match; `next` is the `start` of the next page.

    `total` counts them, `unanswered` those whose owner did not answer.
    """

    now: int
    total: int
    unanswered: int
    streams: list[OverviewStreamShape]
    next: int | None


class PointShape(BaseModel):
    """The last mark of a slot of time, and of the `marks` written in it the largest lag.

    `lag_ms` is how far the lower was behind the wall clock just before a mark; null where it is not
    known or no Unix ms. `excluded` names at most 10 writers that marks in the slot went on without,
    `excluded_marks` counts these marks.
    """

    at: int
    seq: int
    lower: int
    upper: int
    upper_is_bound: bool
    marks: int
    lag_ms: int | None
    excluded: list[str]
    excluded_marks: int


class HistoryAnswer(BaseModel):
    """How the watermark moved: one point for each slot with a mark; moments in Unix ms.

    `first_at` is when the first mark that is kept was written, `before` the lower of the last mark
    written before `from`.
    """

    now: int
    from_: Annotated[int, Field(alias="from")]
    to: int
    first_at: int | None
    before: int | None
    points: list[PointShape]


class SegmentShape(BaseModel):
    """A segment, with offset and lower of the first and of the last mark that has some of it.

    `last_offset` is the final one where it is sealed, by itself or with the stream. Of at most
    10,000 members, `writers_total` have a position that names it, of which `writers` names 10.
    """

    segment: int
    state: Literal["open", "sealed", "truncated"]
    predecessors: list[int]
    successors: list[int]
    first_offset: int | None
    last_offset: int | None
    first_lower: int | None
    last_lower: int | None
    writers: list[str]
    writers_total: int


class SegmentsPage(BaseModel):
    """A page of segments by number; `next` is the `start` of the next page."""

    now: int
    segments: list[SegmentShape]
    next: int | None
