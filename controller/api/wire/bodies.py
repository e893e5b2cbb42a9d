"""Decodes the bodies of requests, and lists their faults."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from fastapi import Request
from msgspec import inspect
from starlette.exceptions import HTTPException

from controller.api.wire.requests import BODY_EXAMPLES
from noted_time.json_types import SCHEMA_REF, SEGMENT_PATTERN
from noted_time.values import NAME_SCHEMA
from noted_time.wording.faults import (
    FAULT_WORDS,
    FAULTS_SHOWN,
    MUST_BE_A_NAME,
    MUST_BE_A_SEGMENT,
    PlacedFault,
    describe_input,
    describe_pattern,
    describe_unknown,
    format_path,
)

EXPLAINED_BYTES = 16 * 1024  # in a larger body only the first fault is reported

MUST_BE_A_BODY = "must be a JSON object, sent with Content-Type: application/json"

# the type in Python, and the faults of another type, of too few and of too many
LIST_FAULTS = (list, "list_type", "too_short", "too_long")
KNOWN_FAULTS: Mapping[Any, tuple[Any, str, str, str]] = {
    inspect.StructType: (dict, "object_type", "", ""),
    inspect.DictType: (dict, "dict_type", "too_short", "too_long"),
    inspect.ListType: LIST_FAULTS,
    inspect.VarTupleType: LIST_FAULTS,
    inspect.StrType: (str, "string_type", "string_too_short", "string_too_long"),
    inspect.IntType: (int, "int_type", "greater_than_equal", "less_than_equal"),
    inspect.BoolType: (bool, "bool_type", "", ""),
}
NO_SCHEMA: Mapping[str, Any] = MappingProxyType({})

Path = tuple[int | str, ...]
Faults = Iterator[PlacedFault]

_is_json = re.compile(r"application/([^;]+\+)?json\s*(;|$)", re.IGNORECASE).match


class InvalidRequest(Exception):
    """A request whose fields do not fit."""

    def __init__(self, faults: list[PlacedFault]) -> None:
        super().__init__(faults)
        self.faults = faults


@dataclass(frozen=True)
class BodyOf:
    """A dependency that decodes the body of a call."""

    kind: type[msgspec.Struct]
    is_optional: bool = False

    async def __call__(self, request: Request) -> Any:  # noqa: ANN401 - a value of `kind`
        body = await request.body()
        if not (body or self.is_optional):
            raise InvalidRequest([("body", FAULT_WORDS["missing"])])
        try:
            content = msgspec.json.decode(body or b"null")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise HTTPException(400, f"body: {error}") from error
        if content is None and self.is_optional:
            return self.kind()
        if not (isinstance(content, dict) and _is_json(request.headers.get("content-type", ""))):
            raise InvalidRequest([("body", MUST_BE_A_BODY)])
        max_faults = FAULTS_SHOWN if len(body) <= EXPLAINED_BYTES else 1
        value = convert_given(self.kind, content, ("body",), max_faults)
        check_names_once(body, ("body",))
        return value

    def describe(self) -> dict[str, Any]:
        """Return what OpenAPI says of the body."""
        name = self.kind.__name__
        schema: dict[str, Any] = {"$ref": SCHEMA_REF.format(name=name)}
        if self.is_optional:
            schema = {"anyOf": [schema, {"type": "null"}]}
        content = {"application/json": {"schema": schema, "example": BODY_EXAMPLES[name]}}
        return {"content": content, "required": not self.is_optional}


def convert_given(kind: Any, content: object, place: Path, max_faults: int = FAULTS_SHOWN) -> Any:  # noqa: ANN401 - a type and its value
    """Return the value of plain JSON, or raise `InvalidRequest` with the faults."""
    try:
        return msgspec.convert(content, kind, str_keys=True)
    except msgspec.ValidationError as first:
        raise InvalidRequest(find_faults(kind, content, place, first, max_faults)) from first


class _Pairs(NamedTuple):
    """The names and values of a JSON object, where a name may occur twice."""

    pairs: list[tuple[str, Any]]


def check_names_once(text: bytes | str, place: Path) -> None:
    """Raise `InvalidRequest` for an object with a name twice, whose first value would be lost.

    >>> check_names_once('{"read": {"position": {"0": 9, "0": 3}}}', ("body",))
    Traceback (most recent call last):
    ...
    controller.api.wire.bodies.InvalidRequest: [('body.read.position.0', 'is given more than once')]
    """
    pairs = json.loads(text, object_pairs_hook=_Pairs)
    repeated_names = list(islice(_list_repeated(pairs, place), FAULTS_SHOWN))
    if repeated_names:
        raise InvalidRequest(repeated_names)


def _list_repeated(content: object, place: Path) -> Faults:
    if isinstance(content, _Pairs):
        names = set[str]()
        for name, value in content.pairs:
            if name in names:
                yield format_path((*place, name)), "is given more than once"
            names.add(name)
            yield from _list_repeated(value, (*place, name))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from _list_repeated(value, (*place, number))


def find_faults(
    kind: Any,  # noqa: ANN401 - a type
    content: object,
    place: Path,
    first: msgspec.ValidationError,
    max_faults: int,
) -> list[PlacedFault]:
    """Return at most `max_faults` faults. A single one is looked for at the place of `first`."""
    part = Part(inspect.type_info(kind), content, place)
    if max_faults == 1:
        _, path = split_message(first)
        with suppress(LookupError, TypeError):  # an object may have two fields of one name
            for step in path:
                part = part.go_to(step)
    return list(islice(_list_faults(part), max_faults)) or [describe_first(first, place)]


def describe_first(first: msgspec.ValidationError, place: Path) -> PlacedFault:
    message, path = split_message(first)
    return format_path((*place, *path)), message


def split_message(error: msgspec.ValidationError) -> tuple[str, Path]:
    """Return the message of a fault, and its place except in a position or a similar object.

    >>> split_message(msgspec.ValidationError("Expected `int` - at `$.notes[3].position[...]`"))
    ('Expected `int`', ('notes', 3, 'position'))
    """
    message, _, place = str(error).partition(" - at `")
    steps = re.findall(r"\.(\w+)|\[(\d+)\]", place.partition("[...]")[0])
    return message.partition(", got ")[0], tuple(name or int(number) for name, number in steps)


class Part(NamedTuple):
    """A part of a body, with its type, its place and what only OpenAPI says of it."""

    kind: Any
    content: Any
    place: Path
    schema: Mapping[str, Any] = NO_SCHEMA

    def narrow(self) -> Part:
        """Choose the alternative of the type that fits best."""
        kind = self.kind
        if isinstance(kind, inspect.Metadata):
            schema = {**self.schema, **(kind.extra_json_schema or {})}
            return self._replace(kind=kind.type, schema=schema).narrow()
        if not isinstance(kind, inspect.UnionType):
            return self
        parts = [self._replace(kind=alternative).narrow() for alternative in kind.types]
        possible = [part for part in parts if not isinstance(part.kind, inspect.NoneType)]
        if self.content is None and len(possible) < len(parts):
            return self._replace(kind=inspect.NoneType())
        is_list = isinstance(self.content, list)
        fitting = (part for part in possible if hasattr(part.kind, "item_type") == is_list)
        return next(fitting, possible[0])

    def go_to(self, step: int | str) -> Part:
        part = self.narrow()
        of_fields = {
            field_info.name: field_info.type for field_info in getattr(part.kind, "fields", ())
        }
        kind = of_fields[str(step)] if of_fields else part.kind.item_type
        return Part(kind, part.content[step], (*part.place, step))

    def describe(self, fault: str, bound: object = None) -> PlacedFault:
        words = re.sub(r"\{\w+\}", str(bound), FAULT_WORDS[fault])
        return format_path(self.place), words + describe_input(self.content)

    def list_own_faults(self) -> Faults:
        kind = self.kind
        pattern = self.schema.get("pattern")
        content = self.content
        if isinstance(kind, inspect.LiteralType):
            if content not in kind.values:
                *other_values, last = map(repr, self.schema["enum"])  # msgspec sorts its values
                yield self.describe("literal_error", f"{', '.join(other_values)} or {last}")
            return
        expected, wrong_type, too_low, too_high = KNOWN_FAULTS[type(kind)]
        min_value, max_value = _find_bounds(kind)
        size = len(content) if isinstance(content, dict | list | str) else content
        if type(content) is not expected:
            yield self.describe(wrong_type)
        elif pattern and not re.fullmatch(pattern, content):
            yield format_path(self.place), describe_pattern(pattern)
        elif min_value is not None and size < min_value:
            yield self.describe(too_low, min_value)
        elif max_value is not None and size > max_value:
            yield self.describe(too_high, max_value)


def _find_bounds(kind: Any) -> tuple[int | None, int | None]:  # noqa: ANN401 - any of several types
    if isinstance(kind, inspect.IntType):
        return kind.ge, kind.le if kind.lt is None else kind.lt - 1
    return getattr(kind, "min_length", None), getattr(kind, "max_length", None)


def _list_faults(part: Part) -> Faults:
    part = part.narrow()
    if isinstance(part.kind, inspect.NoneType):
        return
    own_faults = [*part.list_own_faults()]
    if own_faults:
        yield from own_faults
    elif isinstance(part.kind, inspect.StructType):
        yield from _list_in_object(part)
    elif isinstance(part.kind, inspect.DictType):
        yield from _list_in_dict(part)
    elif isinstance(part.content, list):
        yield from _list_in_list(part)


def _list_in_list(part: Part) -> Faults:
    for number in range(len(part.content)):
        yield from _list_faults(part.go_to(number))
    if part.schema.get("uniqueItems"):
        for name, count in Counter(map(str, part.content)).items():
            if count > 1:
                yield format_path(part.place), f"{name!r} appears more than once"
                return


def _list_in_object(part: Part) -> Faults:
    fields = {field_info.name: field_info for field_info in part.kind.fields}
    for name, field_info in fields.items():
        if name in part.content:
            yield from _list_faults(part.go_to(name))
        elif field_info.required:
            yield format_path((*part.place, name)), FAULT_WORDS["missing"]
    for name in part.content:
        if name not in fields:
            yield format_path((*part.place, name)), describe_unknown("field", name, [*fields])


def _list_in_dict(part: Part) -> Faults:
    pattern = NAME_SCHEMA
    message = MUST_BE_A_NAME
    if isinstance(part.kind.key_type, inspect.IntType):
        pattern = SEGMENT_PATTERN
        message = MUST_BE_A_SEGMENT
    for key, value in part.content.items():
        place = (*part.place, key)
        if re.fullmatch(pattern, key):
            yield from _list_faults(Part(part.kind.value_type, value, place))
        else:
            yield format_path(place), message
