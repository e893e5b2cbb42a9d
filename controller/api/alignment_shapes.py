"""The JSON bodies of alignments: of requests, which pydantic checks, and of answers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from controller.api.shapes import Int64, Name, Request
from noted_time.values import MAX_INT64

EITHER = "pass `time`, or `stream` and `group`"


class AlignmentRequest(Request):
    """The settings of an alignment."""

    max_drift: Annotated[int, Field(ge=1, le=MAX_INT64)] = Field(
        description="how far the others may be ahead of the slowest, in the unit of their times"
    )
    member_timeout_ms: Annotated[int, Field(ge=1, le=MAX_INT64)] = Field(
        30_000, description="a member that is silent for so long is not counted"
    )


class MemberReport(Request):
    """A member's time, or the reader group whose window has it.

    A field that may be left out is not null then, but for the time of a member without one.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "dependentRequired": {"stream": ["group"], "group": ["stream"], "domain": ["stream"]},
            "not": {"required": ["time", "stream"]},
        },
    )

    time: Int64 | None = Field(None, description="null: before it has one")
    state: Literal["live", "idle", "finished"] = "live"
    stream: Name = Field(default_factory=str)
    group: Name = Field(default_factory=str)
    domain: Name = Field(default_factory=str, description="by default the only one, or `default`")

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        has_group = bool(self.group)
        if bool(self.stream) is not has_group or (self.domain and not has_group):
            raise ValueError(EITHER)
        if has_group and "time" in self.model_fields_set:
            raise ValueError(EITHER)
        return self


class GroupShape(BaseModel):
    """A reader group of a stream; `domain` is null where it was not said."""

    stream: str
    group: str
    domain: str | None


class MemberShape(BaseModel):
    """A member: what it reported last, how long ago, and whether it is counted.

    `at_bound` says that it is at the bound, which another one holds, or above it.

    `group` is the reader group that it is, null for another and where you may not read its stream.
    """

    time: int | None
    state: Literal["live", "idle", "finished"]
    silent_for_ms: int
    counted: bool
    at_bound: bool
    group: GroupShape | None


class AlignmentShape(BaseModel):
    """An alignment: nobody reads above `bound`, where `held_by` holds it; null is unbounded.

    `drift` is how far the fastest member is ahead of the slowest, of those that are counted.
    """

    name: str
    max_drift: int
    member_timeout_ms: int
    bound: int | None
    held_by: str | None
    drift: int | None
    members: dict[str, MemberShape]


class AlignmentRowShape(AlignmentShape):
    """An alignment in a list, with at most 100 members: the slowest that count come first.

    Where the controller that has it does not `answer`, only the settings are known.
    """

    answered: bool
    members_counted: int | None
    members_total: int | None


class AlignmentsPage(BaseModel):
    """A page of alignments by name; `next` is the `after` of the next page."""

    alignments: list[AlignmentRowShape]
    next: str | None
