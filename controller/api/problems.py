"""How errors are told over HTTP: RFC 9457 problem details, one `code` for each kind.

The status says whose turn it is: 4xx don't retry as it is, 503 retry after a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response
from starlette.routing import compile_path

from controller.aggregation.world import NotHere
from controller.api.unfit import MUST_BE_A_NAME, MUST_BE_A_SEGMENT
from controller.service.access import ForeignWriter
from controller.service.limits import Overloaded
from controller.store.port import StoreUnavailable
from noted_time.errors import (
    Conflict,
    InvalidName,
    InvalidScale,
    LimitReached,
    NotCompleteYet,
    NotedTimeError,
    Rejected,
    UnknownKey,
    UnknownReader,
    UnknownStream,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"
HEADERS: Mapping[int, tuple[str, str]] = {
    401: ("WWW-Authenticate", "Bearer"),
    503: ("Retry-After", "1"),
}
"""What an answer of that status says besides, whoever gives it."""

METHOD_NOT_ALLOWED = 405

MISDIRECTED = 421
"""The status by which a controller says that a stream is not its own, or not any more."""

KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (ForeignWriter, 403, "foreign_writer"),
    (UnknownStream, 404, "unknown_stream"),
    (UnknownReader, 404, "unknown_reader"),
    (NotCompleteYet, 404, "not_complete_yet"),
    (InvalidName, 422, "invalid_name"),
    (InvalidScale, 422, "invalid_scale"),
    (UnknownKey, 404, "unknown_key"),
    (LimitReached, 422, "limit_reached"),
    (Rejected, 422, "rejected"),
    (Conflict, 409, "conflict"),
    (NotHere, 503, "no_owner"),
    (Overloaded, 503, "overloaded"),
    (StoreUnavailable, 503, "unavailable"),
)
"""The first that fits counts: status and code of every error that may leave the service."""

FACTS: tuple[tuple[type[Exception], tuple[str, ...]], ...] = (
    (ForeignWriter, ("writer",)),
    (UnknownReader, ("group", "reader")),
    (LimitReached, ("limit",)),
    (InvalidScale, ("segment",)),
)
"""The attributes of an error that are members of its problem, where they are named alike."""


def problem(status: int, code: str, detail: str, **facts: Any) -> Response:  # noqa: ANN401 - any JSON
    """Return a problem document; `facts` are further members of it."""
    body = {
        "type": f"urn:noted-time:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
        **facts,
    }
    headers = dict([HEADERS[status]]) if status in HEADERS else None
    return Response(msgspec.json.encode(body), status, headers, media_type=MEDIA_TYPE)


def problem_of(error: Exception) -> Response:
    """Return the problem document of an error that left the service."""
    status, code = next((s, c) for kind, s, c in KINDS if isinstance(error, kind))
    return problem(status, code, str(error), **_facts(error))


def _facts(error: Exception) -> dict[str, Any]:
    if isinstance(error, NotCompleteYet):
        return {"complete_to": error.time, "lower": error.lower}
    if isinstance(error, UnknownKey):
        return {"key": error.key, "keys": list(error.declared)}
    names = next((names for kind, names in FACTS if isinstance(error, kind)), ())
    return {name: getattr(error, name) for name in names}


def install(app: FastAPI) -> None:
    """Make every error of `app` a problem document."""
    from fastapi.exceptions import RequestValidationError  # noqa: PLC0415 - see _unfit
    from starlette.exceptions import HTTPException  # noqa: PLC0415

    async def http(request: Request, error: HTTPException) -> Response:
        answer = _http(error)
        if error.status_code == METHOD_NOT_ALLOWED:
            answer.headers["Allow"] = _allowed(app, request.url.path) or answer.headers["Allow"]
        return answer

    async def refused(_: Request, error: Exception) -> Response:
        return problem_of(error)

    async def misdirected(_: Request, __: Exception) -> Response:
        return Response(status_code=MISDIRECTED)

    app.add_exception_handler(NotedTimeError, refused)
    app.add_exception_handler(StoreUnavailable, refused)
    app.add_exception_handler(NotHere, misdirected)
    app.add_exception_handler(RequestValidationError, _unfit)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, http)  # type: ignore[arg-type]


async def _unfit(_: Request, error: RequestValidationError) -> Response:
    """Name each field that does not fit, and why; JSON that cannot be parsed is a 400."""
    malformed = next((e for e in error.errors() if e["type"] == "json_invalid"), None)
    if malformed is not None:
        why, at = malformed["ctx"]["error"], malformed["loc"][-1]
        return problem(400, "malformed_json", f"body: {why} (byte {at})")
    return unfit([(_path(e["loc"]), _what(e)) for e in error.errors()])


def unfit(found: Sequence[tuple[str, str]]) -> Response:
    """Return the problem of a request in which fields do not fit: where each is, and what."""
    detail = "; ".join(f"{where}: {what}" for where, what in found[:10])
    errors = [{"where": where, "what": what} for where, what in found]
    return problem(422, "invalid_request", detail, errors=errors)


def _what(error: Mapping[str, Any]) -> str:
    pattern = error.get("ctx", {}).get("pattern")
    if pattern is not None:
        return MUST_BE_A_SEGMENT if "|" in pattern else MUST_BE_A_NAME
    if error["type"] == "model_attributes_type" and error["loc"] == ("body",):
        return "must be a JSON object, sent with Content-Type: application/json"
    return str(error["msg"])


def _http(error: HTTPException) -> Response:
    codes = {400: "malformed_json", 404: "not_found", 405: "method_not_allowed"}
    code = codes.get(error.status_code, "http_error")
    answer = problem(error.status_code, code, str(error.detail))
    _copy(error.headers, answer)
    return answer


def _allowed(app: FastAPI, path: str) -> str:
    """Return every method of the path; the framework only knows those of one route."""
    operations = [
        operations
        for template, operations in app.openapi()["paths"].items()
        if compile_path(template)[0].match(path)
    ]
    return ", ".join(sorted(method.upper() for each in operations for method in each))


def _copy(headers: Mapping[str, str] | None, answer: Response) -> None:
    for name, value in (headers or {}).items():
        answer.headers[name] = value


def _path(where: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in where if part != "[key]")
