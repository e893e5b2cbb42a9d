"""Forwards requests for streams that another controller owns, and returns its answers.

Without an owner's answer, a request waits at most `HOLD_S`, or not at all if this controller stops
and no other runs. Notes, `GET` and `PUT` are idempotent and sent again; other requests only if they
reached no controller.

Notes for one owner are sent in batches, called *frames*. Each request in a frame has its own token.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import httpx
import msgspec
import structlog

from controller.aggregation.owned_streams import NotOwner
from controller.api.gate.access import FORWARDED_PATH, AccessDenied, Gate, Need, RequestInfo
from controller.api.gate.admitted import FORWARDED_HEADER, FORWARDED_MARK, Call, StreamRequest
from controller.api.notes.route import Results, answer_submitted, explain_faults, submit_notes
from controller.api.replicas.shared_secret import SharedSecret
from controller.api.wire.problems import build_problem, problem_of
from controller.api.wire.responses import MISDIRECTED, NOT_MINE, Answer
from controller.service.controller import Controller
from controller.service.long_reads import iterate_in_slices
from controller.store.port import StoreUnavailable
from noted_time.client import OWNER_HEADER

AnswerHere = Callable[[StreamRequest], Awaitable[Answer]]

log = structlog.get_logger()

HOLD_S = 8.0  # a little more than two leases

OWNER_S = 4.0
CONNECT_S = 1.0
RETRY_INTERVAL_S = 0.1
REPEATABLE_METHODS = frozenset(("GET", "PUT"))
CONNECT_ERRORS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL)

FORWARDED_BYTES = 64 * 1024 * 1024  # of all waiting requests

FRAMES_AT_ONCE = 4
MOST_ITEMS = 4096
FRAME_BYTES = 1024 * 1024

MAX_FRAME = 3 * FRAME_BYTES

FORWARDED_HEADERS = (b"authorization", b"content-type", b"accept")
RETURNED_HEADERS = (b"content-type", b"allow", b"retry-after", b"www-authenticate")


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One request with notes in a frame: its stream, token and body."""

    stream: str
    authorization: bytes
    body: bytes


_encoder = msgspec.msgpack.Encoder()
_items = msgspec.msgpack.Decoder(Annotated[list[Item], msgspec.Meta(max_length=MOST_ITEMS)])
_answers = msgspec.msgpack.Decoder(list[Answer])


