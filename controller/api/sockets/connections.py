"""Limits connections where uvicorn has no settings.

uvicorn with httptools buffers heads of any size, parses pipelined requests far ahead, and has no
timeout before the first answer. So a `Connection` passes data from the network to uvicorn's
protocol, one piece in each iteration of the event loop:

- Once the app has a whole request, the next request is passed on only after the answer.
- If the app has received nothing of the last `MOST_UNSEEN` bytes (a head, chunk extension or
  trailer), the connection answers 431 and closes.
- If a whole head does not arrive within 1.5 times `request_s`, or then a whole body, the connection
  closes.

The app answers each request inside `with scope["state"]["connection"]:`, reads the body before it
waits for anything else, and reports each part by `receive_more`.
"""

import asyncio
import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PIECE_BYTES = 16 * 1024
MOST_UNSEEN = 64 * 1024
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n"

# At `Upgrade`, httptools parses the body as the next request. So the header is renamed, in capitals
# or not; no line of JSON begins like this. The app refuses a header that two pieces share.
UPGRADE_HEADER = re.compile(rb"\r\n(?i:upgrade):")


class Connection(asyncio.Protocol):
    """A connection that passes one request at a time to the server's protocol."""

    request_s = 30.0  # for an idle new connection, and for sending a whole request

    def __init__(self, app_state: dict[str, Any], **options: Any) -> None:  # noqa: ANN401 - as in uvicorn
        self._server: Any = HttpToolsProtocol(
            app_state={**app_state, "connection": self}, **options
        )
        self.pause_writing = self._server.pause_writing  # type: ignore[method-assign]
        self.resume_writing = self._server.resume_writing  # type: ignore[method-assign]
        self._loop = asyncio.get_running_loop()
        self._held = b""
        self._unseen = 0
        self._is_whole = False
        self._is_paused = False
        self._unsent: list[bytes] = []
        self._waiting: asyncio.Timeout | None = None

    def __enter__(self) -> None:
        self._unseen = 0
        self._since = self._loop.time()

    def receive_more(self, *, is_whole: bool) -> None:
        """Restart the limits for the rest of the body, or stop reading after it."""
        self._unseen = 0
        self._is_whole = is_whole

    def __exit__(self, *_: object) -> None:
        self._unseen = 0
        self._is_whole = False
        self._since = float("inf")
        self._send()
        self._pass_on_soon()

    def end_on_hang_up(self, waiting: asyncio.Timeout | None) -> None:
        """Expire this timeout when the client hangs up, or now if it already has."""
        self._waiting = waiting
        if waiting is not None and self._network.is_closing():
            waiting.reschedule(self._loop.time())

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - for reading and writing
        self._network = transport
        self._since = self._loop.time()
        for name in ("abort", "is_closing", "get_extra_info"):
            setattr(self, name, getattr(transport, name))
        self._server.connection_made(self)
        self._next = self._loop.call_soon(self._pass_on)
        self._check_time()

    def write(self, data: bytes) -> None:
        """Send the head of an answer with the first part of its body.

        Two system calls would take 10% of a note's time. An answer without a body is sent at the
        end of the request.
        """
        self._unsent.append(data)
        is_head_of_answer = self._is_whole and len(self._unsent) == 1
        if not is_head_of_answer:
            self._send()

    def close(self) -> None:
        self._send()
        self._network.close()

    def _send(self) -> None:
        """Send nothing after a hang-up, which would log a traceback."""
        if self._unsent:
            if not self._network.is_closing():
                self._network.write(b"".join(self._unsent))
            self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        self._held += data
        self._pass_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop all references, because a cycle would wait for a rare full garbage collection."""
        self._timer.cancel()
        if self._waiting is not None:
            self._waiting.reschedule(self._loop.time())
        self._server.connection_lost(exc)
        self._held = b""
        del self._server, self._next, self._timer
        del self.pause_writing, self.resume_writing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._pass_on_soon()

    def _pass_on_soon(self) -> None:
        if self._held:
            self._next.cancel()
            self._next = self._loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        if self._held and not (self._is_whole or self._is_paused or self._network.is_closing()):
            if self._unseen >= MOST_UNSEEN:
                self.write(TOO_LARGE)
                self.close()
                return
            piece = self._held[:PIECE_BYTES]
            self._held = self._held[PIECE_BYTES:]
            self._since = min(self._since, self._loop.time())
            self._unseen += len(piece)
            self._server.data_received(UPGRADE_HEADER.sub(b"\r\nIgnored:", piece))
            self._pass_on_soon()
        if not self._network.is_closing():
            if self._held:
                self._network.pause_reading()
            else:
                self._network.resume_reading()

    def _check_time(self) -> None:
        if not self._is_whole and self._loop.time() - self._since > self.request_s:
            self._network.abort()
        self._timer = self._loop.call_later(self.request_s / 2, self._check_time)
