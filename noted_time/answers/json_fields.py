"""The fields of a value in JSON.

A class renames fields by `JSON_NAMES`. If it `IS_INLINE`, its fields belong to the JSON object of
the value that contains it. If it `OMITS_NONE`, fields with a default are omitted if they are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, get_type_hints


class JsonField(NamedTuple):
    """A field of a JSON object; `attribute` is the path to its value."""

    name: str
    attribute: str
    hint: Any
    is_optional: bool = False


@cache
def list_fields(kind: Callable[..., Any]) -> tuple[JsonField, ...]:
    """Return the fields of a value's JSON object, in order.

    >>> from noted_time import CompleteWindow
    >>> [(each.name, each.attribute) for each in list_fields(CompleteWindow)][2:9:6]
    [('from', 'from_cut'), ('missing', 'missing.writers')]
    """
    return tuple(_flatten(kind))


@cache
def list_own_fields(kind: Callable[..., Any]) -> tuple[JsonField, ...]:
    names, omits_none = getattr(kind, "JSON_NAMES", {}), getattr(kind, "OMITS_NONE", False)
    return tuple(
        JsonField(names.get(name, name), name, hint, omits_none and hasattr(kind, name))
        for name, hint in get_type_hints(kind).items()
        if not name.isupper()
    )


def is_inline(hint: Any) -> bool:  # noqa: ANN401 - any type
    return getattr(hint, "IS_INLINE", False)


def _flatten(kind: Callable[..., Any]) -> Iterator[JsonField]:
    for own in list_own_fields(kind):
        if not is_inline(own.hint):
            yield own
            continue
        for each in list_own_fields(own.hint):
            yield each._replace(attribute=f"{own.attribute}.{each.attribute}")
