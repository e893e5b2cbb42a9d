"""Which tokens count at this moment: in memory, soon after they changed in the database."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from controller.service.access import Grant
from controller.service.tokens import credential_of, is_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controller.store.tokens import TokenRecord, Tokens

log = structlog.get_logger()

LOOK_EVERY_S = 1.0
"""How soon a token that was made or revoked is known to be, in any controller on the database."""

MOST_SPELLINGS = 10_000
"""How many headers are remembered; `Bearer` may be spelled in many ways."""

NEVER = 1 << 63


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose token it is and what it lets them do; `until_ms` is when it expires."""

    token_id: str
    grant: Grant
    until_ms: int = NEVER


@dataclass(slots=True)
class Keys:
    """What was read of the database at once, and the headers that were found to fit.

    A new reading begins with no headers, so that none outlives its token.
    """

    counts: tuple[int, int] = (0, 0)
    records: dict[str, TokenRecord] = field(default_factory=dict)
    holders: dict[bytes, Holder] = field(default_factory=dict)


class Keyring:
    """The tokens of one database, as its controller knows them.

    While the database does not answer, what was known goes on counting: without it no note is taken
    either.
    """

    def __init__(
        self, tokens: Tokens, wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        """Begin with none; `look` reads them."""
        self._tokens = tokens
        self._wall_ms = wall_ms
        self._keys = Keys()
        self._blind = False

    def any_ever(self) -> bool:
        """Whether there ever was a token: to revoke the last one must open no door."""
        return self._keys.counts[0] > 0

    def holder(self, authorization: bytes) -> Holder | None:
        """Return who shows this value of an Authorization header, if their token counts.

        Called for every request: a header that was seen costs one look into a dict. That tells its
        caller nothing of other headers, as the dict compares bytes only where their keyed hashes
        are the same.
        """
        keys = self._keys
        holder = keys.holders.get(authorization)
        if holder is None:
            holder = self._holder(keys, authorization)
        if holder is None or self._wall_ms() >= holder.until_ms:
            return None
        return holder

    def look(self) -> None:
        """Read the tokens where they have changed; raises `StoreUnavailable`."""
        counts = self._tokens.counts()
        if counts == self._keys.counts:
            return
        records = {record.id: record for record in self._tokens.all()}
        # Counted before they were read: what came between is found again at the next look.
        self._keys = Keys(counts, records)
        log.info("tokens_read", known=counts[0], revoked=counts[1])

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Look again and again meanwhile, beside the loop."""
        watch = asyncio.create_task(self._watch(), name="keyring")
        try:
            yield
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await asyncio.to_thread(self.look)
                self._blind = False
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look may succeed
                if not self._blind:
                    log.warning("tokens_not_read", error=str(error))
                self._blind = True

    @staticmethod
    def _holder(keys: Keys, authorization: bytes) -> Holder | None:
        shown = credential_of(authorization)
        if shown is None:
            return None
        record = keys.records.get(shown.token_id)
        if not is_of(shown, record) or record is None or record.revoked_at is not None:
            return None
        until_ms = NEVER if record.expires_at is None else record.expires_at
        holder = Holder(record.id, Grant.from_scopes(record.scopes), until_ms)
        if len(keys.holders) >= MOST_SPELLINGS:
            keys.holders.clear()
        keys.holders[authorization] = holder
        return holder
