"""Admits each request, reads its body, and answers it here or by its owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import nullcontext
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.api.gate import audit
from controller.api.gate.access import FORWARDED_PATH, AccessDenied, Gate, RequestInfo, find_need
from controller.api.gate.admitted import Call, StreamRequest
from controller.api.notes.route import answer_submitted, submit_notes
from controller.api.replicas import forwarding
from controller.api.replicas.forwarding import Forwarding
from controller.api.routes.readers import answer_marks
from controller.api.sockets.connections import Connection
from controller.api.wire.problems import build_problem, problem_of, refuse_parameters
from controller.api.wire.request_ids import AnswerSender
from controller.api.wire.responses import Answer, answer_of
from controller.service.controller import Controller
from controller.service.tokens import Holder
from controller.store.port import StoreUnavailable
from noted_time.values import NAME_PATTERN

Given = TypeVar("Given")
MAX_BODY = 1024 * 1024
MOST_DROPPED = 16 * MAX_BODY
CLOSE_HEADERS = ((b"connection", b"close"),)
INTERNAL_ERROR = Answer.of(500, b"Internal Server Error", "text/plain; charset=utf-8").with_headers(
    CLOSE_HEADERS
)


class Middleware:
    """Answers notes and polls for marks without the FastAPI app, for speed."""

    def __init__(
        self, app: ASGIApp, controller: Controller, gate: Gate, forwarding: Forwarding
    ) -> None:
        self._app = app
        self._controller = controller
        self._gate = gate
        self._forwarding = forwarding

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = scope.setdefault("state", {}).get("connection")
        sender = AnswerSender(scope, send)
        with connection or nullcontext():
            try:
                await self._admit(scope, receive, sender)
            except ClientDisconnect:
                return
            except Exception:
                if not sender.has_started:
                    await INTERNAL_ERROR.send(sender)
                raise  # the server logs it

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        remote, _ = scope.get("client") or ("", 0)
        method = scope["method"]
        path = scope["path"]
        info = RequestInfo(method, path, scope["headers"], remote, find_need(method, path))
        names = [name for name, _ in info.headers]
        if method == "CONNECT" or b"upgrade" in names:
            # the following bytes would be parsed as requests
            answer = build_problem(400, "unknown_protocol", "this server speaks only HTTP/1.1")
            await answer.with_headers(CLOSE_HEADERS).send(send)
            return
        if scope["http_version"] == "1.1" and names.count(b"host") != 1:
            answer = build_problem(
                400, "invalid_host", "an HTTP/1.1 request must have one Host header"
            )
            await answer.with_headers(CLOSE_HEADERS).send(send)
            return
        try:
            holder = self._gate.admit(info)
            if info.need.right == "forward":
                await self._forwarding.secret.check(info)
        except AccessDenied as error:
            await read_body(receive, 0, scope)  # some clients read an answer only after sending
            await error.problem.send(send)
            return
        if info.need.right == "administer":
            send = _audit_answer(send, info, holder)
        max_bytes = _limit_body(info)
        body = await read_body(receive, max_bytes, scope)
        if body is None:
            answer = build_problem(413, "too_large", f"the body is over {max_bytes} bytes")
            await answer.with_headers(CLOSE_HEADERS).send(send)
        else:
            scope["state"]["call"] = Call(info.need.stream, holder, remote)
            await self._serve(scope, send, body)

    async def _serve(self, scope: Scope, send: Send, body: bytes) -> None:
        call: Call = scope["state"]["call"]
        if scope["path"] == FORWARDED_PATH:
            answer = await forwarding.take_frame(self._controller, self._gate, body, call.remote)
        elif not NAME_PATTERN.fullmatch(call.stream):
            await self._app(scope, _replay_body(body), send)
            return
        else:
            request = StreamRequest(call.stream, scope, body)
            is_notes_call = request.is_notes_call
            if is_notes_call and scope["query_string"]:  # notes are forwarded without a query
                await refuse_parameters(scope["query_string"]).send(send)
                return
            pending_answer = self._answer(request)
            # A repeated note is harmless (decision 21), so a note outlives its client. All other
            # requests end with their client.
            connection: Connection | None = scope["state"].get("connection")
            if not (is_notes_call or connection is None):
                pending_answer = _wait_while_connected(connection, pending_answer)
            answer = await pending_answer
        await answer.send(send)

    async def _answer(self, request: StreamRequest) -> Answer:
        try:
            return await self._forwarding.answer(request, self._answer_here)
        except StoreUnavailable as failure:
            return problem_of(failure)

    async def _answer_here(self, request: StreamRequest) -> Answer:
        if request.is_notes_call:
            pending_answer = submit_notes(self._controller, request.call, request.body)
            return await answer_submitted(self._controller, request.stream, pending_answer)
        marks = await answer_marks(self._controller, request)
        if marks is not None:
            return marks
        return await answer_of(self._app, dict(request.scope), _replay_body(request.body))


def _audit_answer(send: Send, info: RequestInfo, holder: Holder) -> Send:

    async def send_and_log(message: Message) -> None:
        if message["type"] == "http.response.start":
            audit.log_answer(info.attempt, message["status"], holder)
        await send(message)

    return send_and_log


def _limit_body(info: RequestInfo) -> int:
    if info.need.right == "nothing":
        return 0
    return forwarding.MAX_FRAME if info.path == FORWARDED_PATH else MAX_BODY


async def read_body(receive: Receive, max_bytes: int, scope: Scope) -> bytes | None:
    """Return the request's body, or `None` if it has more than `max_bytes` bytes.

    It reads `MOST_DROPPED` bytes of a larger body, because many clients first send all of it.
    Raises `ClientDisconnect` if the client hung up or was too slow.
    """
    connection: Connection | None = scope["state"].get("connection")
    body = bytearray()
    size = 0
    is_whole = False
    while not is_whole and size <= MOST_DROPPED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size <= max_bytes:
            body += part
        else:
            body.clear()
        is_whole = not message.get("more_body", False)
        if connection is not None:
            connection.receive_more(is_whole=is_whole)
    return bytes(body) if size <= max_bytes else None


def _replay_body(body: bytes) -> Receive:
    messages: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": body, "more_body": False},
    ]

    async def receive() -> Message:
        return messages.pop() if len(messages) > 1 else messages[0]

    return receive


async def _wait_while_connected(connection: Connection, answering: Awaitable[Given]) -> Given:
    """Return the answer, or raise `ClientDisconnect` if the client hangs up first.

    It may have sent a newer request elsewhere, which the old one would undo.
    """
    try:
        async with asyncio.timeout(None) as waiting:
            connection.end_on_hang_up(waiting)
            try:
                return await answering
            finally:
                connection.end_on_hang_up(None)
    except TimeoutError as error:
        if waiting.expired():
            raise ClientDisconnect from error
        raise
