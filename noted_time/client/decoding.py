"""Check the types of the fields of answers, which are the same in all answers.

`null` and unknown fields are accepted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from noted_time import answers
from noted_time.answers.json_fields import JsonField, list_fields
from noted_time.values import MAX_INT64, MIN_INT64, StreamCut

SHOWN_CHARACTERS = 200

TYPE_WORDS = {
    int: "an int64",
    bool: "true or false",
    str: "a string",
    list: "a list",
    dict: "an object",
}
JSON_TYPES: Mapping[Any, type] = {tuple: list, Sequence: list}
UNCHECKED_TYPES = {NoneType, float, Any}

FIELDS_OF_PROBLEMS: Mapping[str, set[type]] = {"complete_to": {int}}
"""Fields of problems that no answer has."""

BY_KEY = (int, dict, list)
ANY_KEYS = ("was", "is", "last")


@cache
def find_field_types() -> tuple[Mapping[str, Sequence[type]], frozenset[str]]:
    """Return the types of each field, and the fields with objects by name or segment.

    >>> types, keyed = find_field_types()
    >>> types["lower"], types["late"], "late" in keyed
    ((<class 'int'>,), (<class 'list'>, <class 'dict'>), True)
    """
    found, keyed = defaultdict(set[type], FIELDS_OF_PROBLEMS), set[str]()
    for field in _list_all_fields():
        kinds = {get_origin(each) or each for each in _split_union(field.hint)} - UNCHECKED_TYPES
        for kind in kinds:
            found[field.name].add(JSON_TYPES.get(kind, kind if kind in TYPE_WORDS else dict))
        if kinds & {Mapping, StreamCut}:
            keyed.add(field.name)
    types = {name: tuple(filter(kinds.__contains__, TYPE_WORDS)) for name, kinds in found.items()}
    return types, frozenset(keyed)


def _split_union(hint: Any) -> Iterator[Any]:  # noqa: ANN401 - any type
    parts = get_args(hint)
    if get_origin(hint) is Annotated:
        parts = parts[:1]
    elif get_origin(hint) not in {Union, UnionType}:
        yield hint
        return
    for each in parts:
        yield from _split_union(each)


def _list_all_fields() -> Iterator[JsonField]:
    seen, left = set[object](), [*vars(answers).values()]
    while left:
        kind = left.pop()
        left += get_args(kind)
        if isinstance(kind, type) and hasattr(kind, "__annotations__") and kind not in seen:
            seen.add(kind)
            yield from list_fields(kind)
            left += [each.hint for each in list_fields(kind)]


def check_types(answer: dict[str, Any]) -> None:
    """Raise `TypeError`, with the value, if a field has a wrong type.

    >>> check_types({"marks": [{"seq": 1, "lower": 5}], "more": "new"})
    >>> check_types({"marks": [{"seq": 1, "lower": "5"}]})
    Traceback (most recent call last):
        ...
    TypeError: `lower` is '5', which is not an int64
    """
    within: list[tuple[str, Any]] = [("", answer)]
    while within:  # an answer may be too deep for recursion
        name, found = within.pop()
        if isinstance(found, list):
            within += [("", each) for each in found if isinstance(each, dict | list)]
        elif name not in ANY_KEYS:
            within += _check_fields(name, found)


def _check_fields(of: str, found: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    field_types, keyed = find_field_types()
    is_keyed = of in keyed
    by_key = field_types["status"] if of == "states" else BY_KEY
    for key, value in found.items():
        types, kind = by_key if is_keyed else field_types.get(key), type(value)
        if kind is int and types and types[0] is int and MIN_INT64 <= value <= MAX_INT64:
            continue  # most values
        if types is not None and value is not None and (kind is int or kind not in types):
            name, words = of if is_keyed else key, " or ".join(TYPE_WORDS[each] for each in types)
            raise TypeError(f"`{name}` is {value!r:.{SHOWN_CHARACTERS}}, which is not {words}")
        if kind is dict or kind is list:
            yield "" if is_keyed else key, value
