"""The types of fields of requests, and the bodies other than notes: checks and OpenAPI.

A type has its bounds for pydantic, and for msgspec, which decodes notes; each ignores the other's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator

from noted_time import BacklogPolicy, StreamSettings
from noted_time.progress.backlog import Rule
from noted_time.values import (
    LONGEST_HOLD_MS,
    MAX_INT64,
    MIN_INT64,
    MOST_DOMAINS,
    SEGMENTS_PER_POSITION,
    SESSION_LENGTH,
)

REF = "#/components/schemas/{model}"
"""Where the OpenAPI document has a schema."""


def bounds(**limits: Any) -> tuple[Any, Any]:  # noqa: ANN401 - a number each
    """Return bounds of a number, or of a length, for msgspec and for pydantic."""
    return Meta(**limits), Field(**limits)


SEGMENTS = 10**18
"""Segment ids are below this, so that the pattern of their names in JSON says it all."""

# The regular expressions of pydantic cannot look ahead: a name begins with no dot, one, or two.
_NAME = (
    r"^([A-Za-z0-9_-][A-Za-z0-9._-]{0,248}"
    r"|\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,247}"
    r"|\.\.[A-Za-z0-9._-]{1,247})$"
)
Name = Annotated[
    str,
    Meta(min_length=1, max_length=249),
    Field(pattern=_NAME, description="1 to 249 of A-Z a-z 0-9 . _ -, neither . nor .."),
]
INVISIBLE = r"\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2060-\u206f\u3164\ufeff\uffa0"
LINE = rf"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e{INVISIBLE}]*$"
Line = Annotated[str, Field(pattern=LINE)]
"""Text for people, in one line: nothing that controls, turns its direction or is not seen."""

Id = Annotated[
    str,
    Meta(min_length=1, max_length=SESSION_LENGTH),
    Field(pattern=rf"^[A-Za-z0-9._-]{{1,{SESSION_LENGTH}}}$"),
]
"""The id of a session, or of a log: a Kafka topic's is base64url."""

Int64 = Annotated[int, *bounds(ge=MIN_INT64, le=MAX_INT64)]
Offset = Annotated[int, *bounds(ge=0, le=MAX_INT64)]
Threshold = Annotated[int, *bounds(ge=1, le=MAX_INT64)]
SegmentNumber = Annotated[int, *bounds(ge=0, lt=SEGMENTS)]
Segment = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,17})$")]


ONE_FAULT = Field(fail_fast=True)
"""Only the first fault of a list or map that may be long is named: each takes long to describe."""

Position = Annotated[
    dict[Segment, Offset],
    ONE_FAULT,
    Field(
        description="segment → exclusive offset; a missing segment means 0",
        json_schema_extra={"additionalProperties": False},
    ),
]
GivenPosition = Annotated[Position, Field(max_length=SEGMENTS_PER_POSITION)]
Times = Annotated[
    dict[Name, Int64],
    ONE_FAULT,
    *bounds(max_length=MOST_DOMAINS),
    Field(json_schema_extra={"additionalProperties": False}),
]
Predecessors = Annotated[list[SegmentNumber], ONE_FAULT, Field(max_length=SEGMENTS_PER_POSITION)]


def _different(names: list[str]) -> list[str]:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} appears more than once")
    return names


FEW_UNKNOWN = 10
"""Maximum number of unknown fields of a body that are named."""


class Request(BaseModel):
    """A body: unknown fields are refused, and so are numbers in strings."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, body: object) -> object:
        """Return one unknown field in place of many, beside those that are known."""
        known = cls.model_fields
        if not isinstance(body, dict) or len(body) <= len(known) + FEW_UNKNOWN:
            return body
        unknown = next(name for name in body if name not in known)
        return {name: body[name] for name in (*known, unknown) if name in body}


def default_of(each: Any) -> dict[str, Any]:  # noqa: ANN401 - a field of a dataclass
    """Return the default of a value's field, as fields of pydantic and msgspec take it."""
    given = {"default": each.default, "default_factory": each.default_factory}
    return {name: default for name, default in given.items() if default is not MISSING}


R = TypeVar("R", bound=Request)
About = Mapping[str, tuple[Any, str | None]]
"""The type of each field in JSON, and its meaning."""


