"""The bodies of all requests except notes, and the names and times of queries and paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, field, structs
from pydantic import Field

from noted_time import BacklogPolicy, values
from noted_time.json_types import OFFSETS_SCHEMA
from noted_time.progress import ReadOffsets
from noted_time.values import (
    ID_SCHEMA,
    LINE_SCHEMA,
    LONGEST_SUSPENSION_MS,
    MAX_INT64,
    MIN_INT64,
    NAME_PATTERN,
    NAME_SCHEMA,
    SEGMENT_NAMES,
    SEGMENTS_PER_POSITION,
    EventTimeForm,
    Id,
    Offset,
    Position,
    SegmentNumber,
    StreamSettings,
    Times,
    list_settings,
    parse_zone,
)
from noted_time.verdict import Requirement
from noted_time.wording.faults import MUST_BE_A_NAME, MUST_BE_A_SESSION

NOTHING_NESTED: Mapping[Any, Any] = MappingProxyType({})

# types of queries and paths, for pydantic
NameParameter = Annotated[
    str, Field(pattern=NAME_SCHEMA, description="1 to 249 of A-Z a-z 0-9 . _ -, neither . nor ..")
]
LineParameter = Annotated[str, Field(pattern=LINE_SCHEMA)]
Int64Parameter = Annotated[int, Field(ge=MIN_INT64, le=MAX_INT64)]


def request_of(
    value: type[Struct],
    name: str,
    about: str,
    *,
    nested_requests: Mapping[Any, Any] = NOTHING_NESTED,
    is_partial: bool = False,
) -> type[Struct]:
    """Return the struct of a value in requests, which refuses unknown names and fields.

    `nested_requests` has the requests of values in its fields. If `is_partial`, no field is
    required, and each accepts null.
    """
    describe = _describe_optional if is_partial else _describe_field
    return defstruct(
        name,
        [
            describe(field_info, _make_strict(field_info.type, nested_requests))
            for field_info in structs.fields(value)
        ],
        bases=None if is_partial else (value,),
        namespace={"__doc__": about},
        frozen=True,
        forbid_unknown_fields=True,
        gc=False,
    )


def _describe_field(field_info: structs.FieldInfo, kind: Any) -> tuple[str, Any, Any]:  # noqa: ANN401 - a type
    default = field(default=field_info.default, default_factory=field_info.default_factory)  # type: ignore[call-overload]
    return field_info.name, kind, default


def _describe_optional(field_info: structs.FieldInfo, kind: Any) -> tuple[str, Any, Any]:  # noqa: ANN401 - a type
    base, *bounds, about = get_args(kind)
    value_kind = Annotated[(base, *bounds)] if bounds else base
    return field_info.name, Annotated[value_kind | UnsetType | None, about], UNSET


def _make_strict(kind: Any, nested_requests: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - a type
    """Return the type with `Literal` for `OpenEnum`, and the requests of nested values."""
    origin = get_origin(kind)
    parts = get_args(kind)
    if origin is Annotated:
        base, *metas = parts
        schemas = [meta.extra_json_schema or {} for meta in metas]
        names = next((schema["enum"] for schema in schemas if "enum" in schema), ())
        base = Literal[tuple(names)] if names else _make_strict(base, nested_requests)
        return Annotated[(base, *metas)]
    strict_parts = [_make_strict(part, nested_requests) for part in parts]
    if origin in {Union, UnionType}:
        return Union[tuple(strict_parts)]  # noqa: UP007 - any number of types
    if origin is Sequence:
        return Sequence[tuple(strict_parts)]  # type: ignore[misc]
    return kind if origin else nested_requests.get(kind, kind)


def check_names(names: Iterable[str]) -> None:
    if not all(map(NAME_PATTERN.fullmatch, names)):
        raise ValueError(MUST_BE_A_NAME)


if TYPE_CHECKING:

    class _Settings(Struct, frozen=True):
        """The settings that `StreamChanges` checks."""

        domains: Sequence[str] | UnsetType | None
        expected_writers: Sequence[str] | UnsetType | None

else:
    _Settings = request_of(StreamSettings, "_Settings", "", is_partial=True)


class StreamChanges(_Settings, frozen=True):
    """Settings of a stream to set or change. All are optional; durations are in ms.

    The dashboard shows the descriptions, which explain the effects of a change.
    """

    log: Annotated[
        Id | UnsetType | None,
        Meta(
            description="The id of another log for the positions from now on. Its records must "
            "have the same offsets, as a linked or restored log has."
        ),
    ] = UNSET
    same_offsets: Annotated[
        bool | UnsetType | None,
        Meta(description="Must be true with `log`: its records have these offsets."),
    ] = UNSET

    def __post_init__(self) -> None:
        check_names([*(self.domains or ()), *(self.expected_writers or ())])
        if self.log and not re.fullmatch(ID_SCHEMA, self.log):
            raise ValueError(MUST_BE_A_SESSION)
        if len(set(self.expected_writers or ())) < len(self.expected_writers or ()):
            raise ValueError("a name appears more than once")

    def settings(self) -> dict[str, Any]:
        settings = {}
        for setting in list_settings():
            value = getattr(self, setting.name)
            if value is UNSET or (value is None and not setting.is_nullable):
                continue
            settings[setting.name] = value
        return settings


if TYPE_CHECKING:
    _EventTimeForm = EventTimeForm
else:
    _EventTimeForm = request_of(EventTimeForm, "_EventTimeForm", "")


class EventTimeFormRequest(_EventTimeForm, frozen=True):
    """How the event times of a log are read, in one domain."""

    domain: values.Name | None = None

    def __post_init__(self) -> None:
        if self.domain is not None:
            check_names([self.domain])

    def to_form(self) -> EventTimeForm:
        """Raises `Rejected` for fields that do not fit, and `Unreadable` for an unknown zone."""
        form = EventTimeForm(
            column=self.column, kind=self.kind, zone=self.zone, unit=self.unit, format=self.format
        )
        form.check()
        if form.zone is not None:
            parse_zone(form.zone)
        return form


if TYPE_CHECKING:
    BacklogPolicyBody = BacklogPolicy
else:
    BacklogPolicyBody = request_of(
        BacklogPolicy,
        "BacklogPolicyBody",
        "When a reader group has a backlog. Thresholds are in ms and exclusive; null means never.",
    )


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """A body."""


class GroupChanges(Request, frozen=True):
    """When the group has a backlog. With null, it has one only if its readers report one."""

    backlog: BacklogPolicyBody | None


class SuspensionRequest(Request, frozen=True):
    """How long to wait for a writer, regardless of its timeout."""

    for_ms: Annotated[int, Meta(ge=1, le=LONGEST_SUSPENSION_MS)]


class WindowRequest(Request, frozen=True):
    """A reader's position."""

    position: Position
    domain: values.Name | None = None

    def __post_init__(self) -> None:
        if self.domain is not None:
            check_names([self.domain])


