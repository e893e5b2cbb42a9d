"""Asks all other controllers of the database the same question, once each and in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from controller.api.calls import MARKED
from controller.service.ownership import Ownership

if TYPE_CHECKING:
    import httpx

ANSWER_S = 0.8
"""How long to wait for the others."""

T = TypeVar("T")


class Peers:
    """The other controllers of the database; none without a client."""

    def __init__(self, ownership: Ownership, http_client: httpx.AsyncClient | None) -> None:
        self._ownership = ownership
        self._http_client = http_client

    async def ask(
        self, path: str, query: Mapping[str, Any], authorization: str | None, kind: type[T]
    ) -> list[T]:
        """Return the answers of that kind to a marked GET that come in time.

        Each reports its own streams; they are shown the caller's token.
        """
        client, urls = self._http_client, {*self._ownership.leases.others.values()} - {""}
        if client is None:
            return []
        shown = [] if authorization is None else [(b"authorization", authorization.encode())]

        async def ask(url: str) -> T | None:
            try:
                async with asyncio.timeout(ANSWER_S):
                    reply = await client.get(
                        f"{url}{path}", params=dict(query), headers=[*shown, MARKED]
                    )
                return msgspec.json.decode(reply.raise_for_status().content, type=kind)
            except Exception:  # noqa: BLE001 - an advertised URL may be anything
                self._ownership.refresh_soon()
                return None

        found = await asyncio.gather(*map(ask, urls))
        return [part for part in found if part is not None]
