"""An admitted request: its caller and its stream."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from controller.service.tokens import Holder

if TYPE_CHECKING:
    from starlette.types import Scope

_WAIT_MS = re.compile(rb'"wait_ms"\s*:\s*(\d{1,5})\b')

LONGEST_WAIT_MS = 30_000

FORWARDED_HEADER = b"noted-time-forwarded"
FORWARDED_MARK = (FORWARDED_HEADER, b"1")


class Call(NamedTuple):
    """The caller of an admitted request, its address, and the stream, or ""."""

    stream: str
    holder: Holder
    remote: str

    @property
    def is_admin(self) -> bool:
        return self.holder.token_id != "" and self.holder.grant.may_administer()


class StreamRequest(NamedTuple):
    """An admitted request for a stream, with its body."""

    stream: str
    scope: Scope
    body: bytes

    @property
    def call(self) -> Call:
        call: Call = self.scope["state"]["call"]
        return call

    def is_to(self, method: str, path_end: str) -> bool:
        scope = self.scope
        match = (
            scope["method"] == method and scope["path"] == f"/v1/streams/{self.stream}/{path_end}"
        )
        return bool(match)

    @property
    def is_notes_call(self) -> bool:
        return self.is_to("POST", "notes")

    def header(self, name: bytes) -> bytes:
        return next((value for header, value in self.scope["headers"] if header == name), b"")

    @property
    def target(self) -> str:
        path: bytes = self.scope["raw_path"].partition(b"?")[0]
        query: bytes = self.scope["query_string"]
        if query:
            path += b"?" + query
        return path.decode("latin-1")

    @property
    def waits_s(self) -> float:
        wait_ms = "0"
        if self.is_to("POST", "completeness"):
            match = _WAIT_MS.search(self.body)
            if match is not None:
                wait_ms = match[1].decode()
        else:
            query = parse_qs(self.scope["query_string"].decode("latin-1"))
            wait_ms = query.get("wait_ms", ["0"])[-1]
        if not wait_ms.isdecimal():
            return 0.0
        return min(int(wait_ms), LONGEST_WAIT_MS) / 1000