if TYPE_CHECKING:
    _Requirement = Requirement
else:
    ReadBody = request_of(ReadOffsets, "ReadBody", ReadOffsets.__doc__ or "")
    _Requirement = request_of(
        Requirement, "_Requirement", "", nested_requests={ReadOffsets: ReadBody}
    )


class CompletenessRequest(_Requirement, frozen=True):
    """How far a stream must be complete, the writers that must vouch, and its reader."""

    def __post_init__(self) -> None:
        check_names(self.require)
        if self.domain is not None:
            check_names([self.domain])


class ReaderLeave(Request, frozen=True):
    """The position that a reader's segments are moved back to."""

    position: Position = field(default_factory=dict)


class ReaderReport(Request, frozen=True):
    """A reader's position, and its own report of a backlog."""

    position: Position = field(default_factory=dict)
    backlog: Annotated[
        bool | UnsetType | None,
        Meta(
            description="whether the reader has a backlog; null: the report is withdrawn; "
            "absent: unchanged, initially no report"
        ),
    ] = UNSET


class ScaleRequest(Request, frozen=True):
    """Segments sealed at their final offsets, and created segments with their predecessors."""

    sealed: Position = field(default_factory=dict)
    created: Annotated[
        dict[
            SegmentNumber,
            Annotated[tuple[SegmentNumber, ...], Meta(max_length=SEGMENTS_PER_POSITION)],
        ],
        Meta(max_length=SEGMENTS_PER_POSITION, extra_json_schema=SEGMENT_NAMES),
    ] = field(default_factory=dict)


class SealBody(Request, frozen=True):
    """The end of a stream. A missing field follows from the notes.

    `cut` is the final cut if it is beyond the noted positions. `final_times` are the lowers of the
    last marks by domain: all rows below them were written.
    """

    cut: Position = field(default_factory=dict)
    final_times: Times = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names(self.final_times)


class TruncateRequest(Request, frozen=True):
    """The first position that the stream's own retention still lets readers read."""

    cut: Annotated[dict[SegmentNumber, Offset], Meta(extra_json_schema=OFFSETS_SCHEMA)]


# the pages have these, too
BODY_EXAMPLES: dict[str, dict[str, Any]] = {
    "StreamChanges": {"mark_interval_ms": 0, "domains": ["order_time", "ship_time"]},
    "NotesBody": {"notes": [{"writer": "UA"}, {"writer": "DL"}]},
    "EventTimeFormRequest": {"column": "departed", "kind": "local", "zone": "Europe/Berlin"},
    "ScaleRequest": {"sealed": {"0": 500}, "created": {"2": [0], "3": [0]}},
    "SealBody": {},
    "TruncateRequest": {"cut": {"0": 9}},
    "SuspensionRequest": {"for_ms": 3600000},
    "WindowRequest": {"position": {"0": 10, "1": 4}},
    "CompletenessRequest": {"to": 1357034220000, "require_known": True},
    "ReaderReport": {"position": {"0": 10}},
    "ReaderLeave": {"position": {"0": 8}},
    "GroupChanges": {"backlog": {"reader_lag_ms": 600000}},
}


def list_bodies() -> list[type[Struct]]:
    return [StreamChanges, CompletenessRequest, EventTimeFormRequest, *Request.__subclasses__()]
