"""Single requests over a connection that stays open, for what is no load."""

from __future__ import annotations

from noted_time_cli.bench.load import LOOPBACK, LoadConnection, post


def put(path: str, body: bytes) -> bytes:
    """Return the bytes of a PUT request on a connection that stays open."""
    return post(path, body).replace(b"POST", b"PUT", 1)


def get(path: str) -> bytes:
    """Return the bytes of a GET request on a connection that stays open."""
    return f"GET {path} HTTP/1.1\r\n{LOOPBACK}\r\n".encode()


class Connection(LoadConnection):
    """A connection on which each request is sent when it is asked."""

    __slots__ = ()

    def ask(self, request: bytes) -> bytes:
        """Send one request and wait for its answer."""
        self.socket.sendall(request)
        return self.wait()

    def wait(self) -> bytes:
        """Wait for the answer to what was sent."""
        while (answer := self.receive()) is None:
            pass
        return answer
