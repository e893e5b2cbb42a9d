"""Errors over HTTP: RFC 9457 problem details, one `code` for each kind.

The status says what to do: 4xx don't retry it as it is, 503 retry after a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from controller.aggregation.owned_streams import NotOwner
from controller.api.answers import NOT_MINE, PROBLEM, Answer
from controller.api.faults import (
    EXTRA,
    MUST_BE_A_LINE,
    MUST_BE_A_NAME,
    MUST_BE_A_SEGMENT,
    MUST_BE_A_SESSION,
    SHOWN,
    Found,
    brief,
    fields_beside,
    no_such,
    parameters_of,
)
from controller.api.shapes import REF
from controller.service.access import ForeignMember, ForeignWriter
from controller.service.limits import Overloaded
from controller.store.port import StoreUnavailable
from noted_time.values import (
    AlreadySealed,
    Conflict,
    ImplausibleTime,
    InvalidCut,
    InvalidFinalTime,
    InvalidName,
    InvalidScale,
    LimitReached,
    NotCompleteYet,
    NotedMeanwhile,
    NotedTimeError,
    NotLive,
    Rejected,
    StreamSealed,
    TooManySegments,
    UnknownAlignment,
    UnknownDomain,
    UnknownReader,
    UnknownStream,
    UnknownWriter,
)

METHOD_NOT_ALLOWED = 405

KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (ForeignWriter, 403, "foreign_writer"),
    (ForeignMember, 403, "foreign_member"),
    (UnknownStream, 404, "unknown_stream"),
    (UnknownAlignment, 404, "unknown_alignment"),
    (UnknownReader, 404, "unknown_reader"),
    (UnknownWriter, 404, "unknown_writer"),
    (NotCompleteYet, 404, "not_complete_yet"),
    (InvalidName, 422, "invalid_name"),
    (ImplausibleTime, 422, "implausible_time"),
    (InvalidScale, 422, "invalid_scale"),
    (InvalidCut, 422, "invalid_cut"),
    (InvalidFinalTime, 422, "invalid_final_time"),
    (StreamSealed, 422, "sealed"),
    (UnknownDomain, 404, "unknown_domain"),
    (TooManySegments, 422, "too_many_segments"),
    (LimitReached, 422, "limit_reached"),
    (Rejected, 422, "rejected"),
    (NotedMeanwhile, 409, "noted_meanwhile"),
    (NotLive, 409, "not_live"),
    (AlreadySealed, 409, "already_sealed"),
    (Conflict, 409, "conflict"),
    (NotOwner, 503, "no_owner"),
    (Overloaded, 503, "overloaded"),
    (StoreUnavailable, 503, "unavailable"),
)
"""The first that fits counts: status and code of every error that may leave the service."""

FACTS: tuple[tuple[type[Exception], tuple[str, ...]], ...] = (
    (ForeignWriter, ("writer",)),
    (ForeignMember, ("member",)),
    (UnknownAlignment, ("alignment",)),
    (UnknownReader, ("group", "reader")),
    (UnknownWriter, ("writer",)),
    (NotedMeanwhile, ("writer", "noted_at")),
    (NotLive, ("writer", "state")),
    (LimitReached, ("limit",)),
    (InvalidScale, ("segment",)),
    (ImplausibleTime, ("time", "lower")),
    (InvalidFinalTime, ("domain", "lower")),
)
"""The attributes of an error that are members of its problem, under the same names."""


Responses = dict[int | str, dict[str, Any]]

_PROBLEM = {"$ref": REF.format(model="Problem")}
PROBLEMS: Responses = {
    status: {"description": text, "content": {PROBLEM: {"schema": _PROBLEM}}}
    for status, text in (
        (400, "Malformed JSON"),
        (401, "Missing, expired or revoked token"),
        (403, "Not allowed with this token, or from that web page"),
        (404, "Not found"),
        (409, "Read again, then retry"),
        (413, "Body over 1 MiB"),
        (422, "A field does not fit"),
        (503, "Database unavailable or server overloaded; retry later"),
    )
}
"""The problems of a route in the OpenAPI document."""

_REFUSED = {"anyOf": [{"$ref": REF.format(model="NotesRefused")}, _PROBLEM]}
NOTES_REFUSED: Responses = {
    422: {
        "description": "A field does not fit, or no note was accepted",
        "content": {PROBLEM: {"schema": _REFUSED}},
    }
}
"""What it says in place of that of the route for notes."""


def problem(status: int, code: str, detail: str, **facts: Any) -> Answer:  # noqa: ANN401 - any JSON
    """Return a problem document; `facts` are further members of it."""
    body = {
        "type": f"urn:noted-time:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
        **facts,
    }
    return Answer.of(status, msgspec.json.encode(body), PROBLEM)


def problem_of(error: Exception) -> Answer:
    """Return the problem document of an error that left the service."""
    status, code = next((s, c) for kind, s, c in KINDS if isinstance(error, kind))
    return problem(status, code, str(error), **_facts(error))


def _facts(error: Exception) -> dict[str, Any]:
    if isinstance(error, NotCompleteYet):
        return {"complete_to": error.time, "lower": error.lower}
    if isinstance(error, InvalidCut):
        return {"behind": error.behind, "beyond": error.beyond}
    if isinstance(error, UnknownDomain):
        return {"domain": error.domain, "domains": list(error.declared)}
    names = next((names for kind, names in FACTS if isinstance(error, kind)), ())
    return {name: getattr(error, name) for name in names}


def invalid_request(found: Sequence[Found]) -> Answer:
    """Return the problem of a request in which fields do not fit: where each is, and why."""
    detail = "; ".join(f"{where}: {what}" for where, what in found[:SHOWN])
    errors = [{"where": where, "what": what} for where, what in found]
    return problem(422, "invalid_request", detail, errors=errors)


def unknown_parameters(query: bytes) -> Answer:
    """Return the problem of query parameters sent to a call that has none."""
    names = list(dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)))
    what = no_such("query parameter", "", ())
    return invalid_request([(_path(("query", name)), what) for name in names[:SHOWN]])


def install(app: FastAPI) -> None:
    """Make every error of `app` a problem document."""

    async def http(request: Request, error: HTTPException) -> Response:
        answer = _http(error)
        if error.status_code == METHOD_NOT_ALLOWED:
            answer.headers["Allow"] = _allowed(app, request.url.path) or answer.headers["Allow"]
        return answer

    async def refused(_: Request, error: Exception) -> Response:
        return problem_of(error).to_response()

    async def misdirected(_: Request, __: Exception) -> Response:
        return NOT_MINE.to_response()

    app.add_exception_handler(NotedTimeError, refused)
    app.add_exception_handler(StoreUnavailable, refused)
    app.add_exception_handler(NotOwner, misdirected)
    app.add_exception_handler(RequestValidationError, _invalid)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, http)  # type: ignore[arg-type]


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    """Name fields that do not fit, and why, at most ten; JSON that cannot be parsed is a 400."""
    errors = error.errors()
    malformed = next(
        (e for e in errors if (e["type"], e["loc"][0]) == ("json_invalid", "body")), None
    )
    if malformed is not None:
        why, at = malformed["ctx"]["error"], malformed["loc"][-1]
        return problem(400, "malformed_json", f"body: {why} (byte {at})").to_response()
    found = [(_path(each["loc"]), _what(each, _known(request, each))) for each in errors[:SHOWN]]
    return invalid_request(found).to_response()


def _known(request: Request, error: Mapping[str, Any]) -> list[str]:
    """Return the names that are known beside an unknown field or parameter."""
    if error["type"] != EXTRA:
        return []
    if error["loc"][0] == "query":
        return parameters_of(request)
    return fields_beside(request, error["loc"][1:])


def _what(error: Mapping[str, Any], known: Sequence[str]) -> str:
    if error["type"] == EXTRA:
        kind = "query parameter" if error["loc"][0] == "query" else "field"
        return no_such(kind, str(error["loc"][-1]), known)
    pattern = error.get("ctx", {}).get("pattern")
    if pattern is not None:
        kinds = (("{1,64}", MUST_BE_A_SESSION), ("A-Z", MUST_BE_A_NAME), ("1-9", MUST_BE_A_SEGMENT))
        return next((what for part, what in kinds if part in pattern), MUST_BE_A_LINE)
    if error["type"] == "model_attributes_type" and error["loc"] == ("body",):
        return "must be a JSON object, sent with Content-Type: application/json"
    return str(error["msg"])


def _http(error: HTTPException) -> Response:
    codes = {400: "malformed_json", 404: "not_found", 405: "method_not_allowed"}
    code = codes.get(error.status_code, "http_error")
    answer = problem(error.status_code, code, str(error.detail)).to_response()
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def _allowed(app: FastAPI, path: str) -> str:
    """Return every method of the path; the framework only knows those of one route."""
    operations = [
        operations
        for template, operations in app.openapi()["paths"].items()
        if compile_path(template)[0].match(path)
    ]
    return ", ".join(sorted(method.upper() for each in operations for method in each))


def _path(where: Sequence[int | str]) -> str:
    return ".".join(brief(str(part)) for part in where if part != "[key]")
