"""Describes faults of fields and query parameters for an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from noted_time.values import Unreadable, parse_time

FAULTS_SHOWN = 10

BRIEF_LENGTH = 40

MUST_BE_A_NAME = "must be 1 to 249 characters of A-Z a-z 0-9 . _ -, and neither . nor .."
MUST_BE_A_SESSION = "must be 1 to 64 characters of A-Z a-z 0-9 . _ -"
MUST_BE_A_SEGMENT = "must name a segment: a decimal integer below 10^18"
MUST_BE_A_LINE = "must be one line, without control, invisible and bidirectional characters"

FAULT_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "object_type": "must be a JSON object",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "int_type": "must be an integer",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be a string",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
}

PlacedFault = tuple[str, str]  # the path of a field, and why its value is invalid


def shorten(text: str) -> str:
    if len(text) <= BRIEF_LENGTH:
        return text
    return text[:BRIEF_LENGTH] + "…"


def describe_unknown(kind: str, name: str, known_names: Sequence[str]) -> str:
    """Return a message for an unknown field or parameter, with the known names.

    >>> describe_unknown("field", "tiem", ["writer", "time"])
    "unknown field; did you mean 'time'? Known: writer, time"
    """
    similar_names = get_close_matches(name[:100], known_names, n=1)
    introduction = "known"
    if similar_names:
        introduction = f"did you mean {similar_names[0]!r}? Known"
    hint = "this call has none"
    if known_names:
        hint = f"{introduction}: {', '.join(known_names)}"
    return f"unknown {kind}; {hint}"


def place_faults(errors: Sequence[Mapping[str, Any]]) -> list[PlacedFault]:
    """Describe pydantic's errors of a query or a path."""
    return [(format_path(error["loc"]), _describe_fault(error)) for error in errors[:FAULTS_SHOWN]]


def format_path(path: Sequence[int | str]) -> str:
    return ".".join(shorten(str(part)) for part in path)


def _describe_fault(error: Mapping[str, Any]) -> str:
    pattern = error.get("ctx", {}).get("pattern")
    if pattern is not None:
        return describe_pattern(pattern)
    template = FAULT_WORDS.get(error["type"])
    if template is None:
        return str(error["msg"]).removeprefix("Value error, ")
    return template.format(**error.get("ctx", {})) + describe_input(error.get("input"))


def describe_pattern(pattern: str) -> str:
    if "{1,64}" in pattern:
        return MUST_BE_A_SESSION
    if "A-Z" in pattern:
        return MUST_BE_A_NAME
    return MUST_BE_A_LINE


def describe_input(value: object) -> str:
    """Return the value that was given, and for a time in ISO format also its integer.

    >>> describe_input(-5), describe_input("2013-01-01T10:00Z"), describe_input([1])
    (', not -5', ", not '2013-01-01T10:00Z': in Unix ms that is 1357034400000", '')
    """
    if isinstance(value, bool):
        return f", not {json.dumps(value)}"
    if not isinstance(value, str | int | float):
        return ""
    description = f", not {shorten(repr(value))}"
    if "T" not in str(value):
        return description
    with suppress(Unreadable):
        return f"{description}: in Unix ms that is {parse_time(str(value))}"
    return description
