"""What stands in front of the FastAPI app: the gate, the body limit, the hot route's shortcut."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import ClientDisconnect

from controller.aggregation.world import NotHere
from controller.api import audit, frames
from controller.api.access import Asked, Call, Gate, NotLetIn, attempt
from controller.api.notes import NOT_MINE, Answer, answer_notes, plain
from controller.api.problems import HEADERS, MISDIRECTED, problem, problem_of
from controller.api.relay import is_relayed
from controller.api.rights import goes_elsewhere, needed
from controller.service.limits import Overloaded
from controller.store.port import StoreUnavailable
from noted_time.settings import NAME

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from controller.api.relay import Passed, Relay
    from controller.api.rights import Need
    from controller.service.controller import Controller
    from controller.service.keyring import Holder

PASSED_OVER_S = 0.1
"""How long it takes at most to find out that a sender hung up."""

MAX_BODY = 1024 * 1024
MAX_FRAME = 3 * MAX_BODY
PREFIX, SUFFIX = "/v1/streams/", "/notes"
SLASHES = 4
NO_CONTENT = 204


class Front:
    """ASGI: answers `POST /v1/streams/{stream}/notes` itself, passes the rest on.

    Only those go on whom the gate lets in. A body over 1 MiB is refused before anything looks into
    it.
    """

    def __init__(self, app: ASGIApp, controller: Controller, gate: Gate, relay: Relay) -> None:
        """Stand before `app`."""
        self._app = app
        self._controller = controller
        self._gate = gate
        self._relay = relay

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

    async def _is_passed_over(self, receive: Receive) -> bool:
        """Whether the request is old: this process was paused, and the sender hung up meanwhile.

        It may have sent the same elsewhere since, and then something newer.
        """
        if not self._controller.is_waking():
            return False
        try:
            async with asyncio.timeout(PASSED_OVER_S):
                message = await receive()
        except TimeoutError:
            return False
        return bool(message["type"] == "http.disconnect")

    async def _serve(self, scope: Scope, receive: Receive, send: Send, call: Call) -> None:
        if scope["path"] == frames.PATH:
            await self._take_frame(scope, receive, send)
            return
        body = b""
        if scope["method"] != "GET":
            try:
                whole = await read_body(receive)
            except ClientDisconnect:
                return
            if whole is None:
                await _send(too_large(), send)
                return
            if await self._is_passed_over(receive):
                return
            body, receive = whole, _replaying(whole, receive)
        stream = goes_elsewhere(scope["method"], scope["path"])
        if stream is None:
            await self._app(scope, receive, send)
            return
        call = call._replace(stream=stream)
        if self._is_elsewhere(stream):
            await self._relay_to_its_own(scope, receive, send, call, body)
        else:
            await self._answer_here(scope, receive, send, call, body)

    async def _answer_here(
        self, scope: Scope, receive: Receive, send: Send, call: Call, body: bytes
    ) -> None:
        """Answer the request; where its stream goes meanwhile, have it relayed."""
        if _is_of_notes(scope):
            answer = await answer_notes(self._controller, call, body)
            went = answer[0] == MISDIRECTED
            if not went:
                await _send(answer, send)
        else:
            answering = _Answering(send)
            await self._app(dict(scope), receive, answering)
            went = answering.is_misdirected
        if went:
            replay = _replaying(body, receive)
            await self._relay_to_its_own(scope, replay, send, call, body)

    def _is_elsewhere(self, stream: str) -> bool:
        return not self._controller.has(stream) and NAME.fullmatch(stream) is not None

    async def _relay_to_its_own(
        self, scope: Scope, receive: Receive, send: Send, call: Call, body: bytes
    ) -> None:
        """Have the request answered by the controller that has its stream."""
        if is_relayed(scope["headers"]):
            await _send(NOT_MINE, send)
            return
        try:
            if _is_of_notes(scope):
                shown = next((v for name, v in scope["headers"] if name == b"authorization"), b"")
                answer = await self._relay.notes(call, shown, body)
                await _send(answer, send, self._relay.hint(call.stream))
                return
            relayed = self._relay.request(call.stream, scope, body)
            passed = await _while_asked_for(receive, relayed)
        except ClientDisconnect:
            return
        except (NotHere, StoreUnavailable, Overloaded) as failure:
            await _send(plain(problem_of(failure)), send)
            return
        if passed is None:
            replay = _replaying(body, receive)  # what listened for the caller took the body
            await self._answer_here(scope, replay, send, call, body)
        else:
            await _send_parts(*passed, send)

    async def _take_frame(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the requests that another controller relayed."""
        try:
            frame = await read_body(receive, MAX_FRAME)
        except ClientDisconnect:
            return
        if await self._is_passed_over(receive):
            return
        if frame is None:
            await _send(too_large(MAX_FRAME), send)
            return
        try:
            reply = await frames.take(self._controller, self._gate, frame, _asked(scope).remote)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            await _send(plain(problem(400, "malformed_frame", f"body: {error}")), send)
        else:
            await _send((200, frames.MEDIA_TYPE, reply), send)


class _Answering:
    """A send that keeps back the answer that the stream is another controller's."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_misdirected = False

    async def __call__(self, message: Message) -> None:
        """Send it, unless it belongs to such an answer."""
        if message["type"] == "http.response.start":
            self.is_misdirected = message["status"] == MISDIRECTED
        if not self.is_misdirected:
            await self._send(message)


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


def _is_of_notes(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] == "POST" and path.endswith(SUFFIX) and path.count("/") == SLASHES


def too_large(most: int = MAX_BODY) -> Answer:
    """Refuse a body over `most` bytes."""
    return plain(problem(413, "too_large", f"the body is over {most} bytes"))


async def read_body(receive: Receive, most: int = MAX_BODY) -> bytes | None:
    """Return the request's body, `None` where it is larger than `most` bytes.

    Raises `ClientDisconnect` where the client went before all of it was here: what came of it
    means nothing.
    """
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False):
        return body if len(body) <= most else None
    parts: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
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


async def _while_asked_for(
    receive: Receive, relayed: Coroutine[Any, Any, Passed | None]
) -> Passed | None:
    """Return what comes of a request that is relayed, as long as its sender waits for it.

    One that hung up may have sent something newer elsewhere, which the old request would undo if it
    were passed on again. Raises `ClientDisconnect`.
    """
    answer, gone = asyncio.create_task(relayed), asyncio.create_task(_hung_up(receive))
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


async def _hung_up(receive: Receive) -> None:
    """Wait until the sender of a request hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(answer: Answer, send: Send, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    status, media_type, body = answer
    headers = [(b"content-type", media_type.encode()), *more]
    if status in HEADERS:
        name, value = HEADERS[status]
        headers.append((name.lower().encode(), value.encode()))
    await _send_parts(status, headers, body, send)


async def _send_parts(
    status: int, headers: list[tuple[bytes, bytes]], body: bytes, send: Send
) -> None:
    whole = list(headers)
    if status != NO_CONTENT:  # which must not name a length
        whole.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": whole})
    await send({"type": "http.response.body", "body": body})
