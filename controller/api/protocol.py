"""The hot route on the wire: a request with notes goes from the parser straight to the committer.

uvicorn's protocol starts a task for each request and speaks ASGI with it, a sixth of the CPU time
of a durable note. Requests for notes are answered here by a callback instead; all others, and
whatever is unusual about these (HTTP/1.0, an `Expect`, a request sent before the one ahead of it
was answered), go the usual way, to the same functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from controller.aggregation.world import NotHere
from controller.api.access import ANYBODY, NOBODY, Asked, Call, Gate, NotLetIn
from controller.api.answer_heads import AnswerHeads
from controller.api.front import MAX_BODY, PASSED_OVER_S, PREFIX, SUFFIX, too_large
from controller.api.heads import Head, Heads
from controller.api.notes import Answer, answer_of, plain, refusal, submit_notes
from controller.api.problems import MEDIA_TYPE
from controller.api.relay import Relay
from controller.api.rights import Need
from controller.service.limits import Overloaded
from controller.store.port import StoreUnavailable
from noted_time.settings import NAME

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from controller.api.notes import Results
    from controller.service.controller import Controller

    Pairs = Iterable[tuple[bytes, bytes]]

log = structlog.get_logger()

HOT_PREFIX, HOT_SUFFIX = PREFIX.encode(), SUFFIX.encode()
BROKEN: Answer = (500, MEDIA_TYPE, b'{"status":500,"title":"Internal Server Error"}')


class NotesCycle:
    """One request with notes, in the place where the protocol keeps the one it is at.

    It is also what the committer answers, as it would a future, but at once. The names are those by
    which uvicorn's protocol and the committer ask for them.
    """

    __slots__ = (
        "body",
        "call",
        "disconnected",
        "head",
        "keep_alive",
        "more_body",
        "protocol",
        "relayed",
        "response_complete",
    )

    def __init__(self, protocol: NotesProtocol, head: Head, *, keep_alive: bool) -> None:
        """Begin before the body, of a caller that was not let in yet."""
        self.protocol = protocol
        self.head = head
        self.call = Call(head.stream, NOBODY, "")
        self.keep_alive = keep_alive
        self.body = b""
        self.more_body = True
        self.disconnected = False
        self.response_complete = False
        self.relayed: asyncio.Future[Answer] | None = None

    @property
    def message_event(self) -> NotesCycle:
        """Nobody waits for messages here."""
        return self

    def set(self) -> None:
        """Give up what did not begin yet, where the caller hung up.

        Who hung up may have sent the same elsewhere, and then other notes: a process that was
        paused must not come later with the older ones.
        """
        if self.disconnected and self.relayed is not None:
            self.relayed.cancel()

    def cancelled(self) -> bool:
        """Whether the caller hung up."""
        return self.disconnected

    def done(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.response_complete or self.disconnected

    def set_result(self, result: Results) -> None:
        """Say what became of the notes, which are durable now."""
        self.protocol.taken(self, result)

    def set_exception(self, failure: Exception) -> None:
        """Say why they were not taken, or have them relayed to where the stream went."""
        self.protocol.failed(self, failure)


class NotesProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a short cut for notes."""

    controller: Controller
    gate: Gate
    relay: Relay
    heads: Heads
    answer_heads: AnswerHeads

    _is_between = True
    """Whether the parser has seen whole requests and nothing of the next."""

    _piece = b""
    """What came last, where a request began with it."""

    _idle_since = 0.0

    def data_received(self, data: bytes) -> None:
        """Take a request whose head is known; have the parser read any other."""
        ahead: Any = self.cycle
        if self._is_between and (ahead is None or ahead.response_complete):
            known = self.heads.find(data)
            if known is not None:
                head, body = known
                self._begin(head, keep_alive=True)
                self._end(body)
                return
            self._piece = data
        super().data_received(data)
        self._piece = b""

    def on_message_begin(self) -> None:
        """Know that a request began."""
        self._is_between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Take a request with notes, pass on any other."""
        head = self._head_of_notes()
        if head is None:
            super().on_headers_complete()
        else:
            self._begin(head, keep_alive=self.parser.should_keep_alive())

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
        self._is_between = True
        cycle: Any = self.cycle
        if type(cycle) is not NotesCycle:
            super().on_message_complete()
            return
        if self._piece and cycle.keep_alive and not cycle.response_complete:
            self.heads.learn(self._piece, cycle.head, cycle.body)
        self._end(cycle.body)

    def taken(self, cycle: NotesCycle, results: Results) -> None:
        """Answer a request whose notes are durable."""
        try:
            answer = answer_of(self.controller, results)
        except Exception as failure:  # noqa: BLE001 - told to the caller, whatever it is
            self._refuse(cycle, failure)
        else:
            self._answer(cycle, answer)

    def failed(self, cycle: NotesCycle, failure: Exception) -> None:
        """Answer a request of which nothing was taken, unless its stream is elsewhere."""
        if isinstance(failure, NotHere):
            self._have_relayed(cycle)
        else:
            self._refuse(cycle, failure)

    def _begin(self, head: Head, *, keep_alive: bool) -> None:
        """Ask the gate before the body; one that comes after a refusal is passed over."""
        cycle = NotesCycle(self, head, keep_alive=keep_alive)
        self.cycle = cycle  # type: ignore[assignment]
        remote = self.client[0] if self.client else ""
        asked = Asked("POST", head.path, head.headers, remote)
        try:
            holder = self.gate.admit(Need("write", head.stream), asked)
        except NotLetIn as refused:
            self._answer(cycle, plain(refused.problem))
        else:
            cycle.call = Call(head.stream, holder, remote)

    def _end(self, body: bytes) -> None:
        """Take the request that began, now that its body is here."""
        cycle: Any = self.cycle
        cycle.more_body = False
        if cycle.response_complete:
            return
        cycle.body = body
        if self.controller.is_waking():
            self.loop.call_later(PASSED_OVER_S, self._take_if_wanted, cycle)
        else:
            self._take(cycle)

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
            submit_notes(self.controller, cycle.call, cycle.body, cycle)
        except Exception as failure:  # noqa: BLE001 - told to the caller, whatever it is
            self._refuse(cycle, failure)

    def _have_relayed(self, cycle: NotesCycle) -> None:
        shown = b"" if cycle.call.holder is ANYBODY else cycle.head.authorization
        try:
            answer = self.relay.notes(cycle.call, shown, cycle.body)
        except (StoreUnavailable, Overloaded) as failure:
            self._refuse(cycle, failure)
        else:
            cycle.relayed = answer
            answer.add_done_callback(lambda done: self._relayed(cycle, done))

    def _relayed(self, cycle: NotesCycle, answer: asyncio.Future[Answer]) -> None:
        if answer.cancelled():
            self.transport.abort()
        else:
            self._answer(cycle, answer.result(), self.relay.hint(cycle.call.stream))

    def _head_of_notes(self) -> Head | None:
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
        if not usual or not stream:
            return None
        shown = next((value for name, value in self.headers if name == b"authorization"), b"")
        return Head(stream.decode(), url.decode(), tuple(self.headers), shown)

    def _refuse(self, cycle: NotesCycle, failure: Exception) -> None:
        stream = cycle.call.stream
        try:
            answer = refusal(failure, stream, cycle.body)
        except Exception:
            log.exception("request_failed", stream=stream, error=str(failure))
            answer = BROKEN
        self._answer(cycle, answer)

    def _answer(self, cycle: NotesCycle, answer: Answer, headers: Pairs = ()) -> None:
        cycle.response_complete = True
        cycle.body = b""
        if cycle.disconnected or self.transport.is_closing():
            return
        status, media_type, body = answer
        head = self.answer_heads.of(self.server_state.default_headers, status, media_type)
        for header in headers:
            head += b"%b: %b\r\n" % header
        if cycle.keep_alive:
            self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        else:
            last = b"%bconnection: close\r\ncontent-length: %d\r\n\r\n%b"
            self.transport.write(last % (head, len(body), body))
            self.transport.close()
        self._go_on()

    def _go_on(self) -> None:
        """Turn to the next request, or wait for it with one timer for all of a connection."""
        if self.pipeline or self.transport.is_closing():
            self.on_response_complete()
            return
        self.server_state.total_requests += 1
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait_for_next(self.timeout_keep_alive)

    def _wait_for_next(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        self.timeout_keep_alive_task = None
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if not self._is_between or not self.cycle.response_complete:
            return  # the answer that is under way begins to wait anew
        if left > 0:
            self._wait_for_next(left)
        else:
            self.timeout_keep_alive_handler()


def protocol_for(
    controller: Controller, gate: Gate | None = None, relay: Relay | None = None
) -> type[NotesProtocol]:
    """Return the protocol that brings notes to `controller`, or by `relay`, through `gate`."""
    bound = {
        "controller": controller,
        "gate": gate or Gate(),
        "relay": relay or Relay(controller),
        "heads": Heads(),
        "answer_heads": AnswerHeads(),
    }
    return type("BoundNotesProtocol", (NotesProtocol,), bound)
