"""Decodes the bodies of requests, and lists their faults."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from fastapi import Request
from msgspec import inspect
from starlette.exceptions import HTTPException

from controller.api.wire.faults import (
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
from noted_time.json_types import SEGMENT_PATTERN
from noted_time.values import NAME_PATTERN

EXPLAINED_BYTES = 16 * 1024  # in a larger body only the first fault is reported

MUST_BE_AN_OBJECT = "must be a JSON object"
MUST_BE_A_BODY = f"{MUST_BE_AN_OBJECT}, sent with Content-Type: application/json"
LIST_TYPES = (inspect.ListType, inspect.VarTupleType)
NO_SCHEMA: Mapping[str, Any] = MappingProxyType({})

Path = tuple[int | str, ...]
Faults = Iterator[PlacedFault]
Body = TypeVar("Body")

_is_segment = re.compile(SEGMENT_PATTERN).fullmatch
_is_json = re.compile(r"application/([^;]+\+)?json\s*(;|$)", re.IGNORECASE).match


class InvalidRequest(Exception):
    """A request whose fields do not fit."""

    def __init__(self, faults: list[PlacedFault]) -> None:
        super().__init__(faults)
        self.faults = faults


def body_of(kind: type[Body], *, is_optional: bool = False) -> Callable[[Request], Awaitable[Body]]:
    """Return a dependency that decodes the body of a call."""

    async def decode_body(request: Request) -> Body:
        body = await request.body()
        if not (body or is_optional):
            raise InvalidRequest([("body", FAULT_WORDS["missing"])])
        if body and not _is_json(request.headers.get("content-type", "")):
            raise InvalidRequest([("body", MUST_BE_A_BODY)])
        try:
            given = msgspec.json.decode(body or b"null")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise HTTPException(400, f"body: {error}") from error
        if given is None and is_optional:
            return kind()
        most = FAULTS_SHOWN if len(body) <= EXPLAINED_BYTES else 1
        decoded: Body = convert_given(kind, given, ("body",), most)
        return decoded

    return decode_body


def convert_given(kind: Any, given: object, where: Path, most: int = FAULTS_SHOWN) -> Any:  # noqa: ANN401 - a type and its value
    """Return the value of plain JSON, or raise `InvalidRequest` with the faults."""
    try:
        return msgspec.convert(given, kind, str_keys=True)
    except msgspec.ValidationError as first:
        raise InvalidRequest(find_faults(kind, given, where, first, most)) from first


def find_faults(
    kind: Any,  # noqa: ANN401 - a type
    given: object,
    where: Path,
    first: msgspec.ValidationError,
    most: int,
) -> list[PlacedFault]:
    """Return at most `most` faults. A single one is looked for at the place of `first`."""
    part = Part(inspect.type_info(kind), given, where)
    with suppress(LookupError, TypeError):  # an object may have had two fields of one name
        for step in split_message(first)[1] if most == 1 else ():
            part = part.go_to(step)
    return list(islice(_list_faults(part), most)) or [describe_first(first, where)]


def describe_first(first: msgspec.ValidationError, where: Path) -> PlacedFault:
    what, path = split_message(first)
    return format_path((*where, *path)), what


def split_message(error: msgspec.ValidationError) -> tuple[str, Path]:
    """Return the message of a fault, and its place except in a position or a similar object.

    >>> split_message(msgspec.ValidationError("Expected `int` - at `$.notes[3].position[...]`"))
    ('Expected `int`', ('notes', 3, 'position'))
    """
    what, _, place = str(error).partition(" - at `")
    steps = re.findall(r"\.(\w+)|\[(\d+)\]", place.partition("[...]")[0])
    return what.partition(", got ")[0], tuple(name or int(number) for name, number in steps)


class Part(NamedTuple):
    """A part of a body, with its type, its place and what only OpenAPI says of it."""

    kind: Any
    given: Any
    where: Path
    schema: Mapping[str, Any] = NO_SCHEMA

    def narrow(self) -> Part:
        """Choose the alternative of the type that fits best."""
        kind = self.kind
        if isinstance(kind, inspect.Metadata):
            schema = {**self.schema, **(kind.extra_json_schema or {})}
            return self._replace(kind=kind.type, schema=schema).narrow()
        if not isinstance(kind, inspect.UnionType):
            return self
        parts = [self._replace(kind=each).narrow() for each in kind.types]
        possible = [each for each in parts if not isinstance(each.kind, inspect.NoneType)]
        if self.given is None and len(possible) < len(parts):
            return self._replace(kind=inspect.NoneType())
        is_list = isinstance(self.given, list)
        fitting = (each for each in possible if isinstance(each.kind, LIST_TYPES) == is_list)
        return next(fitting, possible[0])

    def go_to(self, step: int | str) -> Part:
        part = self.narrow()
        of_fields = {each.name: each.type for each in getattr(part.kind, "fields", ())}
        kind = of_fields[str(step)] if of_fields else part.kind.item_type
        return Part(kind, part.given[step], (*part.where, step))

    def describe(self, fault: str, bound: object = None) -> PlacedFault:
        words = re.sub(r"\{\w+\}", str(bound), FAULT_WORDS[fault])
        return format_path(self.where), words + describe_input(self.given)


def _list_faults(part: Part) -> Faults:
    part = part.narrow()
    list_own = LISTERS.get(type(part.kind))
    if list_own is not None:
        yield from list_own(part.kind, part)


def _list_in_object(kind: inspect.StructType, part: Part) -> Faults:
    given, where = part.given, part.where
    if not isinstance(given, dict):
        yield format_path(where), MUST_BE_A_BODY if where == ("body",) else MUST_BE_AN_OBJECT
        return
    for each in kind.fields:
        if each.name in given:
            yield from _list_faults(Part(each.type, given[each.name], (*where, each.name)))
        elif each.required:
            yield format_path((*where, each.name)), FAULT_WORDS["missing"]
    known = [each.name for each in kind.fields]
    for name in given:
        if name not in known:
            yield format_path((*where, name)), describe_unknown("field", name, known)


def _list_in_dict(kind: inspect.DictType, part: Part) -> Faults:
    if not isinstance(part.given, dict):
        yield part.describe("dict_type")
    elif kind.max_length is not None and len(part.given) > kind.max_length:
        yield part.describe("too_long", kind.max_length)
    else:
        is_of_segments = isinstance(kind.key_type, inspect.IntType)
        is_key = _is_segment if is_of_segments else NAME_PATTERN.fullmatch
        for key, value in part.given.items():
            place = (*part.where, key)
            if is_key(key):
                yield from _list_faults(Part(kind.value_type, value, place))
            else:
                yield format_path(place), MUST_BE_A_SEGMENT if is_of_segments else MUST_BE_A_NAME


def _list_in_list(kind: inspect.ListType | inspect.VarTupleType, part: Part) -> Faults:
    given = part.given
    if not isinstance(given, list):
        yield part.describe("list_type")
    elif len(given) < (kind.min_length or 0):
        yield part.describe("too_short", kind.min_length)
    elif kind.max_length is not None and len(given) > kind.max_length:
        yield part.describe("too_long", kind.max_length)
    else:
        for number, each in enumerate(given):
            yield from _list_faults(Part(kind.item_type, each, (*part.where, number)))
        if part.schema.get("uniqueItems"):
            counts = Counter(each for each in given if isinstance(each, str))
            yield from (
                (format_path(part.where), f"{name!r} appears more than once")
                for name, count in counts.items()
                if count > 1
            )


def _list_in_text(kind: inspect.StrType, part: Part) -> Faults:
    given, pattern = part.given, part.schema.get("pattern")
    if not isinstance(given, str):
        yield part.describe("string_type")
    elif pattern and not re.fullmatch(pattern, given):
        yield format_path(part.where), describe_pattern(pattern)
    elif len(given) < (kind.min_length or 0):
        yield part.describe("string_too_short", kind.min_length)
    elif kind.max_length is not None and len(given) > kind.max_length:
        yield part.describe("string_too_long", kind.max_length)


def _list_in_number(kind: inspect.IntType, part: Part) -> Faults:
    given, most = part.given, kind.le if kind.lt is None else kind.lt - 1
    if type(given) is not int:
        yield part.describe("int_type")
    elif kind.ge is not None and given < kind.ge:
        yield part.describe("greater_than_equal", kind.ge)
    elif most is not None and given > most:
        yield part.describe("less_than_equal", most)


def _list_in_flag(_: inspect.BoolType, part: Part) -> Faults:
    if not isinstance(part.given, bool):
        yield part.describe("bool_type")


def _list_in_choice(kind: inspect.LiteralType, part: Part) -> Faults:
    if part.given not in kind.values:
        *others, last = map(repr, part.schema["enum"])  # msgspec sorts its values
        yield part.describe("literal_error", f"{', '.join(others)} or {last}")


LISTERS: Mapping[type[inspect.Type], Callable[[Any, Part], Faults]] = {
    inspect.StructType: _list_in_object,
    inspect.DictType: _list_in_dict,
    inspect.ListType: _list_in_list,
    inspect.VarTupleType: _list_in_list,
    inspect.StrType: _list_in_text,
    inspect.IntType: _list_in_number,
    inspect.BoolType: _list_in_flag,
    inspect.LiteralType: _list_in_choice,
}
