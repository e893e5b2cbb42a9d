"""The JSON encoding of values and pages, and their schemas for OpenAPI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from types import UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, Field, create_model
from starlette.responses import Response

from controller.api.wire.requests import Position
from controller.service.long_reads import iterate_in_slices
from noted_time import CompleteWindow, StreamCut
from noted_time.answers.json_fields import list_fields
from noted_time.coding import encode

ANSWER_BYTES = 4 * 1024 * 1024  # of a page of items

# generated clients use this name
SCHEMA_NAMES: dict[type[Any], str] = {CompleteWindow: "CompleteWindowAnswer"}

# OpenAPI omits a docstring's text from here on.
FOR_READERS_OF_CODE = re.compile(r"\n\n(?=Raises|[^\n]*:\n\n>>>|>>>)")

Item = TypeVar("Item")


def reply(value: object, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


@dataclass(frozen=True, slots=True)
class Fitting(Generic[Item]):
    """The encoded items of a page, the last item, and whether more items follow."""

    items: tuple[Any, ...]
    last: Item | None
    has_more: bool


async def page_of(items: Iterable[Item], limit: int) -> Fitting[Item]:
    """Return at most `limit` items and `ANSWER_BYTES`, but at least one item."""
    page: list[Any] = []
    last, bytes_left = None, ANSWER_BYTES
    async for item in iterate_in_slices(items):
        encoded = encode(item)
        bytes_left -= len(encoded)
        if len(page) == limit or (page and bytes_left < 0):
            return Fitting(tuple(page), last, has_more=True)
        page.append(msgspec.Raw(encoded))
        last = item
    return Fitting(tuple(page), last, has_more=False)


@cache
def shape(value: type[Any]) -> type[BaseModel]:
    """Return the model of a value's JSON. Each field is required unless its default is omitted.

    >>> from noted_time import TimeWindow
    >>> list(shape(TimeWindow).model_fields)
    ['lower', 'upper', 'lower_seq', 'upper_seq', 'sealed']
    """
    kind: Callable[..., Any] = value
    fields: dict[str, Any] = {
        each.name: (_json(each.hint), Field(None if each.is_optional else ...))
        for each in list_fields(kind)
    }
    text = FOR_READERS_OF_CODE.split(cleandoc(value.__doc__ or ""))[0]
    return create_model(SCHEMA_NAMES.get(value, value.__name__), __doc__=text, **fields)


def _json(hint: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type in JSON: segment numbers are strings, and tuples lists."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        names = (parts[1].extra_json_schema or {}).get("enum", ())
        return Literal[tuple(names)] if names else _json(parts[0])
    if hint is StreamCut or (origin is Mapping and parts == (int, int)):
        return Position
    if origin in {Mapping, dict}:
        return dict[str if parts[0] is int else parts[0], _json(parts[1])]  # type: ignore[misc]
    if origin in {Sequence, list, tuple}:
        return list[_json(parts[0])]  # type: ignore[misc]
    if origin in {Union, UnionType}:
        return Union[tuple(map(_json, parts))]  # noqa: UP007 - any number of types
    is_value = hint is not Any and hasattr(hint, "__annotations__")
    return shape(hint) if is_value else hint
