"""Controllers that require tokens, and tokens for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from controller.api.gate.access import Gate
from controller.service.controller import Controller
from controller.service.limits import Limits
from controller.service.tokens import TokenCache, mint
from controller.store.token_table import Tokens
from noted_time.answers.permissions import Grant
from tests.support.http import serve_app
from tools.trials.memory_store import MemoryStore, MemoryTokens

NOW = 1_700_000_000_000


@dataclass
class Guarded:
    """Tokens, and the gate that requires them; the wall clock stands at `now`."""

    tokens: Tokens = field(default_factory=MemoryTokens)
    now: int = NOW

    def __post_init__(self) -> None:
        self.cache = TokenCache(self.tokens, lambda: self.now)
        self.gate = Gate(self.cache)

    def token(
        self,
        *scopes: str,
        lifetime_ms: int | None = None,
        label: str = "",
        **bounds: Any,  # noqa: ANN401 - streams, writers
    ) -> str:
        """Make a token, valid at once."""
        grant = Grant.of(scopes, **bounds)
        token, record = mint(grant, label=label, now_ms=self.now, lifetime_ms=lifetime_ms)
        self.tokens.add(record)
        self.cache.refresh()
        return token

    def revoke(self, token: str) -> None:
        """Revoke a token, invalid at once."""
        assert self.tokens.revoke(token.split("_")[1], self.now)
        self.cache.refresh()


@dataclass
class Door:
    """A client of one app behind a gate; it returns answers as (status, code)."""

    client: httpx.AsyncClient
    controller: Controller

    async def call(
        self, method: str, path: str, token: str | None = None, body: object = None, **headers: str
    ) -> tuple[int, str]:
        answer = await self.answer(method, path, token, body, **headers)
        document = answer.json() if answer.content and answer.status_code >= 400 else {}
        return answer.status_code, document.get("code", "")

    async def answer(
        self, method: str, path: str, token: str | None = None, body: object = None, **headers: str
    ) -> httpx.Response:
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return await self.client.request(method, path, json=body, headers=headers)


@asynccontextmanager
async def serve_gate(gate: Gate, limits: Limits | None = None) -> AsyncIterator[Door]:
    """Serve an app behind the gate, with the streams `s` and `t`."""
    controller = Controller(MemoryStore(), limits=limits)
    async with serve_app(controller, gate) as caller:
        for stream in "st":
            await controller.put_stream(stream, {"mark_interval_ms": 0})
        yield Door(caller.client, controller)
