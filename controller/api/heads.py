"""Heads of requests with notes that were parsed before: the same bytes mean the same again.

What a writer sends differs in the body. The head repeats, but for the body's length: to parse it
takes a fifth of the CPU time of a durable note, to find it among those known next to nothing. What
it shows to be let in is looked at each time.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_HEADS = 4096
LONGEST_HEAD = 4096
"""So many are kept, of so many bytes; when there are more, all are forgotten and learnt anew."""

END = b"\r\n\r\n"


class Head(NamedTuple):
    """What the head of a request with notes said; the connection is kept after it."""

    stream: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    authorization: bytes


class Heads:
    """The heads that all connections have learnt, with how many bytes of body follow each."""

    def __init__(self) -> None:
        """Begin without any."""
        self._known: dict[bytes, tuple[Head, int]] = {}

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return head and body where the data are one whole request with a known head."""
        end = data.find(END) + len(END)
        known = self._known.get(data[:end])
        if known is None or len(data) != end + known[1]:
            return None
        return known[0], data[end:]

    def learn(self, data: bytes, head: Head, body: bytes) -> None:
        """Remember the head of a request that came in one piece, its body as it stands."""
        end = data.find(END) + len(END)
        if end > LONGEST_HEAD or data[end:] != body:
            return
        if len(self._known) >= MOST_HEADS:
            self._known.clear()
        self._known[data[:end]] = head, len(body)
