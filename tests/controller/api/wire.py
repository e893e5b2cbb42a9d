"""A connection on which a test writes bytes and reads answers."""

import socket
from typing import Any, Self

import msgspec

from tools.trials.waiting import PATIENCE_S

PATH = "/v1/streams/s/notes"


class Wire:
    """A connection to a port of this machine."""

    def __init__(self, port: int, timeout_s: float = PATIENCE_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *parts: bytes) -> None:
        self._socket.sendall(b"".join(parts))

    def flood(self, part: bytes, times: int) -> None:
        """Write a part until the other end takes no more."""
        try:
            for _ in range(times):
                self._socket.sendall(part)
        except OSError:
            return

    def answer(self) -> tuple[int, Any]:
        status = int(self._file.readline().split()[1])
        length = 0
        while (line := self._file.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = self._file.read(length)
        return status, msgspec.json.decode(body) if body else None

    def line(self) -> bytes:
        """Read one line, empty if the connection has ended."""
        try:
            return self._file.readline()
        except ConnectionResetError:
            return b""

    def code(self) -> tuple[int, str]:
        status, body = self.answer()
        return status, body["code"]

    def has_ended(self, status: str = "") -> bool:
        """Whether the controller closes the connection, after an answer with `status` if given."""
        try:
            rest = self._file.read()
        except ConnectionResetError:
            return True  # with unread bytes, whose answer may have been lost
        return status.encode() in rest.partition(b"\r\n")[0] if status else rest == b""

    def hang_up(self) -> None:
        """Close both directions, also for another thread that writes."""
        self._socket.shutdown(socket.SHUT_RDWR)


def post(body: bytes, path: str = PATH, version: str = "1.1", *more: str) -> bytes:
    lines = [
        f"POST {path} HTTP/{version}",
        "Host: localhost",
        f"Content-Length: {len(body)}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
