"""Bounds on what a connection may bring, for which uvicorn has no setting.

With httptools uvicorn buffers a head of any size, parses pipelined requests far ahead of its
answers and has no time limit before the first answer. A `Connection` stands between the network and
uvicorn's protocol: it is the protocol of the one and the transport of the other, by asyncio's
public interface. It passes on what arrives, a piece in each iteration of the event loop,

- until the app has a whole request: what follows is parsed after its answer;
- until the app has received nothing of the last `MOST_UNSEEN` bytes (a head, chunk extension or
  trailer): then it answers 431 and closes;
- until `request_s` passed without a whole head or, after that, without a whole body: then it
  closes, at most half as long later. To answer may take any time, and the silence after an answer
  is uvicorn's `timeout_keep_alive`.

The app answers each request inside of `with scope["state"]["connection"]:`, reads its body before
it waits for anything else, and reports each part of it by `receive_more`.
"""

import asyncio
import re
from typing import Any

PIECE_BYTES = 16 * 1024
MOST_UNSEEN = 64 * 1024
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n"

# httptools ends a request with `Upgrade` at its head and parses its body as the next request. A
# server may ignore the field, so it is passed on under another name of the same length. That harms
# no body: no line of JSON begins so. A field that is cut in two stays, and the app refuses it.
UPGRADE_HEADER = re.compile(rb"\r\n[Uu]pgrade:")


class Connection(asyncio.Protocol):
    """A connection that brings one request at a time to a protocol of the server."""

    def __init__(self, protocol: Any, request_s: float, app_state: Any, **given: Any) -> None:  # noqa: ANN401 - as uvicorn makes its own
        """Create the server's protocol, whose app gets this connection in its state."""
        self._server = protocol(app_state={**app_state, "connection": self}, **given)
        self.pause_writing = self._server.pause_writing  # type: ignore[method-assign]
        self.resume_writing = self._server.resume_writing  # type: ignore[method-assign]
        self._loop, self._request_s = asyncio.get_running_loop(), request_s
        self._held, self._unseen, self._is_whole, self._is_paused = b"", 0, False, False
        self._unsent: list[bytes] = []
        self._waiting: asyncio.Timeout | None = None

    def __enter__(self) -> None:
        """Begin a request, whose head has been parsed."""
        self._unseen, self._since = 0, self._loop.time()

    def receive_more(self, *, is_whole: bool) -> None:
        """Pass on more of the body, or nothing until the request is answered."""
        self._unseen, self._is_whole = 0, is_whole

    def __exit__(self, *_: object) -> None:
        """End the request."""
        self._unseen, self._is_whole, self._since = 0, False, float("inf")
        self._send()
        self._pass_on_soon()

    def end_on_hang_up(self, waiting: asyncio.Timeout | None) -> None:
        """Have that end once the caller has hung up, which it may have done already."""
        self._waiting = waiting
        if waiting is not None and self._network.is_closing():
            waiting.reschedule(self._loop.time())

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - one to read and to write
        """Wait for the first request."""
        self._network, self._since = transport, self._loop.time()
        for name in ("abort", "is_closing", "get_extra_info"):
            setattr(self, name, getattr(transport, name))
        self._server.connection_made(self)
        self._next = self._loop.call_soon(self._pass_on)
        self._check_time()

    def write(self, data: bytes) -> None:
        """Send it with the next part, if that comes in the same iteration of the event loop.

        An answer is a head and a body: two calls of the system would take a tenth of a note's time.
        """
        self._unsent.append(data)
        if len(self._unsent) == 1:
            self._sending = self._loop.call_soon(self._send)
        else:
            self._send()

    def close(self) -> None:
        """Send what is held, then close."""
        self._send()
        self._network.close()

    def _send(self) -> None:
        """Send what is held; to a caller that hung up nothing, which would log a traceback."""
        if self._unsent:
            self._sending.cancel()
            if not self._network.is_closing():
                self._network.write(b"".join(self._unsent))
            self._unsent.clear()
            del self._sending

    def data_received(self, data: bytes) -> None:
        """Pass the data on, after what is held."""
        self._held += data
        self._pass_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection to the server.

        Nothing that refers to this connection is kept: in a circle both would stay until a full
        collection, which hardly comes.
        """
        self._timer.cancel()
        if self._waiting is not None:
            self._waiting.reschedule(self._loop.time())
        self._server.connection_lost(exc)
        self._held = b""
        del self._server, self._next, self._timer
        del self.pause_writing, self.resume_writing

    def pause_reading(self) -> None:
        """Let the server finish what it has."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Pass on more, unless the app finds its request whole."""
        self._is_paused = False
        self._pass_on_soon()

    def _pass_on_soon(self) -> None:
        """Pass on, but not before a request that was parsed ahead has begun."""
        if self._held:
            self._next.cancel()
            self._next = self._loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        """Pass on a piece if the server is to have it; read on if nothing is left."""
        if self._held and not (self._is_whole or self._is_paused or self._network.is_closing()):
            if self._unseen >= MOST_UNSEEN:
                self.write(TOO_LARGE)
                self.close()
                return
            piece, self._held = self._held[:PIECE_BYTES], self._held[PIECE_BYTES:]
            self._since = min(self._since, self._loop.time())
            self._unseen += len(piece)
            self._server.data_received(UPGRADE_HEADER.sub(b"\r\nIgnored:", piece, count=1))
            self._pass_on_soon()
        if not self._network.is_closing():
            (self._network.pause_reading if self._held else self._network.resume_reading)()

    def _check_time(self) -> None:
        if not self._is_whole and self._loop.time() - self._since > self._request_s:
            self._network.abort()
        self._timer = self._loop.call_later(self._request_s / 2, self._check_time)
