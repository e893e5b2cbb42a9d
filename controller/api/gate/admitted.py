"""A request that was admitted: who calls, and what of a stream it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from controller.service.tokens import Holder

if TYPE_CHECKING:
    from starlette.types import Scope

FORWARDED_HEADER = b"noted-time-forwarded"
FORWARDED_MARK = (FORWARDED_HEADER, b"1")
"""The header of a request that was forwarded, which is never forwarded again."""


class Call(NamedTuple):
    """An admitted request: by whom and from where.

    `stream` names the stream that it is for, whose owner answers; empty for none.
    """

    stream: str
    holder: Holder
    remote: str

    @property
    def is_admin(self) -> bool:
        """Whether the caller has an admin token, for which there is always room."""
        return self.holder.token_id != "" and self.holder.grant.may_administer()


class StreamRequest(NamedTuple):
    """An admitted request for a stream, with its whole body."""

    stream: str
    scope: Scope
    body: bytes

    @property
    def call(self) -> Call:
        """Who calls."""
        call: Call = self.scope["state"]["call"]
        return call

    def is_to(self, method: str, below: str) -> bool:
        """Whether it has that method, and the path `below` the stream's."""
        scope = self.scope
        found = scope["method"] == method and scope["path"] == f"/v1/streams/{self.stream}/{below}"
        return bool(found)

    @property
    def is_of_notes(self) -> bool:
        """Whether it brings notes."""
        return self.is_to("POST", "notes")

    def header(self, name: bytes) -> bytes:
        """Return the value of a header, empty if it is not there."""
        return next((value for each, value in self.scope["headers"] if each == name), b"")

    @property
    def target(self) -> str:
        """Its path and query as they came."""
        path: bytes = self.scope["raw_path"].partition(b"?")[0]
        query: bytes = self.scope["query_string"]
        return (path + (b"?" + query if query else b"")).decode("latin-1")

    @property
    def waits_s(self) -> float:
        """How long its answer may wait, as those of long polls do."""
        waits = parse_qs(self.scope["query_string"].decode("latin-1")).get("wait_ms", ["0"])
        return min(int(waits[-1]), 30_000) / 1000 if waits[-1].isdecimal() else 0.0
