"""What is wrong with a field or query parameter, in the words of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from pydantic import BaseModel

if TYPE_CHECKING:
    from fastapi import Request

SHOWN = 10
"""Maximum number of faults of a request that are named."""

BRIEF = 40
"""Maximum number of characters of a value or name that are repeated."""

EXTRA = "extra_forbidden"
"""The fault of a field or query parameter that is not known."""

MUST_BE_A_NAME = "must be 1 to 249 characters of A-Z a-z 0-9 . _ -, and neither . nor .."
MUST_BE_A_SESSION = "must be 1 to 64 characters of A-Z a-z 0-9 . _ -"
MUST_BE_A_SEGMENT = "must name a segment: a decimal integer below 10^18"
MUST_BE_A_LINE = "must be one line, without control characters and bidirectional overrides"

Found = tuple[str, str]
"""Where a field is, as a path, and why it does not fit."""


def brief(text: str) -> str:
    """Return the text, or its beginning."""
    return text if len(text) <= BRIEF else text[:BRIEF] + "…"


def no_such(kind: str, name: str, known: Sequence[str]) -> str:
    """Return that a field or parameter of that name does not exist, and which do.

    >>> no_such("field", "tiem", ["writer", "time"])
    "unknown field; did you mean 'time'? Known: writer, time"
    >>> no_such("query parameter", "x", [])
    'unknown query parameter; this call has none'
    """
    near = get_close_matches(name[:100], known, n=1)
    meant = f"did you mean {near[0]!r}? Known" if near else "known"
    which = f"{meant}: {', '.join(known)}" if known else "this call has none"
    return f"unknown {kind}; {which}"


def parameters_of(request: Request) -> list[str]:
    """Return the query parameters of the route that took a request."""
    wanted = request.scope["route"].operation_id
    paths = request.app.openapi()["paths"].values()
    operations = (each for methods in paths for each in methods.values())
    operation = next(each for each in operations if each["operationId"] == wanted)
    return [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]


def fields_beside(request: Request, where: Sequence[int | str]) -> list[str]:
    """Return the fields beside an unknown one at `where` in the body of a request."""
    (model,) = _models(get_type_hints(request.scope["route"].endpoint).values())
    for part in where[:-1]:
        (model,) = _models([model.model_fields[str(part)].annotation])
    return list(model.model_fields)


def _models(hints: Iterable[Any]) -> list[type[BaseModel]]:
    parts = (part for hint in hints for part in (hint, *get_args(hint)))
    return [each for each in parts if isinstance(each, type) and issubclass(each, BaseModel)]