class Forwarding:
    """Forwards requests to the other controllers of the database."""

    def __init__(
        self, controller: Controller, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._controller = controller
        self._ownership = controller.ownership
        # an explicit transport uses no proxy of the environment
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self.http_client = httpx.AsyncClient(
            timeout=httpx.Timeout(OWNER_S, connect=CONNECT_S),
            transport=transport or httpx.AsyncHTTPTransport(limits=limits),
        )
        self.secret = SharedSecret(controller.replicas_secret)
        self._peers: dict[str, _Peer] = {}
        self._failing: set[str] = set()
        self._waiting = self._bytes = 0

    async def answer(self, request: StreamRequest, answer_here: AnswerHere) -> Answer:
        """Return the answer of the stream's owner, by `answer_here` if that is this controller.

        Raises `Overloaded`, and `StoreUnavailable` if the owner may have processed the request.
        """
        if self._controller.owns(request.stream):
            answer = await answer_here(request)
            if answer.status != MISDIRECTED:
                return answer
        if request.header(FORWARDED_HEADER):
            return NOT_MINE
        self._controller.check_serving()
        with self._reserve_room(len(request.body)):
            return await self._hold_until_answered(request, answer_here)

    async def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        await self.http_client.aclose()

    @contextmanager
    def _reserve_room(self, size: int) -> Iterator[None]:
        max_requests = self._controller.limits.waiting_requests
        if self._waiting >= max_requests or (
            self._waiting and self._bytes + size > FORWARDED_BYTES
        ):
            message = f"{self._waiting} requests wait for another controller; try again"
            raise self._controller.metrics.overload(message)
        self._waiting += 1
        self._bytes += size
        try:
            yield
        finally:
            self._waiting -= 1
            self._bytes -= size

    async def _hold_until_answered(self, request: StreamRequest, answer_here: AnswerHere) -> Answer:
        loop = asyncio.get_running_loop()
        stream = request.stream
        deadline = loop.time() + HOLD_S
        while True:
            if self._controller.owns(stream):
                answer = await answer_here(request)
            else:
                answer = await self._ask_owner(request)
            if answer.status != MISDIRECTED:
                return answer
            self._ownership.refresh_soon()
            ends = request.waits_s > 0 and self._controller.stopping.is_set()
            if loop.time() >= deadline or self._ownership.is_last or ends:
                return problem_of(NotOwner(stream))
            await self._ownership.wait_for_change(RETRY_INTERVAL_S)

    async def _ask_owner(self, request: StreamRequest) -> Answer:
        """Return the owner's answer, or `NOT_MINE` if a retry is harmless."""
        url = self._ownership.owner_url(request.stream)
        if url is None:
            return NOT_MINE
        if request.is_notes_call:
            peer = self._peers.setdefault(url, _Peer(url, self))
            answer = explain_faults(await peer.put(request), request.body)
        else:
            answer = await self._forward(url, request)
        if answer.status != MISDIRECTED:
            self._failing.discard(url)
        if not url.isascii():
            return answer
        return answer.with_headers([(OWNER_HEADER.encode(), url.encode())])

    async def _forward(self, url: str, request: StreamRequest) -> Answer:
        try:
            reply = await self._send_unless_moved(url, request)
        except Exception as error:  # the owner's URL may be invalid
            self.record_failure(url, error)
            if request.scope["method"] in REPEATABLE_METHODS or isinstance(error, CONNECT_ERRORS):
                return NOT_MINE
            message = f"the controller that owns the stream did not answer: {error!r}; try again"
            raise StoreUnavailable(message) from error
        if reply is None:
            return NOT_MINE
        headers = ((name.lower(), value) for name, value in reply.headers.raw)
        returned_headers = [header for header in headers if header[0] in RETURNED_HEADERS]
        return Answer(reply.status_code, reply.content, returned_headers)

    async def _send_unless_moved(self, url: str, request: StreamRequest) -> httpx.Response | None:
        """Return `None` if a long poll's stream moves or this controller stops."""
        exchange = self.http_client.request(
            request.scope["method"],
            f"{url}{request.target}",
            content=request.body,
            headers=[
                *(header for header in request.scope["headers"] if header[0] in FORWARDED_HEADERS),
                FORWARDED_MARK,
            ],
            timeout=httpx.Timeout(OWNER_S + request.waits_s, connect=CONNECT_S),
        )
        exchange = asyncio.wait_for(exchange, CONNECT_S + OWNER_S + request.waits_s)
        if not request.waits_s:
            return await exchange
        reply = asyncio.create_task(exchange)
        move = asyncio.create_task(self._wait_for_move(url, request.stream))
        try:
            await asyncio.wait((reply, move), return_when=asyncio.FIRST_COMPLETED)
            return reply.result() if reply.done() else None
        finally:
            reply.cancel()
            move.cancel()

    async def _wait_for_move(self, url: str, stream: str) -> None:
        while self._ownership.owner_url(stream) == url and not self._controller.stopping.is_set():
            await self._ownership.wait_for_change(1.0)

    def record_failure(self, url: str, error: Exception) -> None:
        if url not in self._failing:
            log.warning("forwarding_failed", url=url, error=repr(error))
            self._failing.add(url)
        self._ownership.refresh_soon()


class _Peer:
    """Posts the notes for one other controller in frames."""

    def __init__(self, url: str, forwarding: Forwarding) -> None:
        self._url = url
        self._forwarding = forwarding
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, request: StreamRequest) -> asyncio.Future[Answer]:
        """Return the answer, `NOT_MINE` if the frame fails."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        item = Item(request.stream, request.header(b"authorization"), request.body)
        self._waiting.append((item, answer))
        if len(self._tasks) < FRAMES_AT_ONCE:
            task = asyncio.create_task(self._run(), name="forwarding")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answer

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # lets parsed requests join this frame
            frame = self._next_frame()
            if frame:
                answers = await self._post([item for item, _ in frame])
                for (_, future), answer in zip(frame, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)

    def _next_frame(self) -> list[tuple[Item, asyncio.Future[Answer]]]:
        waiting = [pair for pair in self._waiting if not pair[1].cancelled()]
        size = end = 0
        while end < min(len(waiting), MOST_ITEMS) and size < FRAME_BYTES:
            size += len(waiting[end][0].body)
            end += 1
        frame = waiting[:end]
        self._waiting = waiting[end:]
        return frame

    async def _post(self, items: list[Item]) -> list[Answer]:
        try:
            async with asyncio.timeout(CONNECT_S + OWNER_S):
                reply = await self._forwarding.http_client.post(
                    f"{self._url}{FORWARDED_PATH}",
                    content=_encoder.encode(items),
                    headers=[await self._forwarding.secret.header()],
                )
            if reply.status_code == httpx.codes.FORBIDDEN:
                await self._forwarding.secret.refresh()
            reply.raise_for_status()
            answers = _answers.decode(reply.content)
            if len(answers) != len(items):
                raise msgspec.DecodeError(f"{len(answers)} answers to {len(items)} requests")  # noqa: TRY301 - handled like any failure
        except Exception as error:  # noqa: BLE001 - on any error, each request needs an answer
            self._forwarding.record_failure(self._url, error)
            return [NOT_MINE] * len(items)
        return answers


async def take_frame(controller: Controller, gate: Gate, frame: bytes, remote: str) -> Answer:
    try:
        items = _items.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return build_problem(400, "malformed_frame", f"body: {error}")
    # submit all before waiting, so that one commit can include many
    pending_answers = [
        _submit_item(controller, gate, item, remote) async for item in iterate_in_slices(items)
    ]
    answers = [
        await answer_submitted(controller, item.stream, pending_answer)
        async for item, pending_answer in iterate_in_slices(
            zip(items, pending_answers, strict=True)
        )
    ]
    return Answer.of(200, _encoder.encode(answers), "application/msgpack")


def _submit_item(
    controller: Controller, gate: Gate, item: Item, remote: str
) -> Future[Results] | Answer:
    headers = [(b"authorization", item.authorization)] if item.authorization else []
    path = f"/v1/streams/{item.stream}/notes"
    need = Need("write", item.stream)
    try:
        holder = gate.admit(RequestInfo("POST", path, headers, remote, need))
    except AccessDenied as error:
        return error.problem
    if not controller.owns(item.stream):
        return NOT_MINE
    return submit_notes(controller, Call(item.stream, holder, remote), item.body, is_brief=True)
