"""The shared secret that authenticates the controllers of one database to each other."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable

from controller.api.gate.access import AccessDenied, RequestInfo
from controller.api.wire.problems import problem_of
from controller.store.port import StoreUnavailable

SECRET_HEADER = b"noted-time-replica"

REREAD_INTERVAL_S = 1.0  # so that strangers cannot cause more reads


class SharedSecret:
    """The secret, as last read from the database."""

    def __init__(self, read_secret: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read_secret
        self._known = b""
        self._reading = asyncio.Lock()
        self._again_at = 0.0

    async def header(self) -> tuple[bytes, bytes]:
        if not self._known:
            await self.refresh()
        return SECRET_HEADER, self._known

    async def refresh(self) -> None:
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if now >= self._again_at:
                self._again_at = now + REREAD_INTERVAL_S
                self._known = await self._read()

    async def check(self, info: RequestInfo) -> None:
        """Raise `AccessDenied` unless the request has the secret, read again if it differs."""
        shown_secret = next((value for name, value in info.headers if name == SECRET_HEADER), b"")
        try:
            if not self._is_secret(shown_secret):
                await self.refresh()
        except StoreUnavailable as failure:
            raise AccessDenied(problem_of(failure)) from failure
        if not self._is_secret(shown_secret):
            sentence = "only a controller of the same database may forward notes"
            raise info.deny("forbidden", sentence)

    def _is_secret(self, shown_secret: bytes) -> bool:
        return bool(self._known) and hmac.compare_digest(shown_secret, self._known)
