"""What stands in front of the FastAPI app: the gate, the body limit, the hot route's shortcut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from controller.api import audit
from controller.api.access import Asked, Call, Gate, NotLetIn, attempt
from controller.api.notes import Answer, answer_notes, plain
from controller.api.problems import HEADERS, problem
from controller.api.rights import needed

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from controller.api.rights import Need
    from controller.service.controller import Controller
    from controller.service.keyring import Holder

MAX_BODY = 1024 * 1024
PREFIX, SUFFIX = "/v1/streams/", "/notes"


class Front:
    """ASGI: answers `POST /v1/streams/{stream}/notes` itself, passes the rest on.

    Only those go on whom the gate lets in. A body over 1 MiB is refused before anything looks into
    it.
    """

    def __init__(self, app: ASGIApp, controller: Controller, gate: Gate | None = None) -> None:
        """Stand before `app`."""
        self._app = app
        self._controller = controller
        self._gate = gate or Gate()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = _asked(scope)
        need = needed(asked.method, asked.path)
        try:
            holder = self._gate.admit(need, asked)
        except NotLetIn as refused:
            await _send(plain(refused.problem), send)
            return
        scope.setdefault("state", {})["holder"] = holder
        if need.right == "administer":
            send = _audited(send, need, asked, holder)
        await self._serve(scope, receive, send, Call("", holder, asked.remote))

    async def _serve(self, scope: Scope, receive: Receive, send: Send, call: Call) -> None:
        if scope["method"] == "GET":
            await self._app(scope, receive, send)
            return
        try:
            body = await read_body(receive)
        except ClientDisconnect:
            return
        if body is None:
            await _send(too_large(), send)
            return
        stream = _stream_of_notes(scope)
        if stream is None:
            await self._app(scope, _replaying(body, receive), send)
        else:
            call = call._replace(stream=stream)
            await _send(await answer_notes(self._controller, call, body), send)


def _asked(scope: Scope) -> Asked:
    client = scope.get("client")
    return Asked(scope["method"], scope["path"], scope["headers"], client[0] if client else "")


def _audited(send: Send, need: Need, asked: Asked, holder: Holder) -> Send:
    """Return a send that logs the status of the answer."""

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            audit.answered(attempt(need, asked), message["status"], holder.token_id)
        await send(message)

    return told


def _stream_of_notes(scope: Scope) -> str | None:
    path: str = scope["path"]
    if scope["method"] == "POST" and path.endswith(SUFFIX) and path.startswith(PREFIX):
        stream = path[len(PREFIX) : -len(SUFFIX)]
        return stream if stream and "/" not in stream else None
    return None


def too_large() -> Answer:
    """Refuse a body over `MAX_BODY`."""
    return plain(problem(413, "too_large", f"the body is over {MAX_BODY} bytes"))


async def read_body(receive: Receive) -> bytes | None:
    """Return the request's body, `None` where it is larger than `MAX_BODY`.

    Raises `ClientDisconnect` where the client went before all of it was here: what came of it
    means nothing.
    """
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False):
        return body if len(body) <= MAX_BODY else None
    parts: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a receive that gives the body once, then what the connection says."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _send(answer: Answer, send: Send) -> None:
    status, media_type, body = answer
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    if status in HEADERS:
        name, value = HEADERS[status]
        headers.append((name.lower().encode(), value.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
