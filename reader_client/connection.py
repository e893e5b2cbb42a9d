"""How questions travel to the controller: requests of one httpx client, blocking or awaited."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx

from noted_time.client import Incoming, no_answer, run, run_async
from reader_client import answers, questions
from reader_client.exchange import Exchange, client_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noted_time.client import Reply, Request
    from noted_time.reading import CompleteWindow
    from reader_client.questions import Json, Question


class Connection:
    """The questions of one reader of one stream; safe to share between threads.

    All raise `Unreachable` where there was no answer, `Rejected` or `Conflict` where it was no.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        transport: httpx.BaseTransport | None,
        token: str | None = None,
    ) -> None:
        """Connect with the first question; `transport` takes the place of the network."""
        self._exchange = Exchange(url, stream)
        self._sockets: set[socket.socket] = set()
        self._hung_up = False
        self._lock = threading.Lock()
        self._http = httpx.Client(transport=transport, **client_options(token, transport))

    def ask(self, question: Question) -> Json:
        """Return the answer's body."""
        return run(self._exchange.ask(question), self._send)

    def stream(self) -> Json:
        """Return settings, id, last marks and scale events."""
        answer = self.ask(questions.about_stream())
        answers.stream_answer(answer)
        return answer

    def marks(self, domain: str, *, after: int, wait_ms: int) -> Json:
        """Return the marks of `domain` after a seq, waiting for one up to `wait_ms`."""
        answer = self.ask(questions.marks_after(after, domain, wait_ms))
        answers.marks_answer(answer)
        return answer

    def window(
        self, start: int, end: int, domain: str | None, *, wait_ms: int
    ) -> CompleteWindow | None:
        """Return the window from `start` to `end`, `None` where it is not complete in time."""
        answer = self.ask(questions.window_between(start, end, domain, wait_ms))
        return next(iter(answers.windows_answer(answer)), None)

    def check_complete(self, time: int, domain: str | None) -> None:
        """Raise `NotCompleteYet` where the stream is not complete to a time."""
        self.ask(questions.complete_to(time, domain))

    def hang_up(self) -> None:
        """End the long polls under way: their calls raise `Unreachable`.

        Closing a socket does not wake the thread that reads from it; shutting it down does.
        """
        with self._lock:
            self._hung_up = True
            for each in self._sockets:
                _shut(each)

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def _send(self, request: Request) -> Reply:
        trace = {"trace": self._trace}
        try:
            with self._http.stream(
                request.method, request.url, extensions=trace, **request.options
            ) as answer:
                incoming = Incoming(answer.status_code, answer.headers)
                for part in answer.iter_bytes():
                    incoming.add(part)
                return incoming.reply()
        except (httpx.HTTPError, RuntimeError) as error:  # the latter where the client was closed
            raise no_answer(request, error) from error

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember each new connection's socket; TLS replaces it by another."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            connected = info["return_value"].get_extra_info("socket")
            with self._lock:
                self._sockets = {each for each in self._sockets if each.fileno() >= 0}
                self._sockets.add(connected)
                if self._hung_up:
                    _shut(connected)


class AsyncConnection:
    """The questions of one reader of one stream, for a task; raises as `Connection`."""

    def __init__(
        self,
        url: str,
        stream: str,
        transport: httpx.AsyncBaseTransport | None,
        token: str | None = None,
    ) -> None:
        """Connect with the first question; `transport` takes the place of the network."""
        self._exchange = Exchange(url, stream)
        self._http = httpx.AsyncClient(transport=transport, **client_options(token, transport))

    async def ask(self, question: Question) -> Json:
        """Return the answer's body."""
        return await run_async(self._exchange.ask(question), self._send)

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def _send(self, request: Request) -> Reply:
        try:
            async with self._http.stream(request.method, request.url, **request.options) as answer:
                incoming = Incoming(answer.status_code, answer.headers)
                async for part in answer.aiter_bytes():
                    incoming.add(part)
                return incoming.reply()
        except httpx.HTTPError as error:
            raise no_answer(request, error) from error


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
