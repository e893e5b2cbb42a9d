"""Which right each call needs, told by its method and path alone.

Anything not known here needs the right to administer, so that a route which somebody forgets to
enter is closed, not open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.service.access import Grant

Right = Literal["nothing", "a token", "read", "read all", "write", "administer"]

STREAMS = "/v1/streams/"
OPEN = frozenset(("/healthz", "/readyz", "/openapi.json", "/v1/relay"))
"""No token lets anybody in here; each request in a relayed frame shows its own."""
READING = frozenset(
    (
        ("GET", ""),
        ("GET", "writers"),
        ("GET", "explain"),
        ("GET", "marks"),
        ("GET", "cut"),
        ("POST", "time-window"),
        ("GET", "reader-groups/*"),
        ("PUT", "reader-groups/*/readers/*"),
        ("POST", "reader-groups/*/readers/*/offline"),
    )
)
"""What a reader calls: method, and path below the stream with a star for each name."""


OF_MARKS = frozenset((("GET", ""), ("GET", "marks"), ("GET", "cut"), ("POST", "time-window")))
"""Those that need no more of a stream than its marks, which every controller can read."""


class Need(NamedTuple):
    """What a call needs, and on which stream where that matters."""

    right: Right
    stream: str = ""

    def is_met_by(self, grant: Grant) -> bool:
        """Whether the grant has the right; `writers` of a request are a matter of its body."""
        if self.right == "write":
            return grant.may_write(self.stream)
        if self.right == "read":
            return grant.may_read(self.stream)
        if self.right == "read all":
            return grant.may_read_all()
        return self.right in {"nothing", "a token"} or grant.may_administer()

    def __str__(self) -> str:
        named = self.right in {"read", "write"}
        return f"{self.right} stream {self.stream!r}" if named else self.right


def needed(method: str, path: str) -> Need:
    """Return what a call needs.

    >>> str(needed("GET", "/v1/streams/flights/marks"))
    "read stream 'flights'"
    >>> str(needed("DELETE", "/v1/streams/flights")), str(needed("GET", "/metrics"))
    ('administer', 'read all')
    """
    if path in OPEN:
        return Need("nothing")
    if path == "/metrics":
        return Need("read all")
    if (method, path) == ("GET", "/v1/streams"):
        return Need("a token")
    if not path.startswith(STREAMS) or path == STREAMS:
        return Need("administer")
    stream, *below = path.removeprefix(STREAMS).split("/")
    return Need(_right(method, below), stream)


def _right(method: str, below: Sequence[str]) -> Right:
    # names stand at every second place
    shape = "/".join("*" if place % 2 else part for place, part in enumerate(below))
    if (method, shape) == ("POST", "notes"):
        return "write"
    return "read" if (method, shape) in READING else "administer"


def goes_elsewhere(method: str, path: str) -> str | None:
    """Return the stream whose own controller has to answer the call, `None` where any can.

    >>> goes_elsewhere("GET", "/v1/streams/flights/writers")
    'flights'
    >>> goes_elsewhere("GET", "/v1/streams/flights/marks"), goes_elsewhere("GET", "/metrics")
    (None, None)
    """
    if not path.startswith(STREAMS) or path == STREAMS:
        return None
    stream, _, below = path.removeprefix(STREAMS).partition("/")
    return None if (method, below) in OF_MARKS else stream
