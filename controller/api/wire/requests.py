"""The field types of requests, and the bodies of all requests except notes.

A type has bounds for pydantic and for msgspec, which ignore the other's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import NODEFAULT, Meta
from msgspec.structs import fields
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator

from noted_time import BacklogPolicy, StreamSettings
from noted_time.open_enum import list_names
from noted_time.progress.backlog import Rule
from noted_time.values import (
    LONGEST_HOLD_MS,
    MAX_INT64,
    MIN_INT64,
    MOST_DOMAINS,
    SEGMENTS_PER_POSITION,
    SESSION_LENGTH,
    Setting,
    list_settings,
)

REF = "#/components/schemas/{model}"


def bounds(**limits: Any) -> tuple[Any, Any]:  # noqa: ANN401 - numbers
    return Meta(**limits), Field(**limits)


SEGMENTS = 10**18  # ids are below it, so a pattern can check them as names in JSON

# pydantic's patterns have no lookahead
_NAME_PATTERN = (
    r"^([A-Za-z0-9_-][A-Za-z0-9._-]{0,248}"
    r"|\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,247}"
    r"|\.\.[A-Za-z0-9._-]{1,247})$"
)
Name = Annotated[
    str,
    Meta(min_length=1, max_length=249),
    Field(pattern=_NAME_PATTERN, description="1 to 249 of A-Z a-z 0-9 . _ -, neither . nor .."),
]
INVISIBLE = r"\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2060-\u206f\u3164\ufeff\uffa0"
LINE = rf"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e{INVISIBLE}]*$"
Line = Annotated[str, Field(pattern=LINE)]

# of a session or of a log; a Kafka topic's id is base64url
Id = Annotated[
    str,
    Meta(min_length=1, max_length=SESSION_LENGTH),
    Field(pattern=rf"^[A-Za-z0-9._-]{{1,{SESSION_LENGTH}}}$"),
]

Int64 = Annotated[int, *bounds(ge=MIN_INT64, le=MAX_INT64)]
Offset = Annotated[int, *bounds(ge=0, le=MAX_INT64)]
Threshold = Annotated[int, *bounds(ge=1, le=MAX_INT64)]
SegmentNumber = Annotated[int, *bounds(ge=0, lt=SEGMENTS)]
Segment = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,17})$")]


ONE_FAULT = Field(fail_fast=True)  # describing many faults of a list takes long

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


class Request(BaseModel):
    """A body. Unknown fields are refused, and so are numbers in strings."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, body: object) -> object:
        """Keep one unknown field of many."""
        known = cls.model_fields
        if not isinstance(body, dict) or len(body) <= len(known) + FEW_UNKNOWN:
            return body
        unknown = next(name for name in body if name not in known)
        return {name: body[name] for name in (*known, unknown) if name in body}


def default_of(each: Any) -> dict[str, Any]:  # noqa: ANN401 - a field of a dataclass
    given = {"default": each.default, "default_factory": each.default_factory}
    return {name: default for name, default in given.items() if default is not NODEFAULT}


R = TypeVar("R", bound=Request)
About = Mapping[str, tuple[Any, str | None]]  # a field's type in JSON, and its description


def fields_of(
    value: type[Any], about: About, *, optional: bool = False
) -> Callable[[type[R]], type[R]]:
    """Return a decorator that adds the fields of a value to a request, with their defaults.

    If `optional`, the fields accept null, which by default changes nothing.
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
        return create_model(request.__name__, __base__=request, __doc__=request.__doc__, **typed)

    return with_fields


def _build_type(setting: Setting) -> Any:  # noqa: ANN401 - a type
    least, most, kind = setting.least, setting.most, setting.kind
    if kind is int:
        return Annotated[int, Field(ge=least, le=most)]
    if kind is str and not setting.choices:
        return Annotated[str, Field(min_length=least, max_length=most)]
    if setting.choices:
        return Literal[tuple(setting.choices)]
    several = Field(
        min_length=least or None, max_length=most, json_schema_extra={"uniqueItems": True}
    )
    if most <= MOST_DOMAINS:
        return Annotated[list[Name], several]
    return Annotated[list[Name], ONE_FAULT, several, AfterValidator(_different)]


SETTING_FIELDS: About = {each.name: (_build_type(each), each.about) for each in list_settings()}
# Null disables these. For all other settings null changes nothing.
NULLABLE_SETTINGS = frozenset(each.name for each in list_settings() if each.is_nullable)


@fields_of(StreamSettings, SETTING_FIELDS, optional=True)
class StreamChanges(Request):
    """Settings of a stream to set or change. All are optional; durations are in ms.

    The dashboard shows the descriptions, which explain the effects of a change.
    """

    log: Annotated[
        Id | None,
        Field(
            description="The id of another log for the positions from now on. Its records must "
            "have the same offsets, as a linked or restored log has."
        ),
    ] = None
    same_offsets: Annotated[
        bool | None, Field(description="Must be true with `log`: its records have these offsets.")
    ] = None

    def settings(self) -> dict[str, Any]:
        sent = self.model_dump(exclude_unset=True, exclude={"log", "same_offsets"})
        return {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in sent.items()
            if value is not None or name in NULLABLE_SETTINGS
        }


POLICY_FIELDS: About = {
    "watermark_lag_ms": (
        Threshold | None,
        "the group has a backlog if its lower is behind the wall clock by more than this",
    ),
    "behind_ms": (
        Threshold | None,
        "the group has a backlog if its lower is behind the stream's last lower by more than this",
    ),
    "rule": (
        Literal[tuple(list_names(Rule))],
        "sticky: once it has caught up, a group never has a backlog by lag again",
    ),
}


@fields_of(BacklogPolicy, POLICY_FIELDS)
class BacklogPolicyBody(Request):
    """When a reader group has a backlog. Thresholds are in ms and exclusive; null means never."""


class GroupChanges(Request):
    """When the group has a backlog. With null, it has one only if its readers report one."""

    backlog: BacklogPolicyBody | None


class HoldRequest(Request):
    """How long to wait for a writer, regardless of its timeout."""

    for_ms: Annotated[int, Field(ge=1, le=LONGEST_HOLD_MS)]


class WindowRequest(Request):
    """A reader's position."""

    position: GivenPosition
    domain: Name | None = None


class ReaderLeave(Request):
    """The position that a reader's segments are moved back to."""

    position: GivenPosition = Field(default_factory=dict)


class ReaderReport(ReaderLeave):
    """A reader's position, and its own report of a backlog."""

    backlog: Annotated[
        bool | None,
        Field(
            description="whether the reader has a backlog; null: the report is withdrawn; "
            "absent: unchanged, initially no report"
        ),
    ] = None


class ScaleRequest(Request):
    """Segments sealed at their final offsets, and created segments with their predecessors."""

    sealed: GivenPosition = Field(default_factory=dict)
    created: Annotated[dict[Segment, Predecessors], ONE_FAULT] = Field(
        default_factory=dict,
        max_length=SEGMENTS_PER_POSITION,
        json_schema_extra={"additionalProperties": False},
    )


class SealBody(Request):
    """The end of a stream. A missing field follows from the notes.

    `cut` is the final cut if it is beyond the noted positions. `final_times` are the lowers of the
    last marks by domain: all rows below them were written.
    """

    cut: GivenPosition = Field(default_factory=dict)
    final_times: Times = Field(default_factory=dict)


class TruncateRequest(Request):
    """The first position that the stream's own retention still lets readers read."""

    cut: Position
