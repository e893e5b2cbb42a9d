"""Errors over HTTP as RFC 9457 problem details, with a `code` for each kind.

Clients must not retry a request with status 4xx unchanged, and can retry 503 later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args
from urllib.parse import parse_qsl

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from controller.aggregation.owned_streams import NotOwner
from controller.api.wire.bodies import InvalidRequest
from controller.api.wire.responses import NOT_MINE, PROBLEM, Answer
from noted_time.json_types import SCHEMA_REF
from noted_time.values import NotedTimeError
from noted_time.wording.faults import (
    FAULTS_SHOWN,
    PlacedFault,
    describe_unknown,
    format_path,
    place_faults,
    shorten,
)

NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405

Described = NotedTimeError | NotOwner  # errors whose class has a `kind`

Responses = dict[int | str, dict[str, Any]]

_PROBLEM_SCHEMA = {"$ref": SCHEMA_REF.format(name="Problem")}
PROBLEM_RESPONSES: Responses = {
    status: {"description": text, "content": {PROBLEM: {"schema": _PROBLEM_SCHEMA}}}
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

_REFUSED_SCHEMA = {"anyOf": [{"$ref": SCHEMA_REF.format(name="NotesRefused")}, _PROBLEM_SCHEMA]}
NOTES_REFUSED: Responses = {
    422: {
        "description": "A field does not fit, or no note was accepted",
        "content": {PROBLEM: {"schema": _REFUSED_SCHEMA}},
    }
}


def build_problem(status: int, code: str, detail: str, **facts: Any) -> Answer:  # noqa: ANN401 - any JSON
    body = {
        "type": f"urn:noted-time:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
        **facts,
    }
    return Answer.of(status, msgspec.json.encode(body), PROBLEM)


def problem_of(error: Described) -> Answer:
    kind = error.kind
    return build_problem(kind.status, kind.code, str(error), **kind.members(error))


def refusal_of(error: Described) -> Answer:
    """Return `NOT_MINE` if another controller owns the stream."""
    return NOT_MINE if isinstance(error, NotOwner) else problem_of(error)


def build_invalid_request(faults: Sequence[PlacedFault]) -> Answer:
    shown_faults = faults[:FAULTS_SHOWN]
    detail = "; ".join(f"{place}: {message}" for place, message in shown_faults)
    errors = [{"where": place, "what": message} for place, message in shown_faults]
    return build_problem(422, "invalid_request", detail, errors=errors)


def refuse_parameters(query: bytes) -> Answer:
    names = list(dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)))
    message = describe_unknown("query parameter", "", ())
    return build_invalid_request([(format_path(("query", name)), message) for name in names])


def install(app: FastAPI) -> None:
    """Answer the errors of `app` with problem documents, and `NotOwner` without a body."""

    async def answer_http_error(request: Request, error: HTTPException) -> Response:
        path = request.url.path
        if error.status_code == NOT_FOUND:
            error.detail = f"there is no call at {shorten(path)}: /openapi.json lists them"
        methods = error.status_code == METHOD_NOT_ALLOWED and _list_allowed_methods(app, path)
        if methods:
            error.detail = f"{shorten(path)} takes {methods}, not {request.method}"
            error.headers = {"Allow": methods}
        return _build_http_problem(error)

    async def answer_invalid(_: Request, error: InvalidRequest) -> Response:
        return build_invalid_request(error.faults).to_response()

    async def answer_invalid_query(_: Request, error: RequestValidationError) -> Response:
        return build_invalid_request(place_faults(error.errors())).to_response()

    async def answer_refusal(_: Request, error: Described) -> Response:
        return refusal_of(error).to_response()

    for kind in get_args(Described):
        app.add_exception_handler(kind, answer_refusal)  # type: ignore[arg-type]
    app.add_exception_handler(InvalidRequest, answer_invalid)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, answer_invalid_query)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, answer_http_error)  # type: ignore[arg-type]


def _build_http_problem(error: HTTPException) -> Response:
    codes = {400: "malformed_json", 404: "not_found", 405: "method_not_allowed"}
    code = codes.get(error.status_code, "http_error")
    answer = build_problem(error.status_code, code, str(error.detail)).to_response()
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def _list_allowed_methods(app: FastAPI, path: str) -> str:
    """Read all routes, because Starlette knows only one route's methods."""
    methods: list[str] = []
    for template, operations in app.openapi()["paths"].items():
        if compile_path(template)[0].match(path):
            methods += [method.upper() for method in operations]
    return ", ".join(sorted(methods))
