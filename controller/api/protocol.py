"""The hot route on the wire: a request with notes goes from the parser straight to the committer.

uvicorn's protocol starts a task for each request and speaks ASGI with it, a sixth of the CPU time
of a durable note. Requests for notes are answered here by a callback instead; all others, and
whatever is unusual about these (HTTP/1.0, an `Expect`, a request sent before the one ahead of it
was answered), go the usual way, to the same functions.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from controller.aggregation.world import NotHere
from controller.api.access import ANYBODY, NOBODY, Asked, Call, Gate, NotLetIn
from controller.api.front import MAX_BODY, PASSED_OVER_S, PREFIX, SUFFIX, too_large
from controller.api.notes import Answer, answer_of, plain, refusal, submit_notes
from controller.api.problems import HEADERS, MEDIA_TYPE
from controller.api.relay import Relay
from controller.api.rights import Need
from controller.service.limits import Overloaded
from controller.store.port import StoreUnavailable
from noted_time.settings import NAME

if TYPE_CHECKING:
    import asyncio

    from controller.service.controller import Controller

log = structlog.get_logger()

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
HEADER_LINES = {
    status: f"{name.lower()}: {value}\r\n".encode() for status, (name, value) in HEADERS.items()
}
HOT_PREFIX, HOT_SUFFIX = PREFIX.encode(), SUFFIX.encode()
BROKEN: Answer = (500, MEDIA_TYPE, b'{"status":500,"title":"Internal Server Error"}')


class NotesCycle:
    """One request with notes, in the place where the protocol keeps the one it is at.

    The names are those by which uvicorn's protocol asks for them.
    """

    __slots__ = (
        "authorization",
        "body",
        "call",
        "disconnected",
        "keep_alive",
        "more_body",
        "response_complete",
        "under_way",
    )

    def __init__(self, call: Call, *, keep_alive: bool) -> None:
        """Begin before the body."""
        self.call = call
        self.authorization = b""
        self.keep_alive = keep_alive
        self.body = b""
        self.more_body = True
        self.disconnected = False
        self.response_complete = False
        self.under_way: asyncio.Future[Any] | None = None

    @property
    def message_event(self) -> NotesCycle:
        """Nobody waits for messages here."""
        return self

    def set(self) -> None:
        """Give up what did not begin yet, where the caller hung up.

        Who hung up may have sent the same elsewhere, and then other notes: a process that was
        paused must not come later with the older ones.
        """
        if self.disconnected and self.under_way is not None:
            self.under_way.cancel()


class NotesProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a short cut for notes."""

    controller: Controller
    gate: Gate
    relay: Relay

    def on_headers_complete(self) -> None:
        """Take a request with notes, pass on any other."""
        stream = self._stream_of_notes()
        if stream is None:
            super().on_headers_complete()
        else:
            self._enter(stream)

    def on_body(self, body: bytes) -> None:
        """Gather the body; one over 1 MiB is refused when that is known."""
        cycle: Any = self.cycle
        if type(cycle) is not NotesCycle:
            super().on_body(body)
        elif not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > MAX_BODY:
                self._answer(cycle, too_large())

    def on_message_complete(self) -> None:
        """Submit the notes; the answer is written when they are durable."""
        cycle: Any = self.cycle
        if type(cycle) is not NotesCycle:
            super().on_message_complete()
        elif not cycle.response_complete:
            cycle.more_body = False
            if self.controller.is_waking():
                self.loop.call_later(PASSED_OVER_S, self._take_if_wanted, cycle)
            else:
                self._take(cycle)

    def _enter(self, stream: str) -> None:
        """Ask the gate before the body; one that comes after a refusal is passed over."""
        remote = self.client[0] if self.client else ""
        asked = Asked("POST", f"{PREFIX}{stream}{SUFFIX}", self.headers, remote)
        keep_alive = self.parser.should_keep_alive()
        cycle = NotesCycle(Call(stream, NOBODY, remote), keep_alive=keep_alive)
        self.cycle = cycle  # type: ignore[assignment]
        try:
            holder = self.gate.admit(Need("write", stream), asked)
        except NotLetIn as refused:
            self._answer(cycle, plain(refused.problem))
        else:
            cycle.call = Call(stream, holder, remote)
            if holder is not ANYBODY:
                shown = (value for name, value in self.headers if name == b"authorization")
                cycle.authorization = next(shown, b"")

    def _take_if_wanted(self, cycle: NotesCycle) -> None:
        """Take notes that may be old, unless their sender hung up, which is known by now."""
        if not cycle.disconnected:
            self._take(cycle)

    def _take(self, cycle: NotesCycle) -> None:
        """Submit the notes here, or have them relayed to the controller that has the stream."""
        stream = cycle.call.stream
        if not self.controller.has(stream) and NAME.fullmatch(stream):
            self._have_relayed(cycle)
            return
        try:
            results = submit_notes(self.controller, cycle.call, cycle.body)
        except Exception as failure:  # noqa: BLE001 - told to the caller, whatever it is
            self._refuse(cycle, failure)
        else:
            cycle.under_way = results
            results.add_done_callback(lambda done: self._done(cycle, done))

    def _have_relayed(self, cycle: NotesCycle) -> None:
        try:
            answer = self.relay.notes(cycle.call, cycle.authorization, cycle.body)
        except (StoreUnavailable, Overloaded) as failure:
            self._refuse(cycle, failure)
        else:
            cycle.under_way = answer
            answer.add_done_callback(lambda done: self._relayed(cycle, done))

    def _relayed(self, cycle: NotesCycle, answer: asyncio.Future[Answer]) -> None:
        if answer.cancelled():
            self.transport.abort()
        else:
            self._answer(cycle, answer.result())

    def _stream_of_notes(self) -> str | None:
        url = self.url
        if not (url.endswith(HOT_SUFFIX) and url.startswith(HOT_PREFIX)):
            return None
        stream = url[len(HOT_PREFIX) : -len(HOT_SUFFIX)]
        ahead: Any = self.cycle
        usual = (
            self.parser.get_method() == b"POST"
            and stream.isascii()
            and not any(mark in stream for mark in (b"/", b"%", b"?", b"#"))
            and self.parser.get_http_version() == "1.1"
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
            and (ahead is None or ahead.response_complete)
        )
        return stream.decode() if usual and stream else None

    def _done(self, cycle: NotesCycle, results: asyncio.Future[Any]) -> None:
        if results.cancelled():
            self.transport.abort()
        elif (failure := results.exception()) is None:
            self._answer(cycle, answer_of(self.controller, results.result()))
        elif isinstance(failure, NotHere):
            self._have_relayed(cycle)
        elif isinstance(failure, Exception):
            self._refuse(cycle, failure)

    def _refuse(self, cycle: NotesCycle, failure: Exception) -> None:
        stream = cycle.call.stream
        try:
            answer = refusal(failure, stream, cycle.body)
        except Exception:
            log.exception("request_failed", stream=stream, error=str(failure))
            answer = BROKEN
        self._answer(cycle, answer)

    def _answer(self, cycle: NotesCycle, answer: Answer) -> None:
        cycle.response_complete = True
        cycle.body = b""
        if cycle.disconnected or self.transport.is_closing():
            return
        status, media_type, body = answer
        head = [STATUS_LINES[status]]
        head += [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        head.append(b"content-type: %b\r\n" % media_type.encode())
        if status in HEADER_LINES:
            head.append(HEADER_LINES[status])
        if not cycle.keep_alive:
            head.append(b"connection: close\r\n")
        head.append(b"content-length: %d\r\n\r\n" % len(body))
        self.transport.write(b"".join(head) + body)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def protocol_for(
    controller: Controller, gate: Gate | None = None, relay: Relay | None = None
) -> type[NotesProtocol]:
    """Return the protocol that brings notes to `controller`, or by `relay`, through `gate`."""
    bound = {"controller": controller, "gate": gate or Gate(), "relay": relay or Relay(controller)}
    return type("BoundNotesProtocol", (NotesProtocol,), bound)