def fields_of(
    value: type[Any], about: About, *, optional: bool = False
) -> Callable[[type[R]], type[R]]:
    """Give a request the fields of a value, each with its type in JSON and what it means.

    They have the defaults of the value; `optional` fields have null, which changes nothing.
    """
    typed: dict[str, Any] = {
        each.name: (
            kind | None if optional else kind,
            Field(**({"default": None} if optional else default_of(each)), description=text),
        )
        for each in fields(value)
        for kind, text in [about[each.name]]
    }

    def with_fields(request: type[R]) -> type[R]:
        """Return the request with the fields."""
        return create_model(request.__name__, __base__=request, __doc__=request.__doc__, **typed)

    return with_fields


def _typed(hint: Any, bounds: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any type
    """Return the type of a setting in JSON, with its bounds."""
    least, most = bounds["least"], bounds["most"]
    kind = next(iter(get_args(hint)), hint) if isinstance(hint, UnionType) else hint
    if kind is int:
        return Annotated[int, Field(ge=least, le=most)]
    if kind is str:
        return Annotated[str, Field(min_length=least, max_length=most)]
    if get_origin(kind) is not tuple:
        return kind
    several = Field(
        min_length=least or None, max_length=most, json_schema_extra={"uniqueItems": True}
    )
    if most <= MOST_DOMAINS:
        return Annotated[list[Name], several]
    return Annotated[list[Name], ONE_FAULT, several, AfterValidator(_different)]


HINTS = get_type_hints(StreamSettings)
SETTINGS: About = {
    each.name: (_typed(HINTS[each.name], each.metadata), each.metadata["about"])
    for each in fields(StreamSettings)
}
NULLABLE = frozenset(name for name, hint in HINTS.items() if isinstance(hint, UnionType))
"""The settings that null disables; elsewhere it changes nothing."""


@fields_of(StreamSettings, SETTINGS, optional=True)
class StreamChanges(Request):
    """The settings of a stream to set or change; all optional, durations in ms.

    Their descriptions say what a change leads to; the dashboard shows them beside the fields.
    """

    log: Annotated[
        Id | None,
        Field(
            description="Another log whose positions are taken from now on, as its records have "
            "the same offsets: a linked or restored one."
        ),
    ] = None
    same_offsets: Annotated[
        bool | None, Field(description="Has to be true with `log`: its records have these offsets.")
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return the settings that change; null changes only a setting that it disables."""
        sent = self.model_dump(exclude_unset=True, exclude={"log", "same_offsets"})
        return {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in sent.items()
            if value is not None or name in NULLABLE
        }


POLICY: About = {
    "watermark_lag_ms": (
        Threshold | None,
        "how far the group's lower must be behind the wall clock",
    ),
    "behind_ms": (
        Threshold | None,
        "how far the group's lower must be behind the last lower of the stream",
    ),
    "rule": (Rule, "sticky: a group that has caught up never has a backlog by lag again"),
}


@fields_of(BacklogPolicy, POLICY)
class BacklogPolicyBody(Request):
    """When a reader group has a backlog; thresholds in ms, both exclusive, null for never."""


class GroupChanges(Request):
    """When the group has a backlog; null: only when its readers report one."""

    backlog: BacklogPolicyBody | None


class HoldRequest(Request):
    """For how long to wait for a writer, whatever its timeout."""

    for_ms: Annotated[int, Field(ge=1, le=LONGEST_HOLD_MS)]


class WindowRequest(Request):
    """A reader's position."""

    position: GivenPosition
    domain: Name | None = None


class ReaderLeave(Request):
    """The position to which a reader's segments are put back."""

    position: GivenPosition = Field(default_factory=dict)


class ReaderReport(ReaderLeave):
    """How far a reader has read, and what it reports of its own backlog."""

    backlog: Annotated[
        bool | None,
        Field(
            description="whether the reader has a backlog; null: it withdraws its report; "
            "absent: as before, at first none"
        ),
    ] = None


class ScaleRequest(Request):
    """Segments sealed at their final offsets; successors created: segment → predecessors."""

    sealed: GivenPosition = Field(default_factory=dict)
    created: Annotated[dict[Segment, Predecessors], ONE_FAULT] = Field(
        default_factory=dict,
        max_length=SEGMENTS_PER_POSITION,
        json_schema_extra={"additionalProperties": False},
    )


class SealBody(Request):
    """The end of a stream; what is left out follows from what was noted.

    `cut` is the final cut if it is beyond what was noted, `final_times` the lower of a domain's
    last mark: the time below which all was written.
    """

    cut: GivenPosition = Field(default_factory=dict)
    final_times: Times = Field(default_factory=dict)


class TruncateRequest(Request):
    """Where the stream's own retention lets readers begin."""

    cut: Position
