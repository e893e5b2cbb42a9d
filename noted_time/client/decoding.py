"""Check the types of the fields of answers before a client uses them.

A field name has one meaning and the same types in all answers. `null` and unknown fields are
accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from noted_time.reading.history import Stretch
from noted_time.reading.trend import Point
from noted_time.values import (
    MAX_INT64,
    MIN_INT64,
    Absence,
    LateReport,
    LateWriter,
    LogFact,
    Mark,
    NotVouching,
    StreamSettings,
    VouchedBy,
    Waiting,
)

SHOWN_CHARACTERS = 200

TYPE_WORDS = {
    int: "an int64",
    bool: "true or false",
    str: "a string",
    list: "a list",
    dict: "an object",
}

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
    (str,): """action code comment decision detail domain field given group held held_by held_for
        hint id known label name revision rule silence state stream_id title token type url
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
    is_keyed = of in KEYED_FIELDS
    by_key = FIELD_TYPES["status"] if of == "states" else BY_KEY
    for key, value in found.items():
        types, kind = by_key if is_keyed else FIELD_TYPES.get(key), type(value)
        if kind is int and types and types[0] is int and MIN_INT64 <= value <= MAX_INT64:
            continue  # most values: a page of marks has a million offsets
        if types is not None and value is not None and (kind is int or kind not in types):
            name, words = of if is_keyed else key, " or ".join(TYPE_WORDS[each] for each in types)
            raise TypeError(f"`{name}` is {value!r:.{SHOWN_CHARACTERS}}, which is not {words}")
        if kind is dict or kind is list:
            yield "" if is_keyed else key, value
