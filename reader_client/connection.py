"""How a reader's questions travel to the controller: HTTP requests, errors in our own words."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx

from noted_time.bearer import authorization
from noted_time.controllers import OWNER, Controllers
from noted_time.errors import Unreachable
from noted_time.problems import error_of
from noted_time.wire import position_to_wire

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

Json = dict[str, Any]
ANSWER_S = 10.0
"""How long an answer may take beyond the time it was asked to wait."""

MARKS_PER_PAGE = 10_000


class Connection:
    """The calls of one reader of one stream; safe to share between threads.

    All raise `Unreachable` where there was no answer, `Rejected` or `Conflict` where it was no.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        transport: httpx.BaseTransport | None,
        token: str | None = None,
    ) -> None:
        """Connect with the first call; `transport` takes the place of the network."""
        self._stream = stream
        self._path = f"/v1/streams/{stream}"
        self._sockets: set[socket.socket] = set()
        self._hung_up = False
        self._lock = threading.Lock()
        self._controllers = Controllers(url)
        self._http = httpx.Client(
            headers=authorization(token, os.environ),
            timeout=ANSWER_S,
            limits=httpx.Limits(max_connections=None),
            verify=_authorities(),
            transport=transport,
            trust_env=transport is None,
        )

    def stream(self) -> Json:
        """Return settings, id, last marks and scale events."""
        return self._call("GET", "")

    def marks(self, key: str, *, after: int, wait_ms: int) -> Json:
        """Return the marks of `key` after a seq, waiting for one up to `wait_ms`."""
        query = {"key": key, "after": after, "limit": MARKS_PER_PAGE, "wait_ms": wait_ms}
        return self._call("GET", "/marks", params=query, timeout=ANSWER_S + wait_ms / 1000)

    def group(self, group: str) -> Json:
        """Return where a reader group stands."""
        return self._call("GET", f"/reader-groups/{group}")

    def report(self, group: str, reader: str, position: Mapping[int, int]) -> Json:
        """Report a reader's position; returns where the group stands."""
        path = f"/reader-groups/{group}/readers/{reader}"
        return self._call("PUT", path, json={"position": position_to_wire(position)})

    def offline(self, group: str, reader: str, position: Mapping[int, int]) -> Json:
        """Put a reader's segments back; returns where the group stands."""
        path = f"/reader-groups/{group}/readers/{reader}/offline"
        return self._call("POST", path, json={"position": position_to_wire(position)})

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

    def _call(self, method: str, path: str, **request: Any) -> Json:  # noqa: ANN401 - httpx's
        return self._controllers.ask(
            lambda url: self._call_one(method, url + self._path + path, request)
        )

    def _call_one(self, method: str, url: str, request: Json) -> Json:
        try:
            answer = self._http.request(method, url, extensions={"trace": self._trace}, **request)
        except (httpx.HTTPError, RuntimeError) as error:  # the latter where the client was closed
            message = f"no answer from {url}: {str(error) or type(error).__name__}"
            raise Unreachable(message) from error
        self._controllers.prefer(answer.headers.get(OWNER))
        return self._decoded(answer)

    def _decoded(self, answer: httpx.Response) -> Json:
        try:
            body = answer.json()
        except ValueError:
            body = None
        if answer.is_success and isinstance(body, dict):
            return body
        if answer.is_success:
            message = f"not a controller's answer: {answer.text[:200]}"
            raise Unreachable(message)
        after = answer.headers.get("retry-after")
        problem = body if isinstance(body, dict) else {}
        raise error_of(answer.status_code, problem, stream=self._stream, retry_after=after)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember each new connection's socket; TLS replaces it by another."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            connected = info["return_value"].get_extra_info("socket")
            with self._lock:
                self._sockets = {each for each in self._sockets if each.fileno() >= 0}
                self._sockets.add(connected)
                if self._hung_up:
                    _shut(connected)


@cache
def _authorities() -> ssl.SSLContext:
    """Return what certificates are checked against; reading it takes 30 ms, so it is shared."""
    return httpx.create_ssl_context()


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
