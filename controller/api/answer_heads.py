"""Heads of answers as they are sent: all answers of a second begin alike, so they are kept."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from controller.api.problems import HEADERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    Default = Sequence[tuple[bytes, bytes]]

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
HEADER_LINES = {
    status: f"{name.lower()}: {value}\r\n".encode() for status, (name, value) in HEADERS.items()
}


class AnswerHeads:
    """The heads that were made with the server's headers of this second."""

    def __init__(self) -> None:
        """Begin without any."""
        self._default: Default = ()
        self._made: dict[tuple[int, str], bytes] = {}

    def of(self, default: Default, status: int, media_type: str) -> bytes:
        """Return the head up to what depends on the body; `default` is never changed in place."""
        if default is not self._default:
            self._default, self._made = default, {}
        made = self._made.get((status, media_type))
        if made is None:
            made = self._made[status, media_type] = _head(default, status, media_type)
        return made


def _head(default: Default, status: int, media_type: str) -> bytes:
    lines = [STATUS_LINES[status]]
    lines += [b"%b: %b\r\n" % header for header in default]
    lines.append(b"content-type: %b\r\n" % media_type.encode())
    lines.append(HEADER_LINES.get(status, b""))
    return b"".join(lines)
