"""Marks as server-sent events: one answer that goes on, made of the long polls of one reader.

The controller that is asked keeps the event stream and polls the stream's owner, itself or another,
as a reader would. So an event stream outlives a change of owner, and whatever refuses a long poll
(a removed stream, a revoked token) ends it. The format is that of the HTML standard, section 9.2.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

import msgspec

from controller.aggregation.shares import Shares
from controller.api.problems import problem_of
from noted_time.values import UnknownStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from starlette.types import Scope, Send

    from controller.api.answers import Answer
    from controller.api.forwarding import StreamRequest
    from controller.service.controller import Controller

EVENTS = b"text/event-stream"
HEADERS = [
    (b"content-type", EVENTS),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]
COMMENT = b": nothing new\n\n"
WAIT_MS = 15_000
"""How long one poll waits: proxies that close silent connections do so after a minute."""

PAUSE_S = 1.0
"""Between two polls while there is no owner, and what a client waits before it connects again."""

OK, UNAVAILABLE = 200, 503


def is_asked_for(scope: Scope, stream: str) -> bool:
    """Whether a request is for the marks of the stream as events."""
    if scope["method"] != "GET" or scope["path"] != f"/v1/streams/{stream}/marks":
        return False
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return any(each.partition(b";")[0].strip() == EVENTS for each in accepted.lower().split(b","))


class EventStreams:
    """The event streams of one controller, at most as many as long polls may wait.

    `poll` answers one request for marks, by whoever owns the stream; it raises nothing.
    """

    def __init__(
        self, controller: Controller, poll: Callable[[StreamRequest], Awaitable[Answer]]
    ) -> None:
        """Begin with none."""
        self._controller = controller
        self._poll = poll
        self._open = Shares(controller.limits.long_polls)

    async def serve(self, request: StreamRequest, send: Send) -> None:
        """Send marks as they come, until the caller hangs up or the controller stops.

        What refuses the first poll is the answer; what refuses a later one, the last event.
        """
        asker = request.scope["state"]["call"].asker
        if not self._open.has_room(asker):
            message = f"{len(self._open)} event streams are open already; try again"
            await problem_of(self._controller.metrics.overload(message)).send(send)
            return
        with self._open.place(asker):
            await self._serve(_Place.of(request), send)

    async def _serve(self, place: _Place, send: Send) -> None:
        answer = await self._poll(place.request)
        if answer.status != OK:
            await answer.send(send)
            return
        await send({"type": "http.response.start", "status": OK, "headers": HEADERS})
        async for text in self._texts(place, answer):
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _texts(self, place: _Place, answer: Answer) -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % (PAUSE_S * 1000)
        while answer.status in {OK, UNAVAILABLE}:
            if answer.status == OK:
                page = _PAGE.decode(answer.body)
                if place.stream_id not in {None, page.stream_id}:
                    answer = problem_of(UnknownStream(place.request.stream))
                    break
                yield b"".join(place.take(page)) or COMMENT
            else:
                yield COMMENT
                await asyncio.sleep(PAUSE_S)
            if self._controller.stopping.is_set():
                return
            answer = await self._poll(place.further())
        yield _event("problem", answer.body)


class _MarksPage(msgspec.Struct):
    """What is read of an answer with marks, which are passed on as they are."""

    stream_id: str
    scale_events: int
    marks: list[msgspec.Raw]
    corrections: int = 0


class _SeqOfMark(msgspec.Struct):
    seq: int


_PAGE, _MARK = msgspec.json.Decoder(_MarksPage), msgspec.json.Decoder(_SeqOfMark)


@dataclass(slots=True)
class _Place:
    """How far an event stream is: `request` asks for what follows."""

    request: StreamRequest
    query: dict[str, str]
    stream_id: str | None = None
    scale_events: int = 0
    corrections: int = 0

    @classmethod
    def of(cls, request: StreamRequest) -> _Place:
        """Return the place that a caller asks for; a client that comes back says where it was."""
        scope = request.scope
        text = scope["query_string"].decode("latin-1")
        last_id = request.header(b"last-event-id").decode("latin-1")
        items = parse_qsl(text, keep_blank_values=True)
        if last_id:
            items = [each for each in items if each[0] != "after"] + [("after", last_id)]
        place = cls(request, dict(items))
        place.request = place.asking(urlencode(items))
        return place

    def asking(self, query: str) -> StreamRequest:
        """Return the request with another query, for JSON."""
        headers = [each for each in self.request.scope["headers"] if each[0] != b"accept"]
        scope = {**self.request.scope, "query_string": query.encode("ascii"), "headers": headers}
        return self.request._replace(scope=scope)

    def further(self) -> StreamRequest:
        """Return the request for what comes after what was taken, which may be waited for."""
        return self.asking(urlencode({**self.query, "wait_ms": WAIT_MS}))

    def take(self, page: _MarksPage) -> Iterator[bytes]:
        """Yield the events of a page, and go past them."""
        about = page.stream_id, page.scale_events, page.corrections
        if (self.stream_id, self.scale_events, self.corrections) != about:
            self.stream_id, self.scale_events, self.corrections = about
            names = ("stream_id", "scale_events", "corrections")
            told = dict(zip(names, about, strict=True))
            yield _event("stream", msgspec.json.encode(told))
        for mark in page.marks:
            seq = _MARK.decode(mark).seq
            self.query["after"] = str(seq)
            yield b"id: %d\n" % seq + _event(None, bytes(mark))


def _event(name: str | None, data: bytes) -> bytes:
    """Return an event; JSON without line breaks is one line of data."""
    named = f"event: {name}\n".encode() if name else b""
    return b"%sdata: %s\n\n" % (named, data)
