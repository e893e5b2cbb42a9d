"""Convert HTTP answers with a problem (RFC 9457) into exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypedDict, get_type_hints

from noted_time.coding import convert_from_json
from noted_time.values import (
    Bounds,
    Conflict,
    NotAllowed,
    NotedTimeError,
    NotesRefused,
    Rejected,
    UnexpectedAnswer,
    UnknownStream,
    Unreachable,
)

TRY_LATER = frozenset((408, 425, 429))
CONFLICT_STATUS = 409
UNAUTHENTICATED_STATUS = 401
NOT_ALLOWED = frozenset((UNAUTHENTICATED_STATUS, 403))
SUCCESS_STATUSES = Bounds(200, 300)
SERVER_ERROR = 500
PROBLEM_PREFIX = "urn:noted-time:problem:"
AUTHENTICATION_REMEDY = "; pass --token (token= in Python), or set NOTED_TIME_TOKEN"
_WORD_PATTERN = re.compile(r"[A-Za-z0-9_]+")


def error_of(
    status: int, problem: Mapping[str, Any], *, stream: str, retry_after: str | None = None
) -> NotedTimeError:
    """Return the exception for an answer, whose decoded body is `problem`.

    Raises `msgspec.ValidationError` if a fact has a wrong type.

    >>> error_of(404, {"type": "not_complete_yet", "lower": 7}, stream="flights").lower
    7
    >>> error_of(503, {}, stream="flights", retry_after="2").retry_after_s
    2.0
    >>> rejected = {"type": "urn:noted-time:problem:rejected", "title": "Rejected", "detail": "no"}
    >>> error_of(422, rejected, stream="flights")
    Rejected('422 Rejected: no')
    """
    if status >= SERVER_ERROR or status in TRY_LATER:
        return Unreachable(_describe_problem(status, problem), retry_after_s(retry_after))
    code = _kind_of(problem)
    if code == NotesRefused.kind.code:
        return NotesRefused(_describe_problem(status, problem), problem)
    if code == UnknownStream.kind.code:
        return UnknownStream(stream)
    error_class = ERRORS_BY_CODE.get(code)
    if error_class is None:
        return _build_generic_error(status, problem)
    class_with_facts: Any = error_class
    facts = convert_from_json(problem, _type_facts(class_with_facts), str_keys=False)
    return error_class(**error_class.kind.arguments(facts))


@cache
def _type_facts(error_class: Any) -> Any:  # noqa: ANN401 - types
    hints = get_type_hints(error_class.__init__, include_extras=True)
    kind = error_class.kind
    types = {name: hints[kind.attributes.get(name, name)] for name in kind.facts}
    return TypedDict("Facts", types, total=False)  # type: ignore[operator]


def retry_after_s(header: str | None) -> float | None:
    if not (header and header.isascii() and header.isdigit()):
        return None
    return float(header)


def _kind_of(problem: Mapping[str, Any]) -> str:
    words = _WORD_PATTERN.findall(str(problem.get("type", "")))
    return words[-1] if words else ""


def _list_subclasses(error_class: type[NotedTimeError]) -> Iterator[type[NotedTimeError]]:
    for subclass in error_class.__subclasses__():
        yield subclass
        yield from _list_subclasses(subclass)


ERRORS_BY_CODE: Mapping[str, type[NotedTimeError]] = {
    error_class.kind.code: error_class
    for error_class in _list_subclasses(NotedTimeError)
    if "kind" in vars(error_class) and error_class.kind.has_own_class
}


PROBLEM_CHARACTERS = 4000


def _build_generic_error(status: int, problem: Mapping[str, Any]) -> NotedTimeError:
    if status in NOT_ALLOWED:
        remedy = ""
        if status == UNAUTHENTICATED_STATUS:
            remedy = AUTHENTICATION_REMEDY
        return NotAllowed(_describe_problem(status, problem) + remedy)
    if not str(problem.get("type", "")).startswith(PROBLEM_PREFIX):
        fact = f"status {status}, not from a noted-time controller"
        return UnexpectedAnswer(f"{fact}: check the URL and its proxies")
    error_class = Conflict if status == CONFLICT_STATUS else Rejected
    return error_class(_describe_problem(status, problem))


def _describe_problem(status: int, problem: Mapping[str, Any]) -> str:
    facts = [
        str(problem[name])[:PROBLEM_CHARACTERS] for name in ("title", "detail") if problem.get(name)
    ]
    if facts:
        return f"{status} {': '.join(facts)}"
    return f"the answer had status {status}"
