"""Check the types of the fields of answers before a client uses them.

A field name has one meaning and the same types in all answers. `null` and unknown fields are
accepted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

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
JSON_TYPES: Mapping[Any, type] = {Literal: str, tuple: list, Sequence: list}
UNCHECKED_TYPES = {NoneType, float}

VALUES = (
    StreamSettings,
    Mark,
    Point,
    LateReport,
    LateWriter,
    VouchedBy,
    Absence,
    LogFact,
    Stretch,
    Waiting,
    NotVouching,
)

FIELDS_BY_TYPES = {
    (int,): """before behind_ms buckets complete_to end exclusions finished first_at from_seq
        held_until holders holding_since idle late_count live lower_seq missing_count
        missing_joined_later needed next_lower next_seq noted_at now number out_at refused
        reported_at silent_ms start timeout_ms total unanswered upper_seq watermark_lag_ms
        writers_total""",
    (bool,): """administer ahead_of_stream answered backlog before_first_mark beyond
        changes_are_known exact has_more has_position is_silent late_is_known missing_is_known
        observes quiet read_all tokens""",
    (str,): """action code comment condition decision detail domain field given group held held_by
        held_for hint id known label name revision rule silence state stream_id title token type url
        version""",
    (list,): """because changes controllers entries groups hints lag logs missing never_noted
        order points predecessors read results returned sentences streams successors took_over
        unmet waiting_for write""",
    (dict,): """backlog_policy by_itself conditions created dropped final_cut is lags seal states
        times vouched vouching was would""",
    (int, dict): "behind from lower_without readers to",
    (int, list, dict): "excluded last marks segments",
    (int, list): "scale_events",
    (int, str): "next status",
    (bool, dict): "sealed",
    (str, dict): "reader session",
    (list, dict): "late windows writers",
}
"""The types of fields that only answers have. Annotations of `VALUES` declare all others."""


def _type_of(hint: Any) -> type:  # noqa: ANN401 - any type
    kind = get_args(hint)[0] if NoneType in get_args(hint) else hint
    kind = get_origin(kind) or kind
    kind = {Literal: str, tuple: list, Sequence: list}.get(kind, kind)
    return kind if kind in TYPE_WORDS else dict


FIELD_TYPES = {
    name: (_type_of(hint),) for value in VALUES for name, hint in get_type_hints(value).items()
} | {name: types for types, names in FIELDS_BY_TYPES.items() for name in names.split()}

_KEYED_NAMES = """behind conditions created cut dropped final_cut from lags late lower_without marks
    position readers sealed segments states times to vouching windows"""
KEYED_FIELDS = frozenset(_KEYED_NAMES.split())
"""Fields whose objects are keyed by domains, segments, writers or readers."""

BY_KEY = (int, dict, list)
ANY_KEYS = ("was", "is", "last")


@cache
def find_field_types() -> tuple[Mapping[str, Sequence[type]], frozenset[str]]:
    """Return the types of each field, and the fields whose objects have names or segments as keys.

    >>> types, keyed = find_field_types()
    >>> types["lower"], types["late"], "late" in keyed
    ((<class 'int'>,), (<class 'list'>, <class 'dict'>), True)
    """
    found, keyed = defaultdict(set[type], FIELDS_OF_PROBLEMS), set[str]()
    for field in _list_all_fields():
        is_union = get_origin(field.hint) in {Union, UnionType}
        hints = get_args(field.hint) if is_union else (field.hint,)
        kinds = {get_origin(each) or each for each in hints} - UNCHECKED_TYPES
        for kind in kinds:
            found[field.name].add(JSON_TYPES.get(kind, kind if kind in TYPE_WORDS else dict))
        if kinds & {Mapping, StreamCut}:
            keyed.add(field.name)
    types = {name: tuple(filter(kinds.__contains__, TYPE_WORDS)) for name, kinds in found.items()}
    return types, frozenset(keyed)


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
    while within:  # no recursion, because an answer may be nested deeply
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
            continue  # most values: a page of marks has a million offsets
        if types is not None and value is not None and (kind is int or kind not in types):
            name, words = of if is_keyed else key, " or ".join(TYPE_WORDS[each] for each in types)
            raise TypeError(f"`{name}` is {value!r:.{SHOWN_CHARACTERS}}, which is not {words}")
        if kind is dict or kind is list:
            yield "" if is_keyed else key, value
