"""Creates tokens and checks which tokens are valid.

A token is ``nt_<id>_<secret>``, with a secret of 256 random bits. Only its SHA-256 is stored; 2^256
secrets cannot be tried, so no slow digest is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

import structlog

from controller.store.records import TokenRecord
from controller.store.token_table import Tokens
from noted_time.answers.permissions import Grant
from noted_time.values import LABEL_LENGTH, format_line

log = structlog.get_logger()

REFRESH_EVERY_S = 1.0

MOST_SPELLINGS = 10_000  # cached headers: `Bearer` may be written in many ways

LONGEST_HEADER = 256  # `Bearer` and a token take 66

NEVER_EXPIRES = 2**63

SECRET_BYTES = 32
TOKEN_PATTERN = re.compile(rb"nt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
BEARER_PATTERN = re.compile(rb"bearer +(\S+)", re.IGNORECASE)
UNKNOWN_DIGEST = sha256(b"").hexdigest()


class Credential(NamedTuple):
    """The id of a token and the digest of a secret, as sent."""

    token_id: str
    digest: str


def mint(
    grant: Grant, *, label: str, now_ms: int, lifetime_ms: int | None
) -> tuple[str, TokenRecord]:
    token_id = secrets.token_hex(6)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    record = TokenRecord(
        id=token_id,
        digest=sha256(secret.encode()).hexdigest(),
        scopes=grant.to_json(),
        label=label,
        created_at=now_ms,
        expires_at=None if lifetime_ms is None else now_ms + lifetime_ms,
    )
    return f"nt_{token_id}_{secret}", record


def parse_credential(authorization: bytes) -> Credential | None:
    """Return the credential in an Authorization header, or `None` if it has another form.

    >>> parse_credential(b"Bearer nt_0123456789ab_" + 43 * b"s").token_id
    '0123456789ab'
    """
    bearer = BEARER_PATTERN.fullmatch(authorization)
    if bearer is None:
        return None
    parts = TOKEN_PATTERN.fullmatch(bearer[1])
    if parts is None:
        return None
    return Credential(parts[1].decode(), sha256(parts[2]).hexdigest())


@dataclass(frozen=True, slots=True)
class Holder:
    """A valid token."""

    token_id: str
    grant: Grant
    until_ms: int = NEVER_EXPIRES
    label: str = ""


@dataclass(slots=True)
class KnownTokens:
    """The tokens as last read, with a cache of valid headers.

    Each reading empties the cache, so no header outlives its token.
    """

    counts: tuple[int, int] = (0, 0)
    records: dict[str, TokenRecord] = field(default_factory=dict)
    holders: dict[bytes, Holder] = field(default_factory=dict)


class TokenCache:
    """The tokens of one database.

    While the database is away, known tokens stay valid; no note is accepted then anyway.
    """

    def __init__(
        self, tokens: Tokens, wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._tokens = tokens
        self._wall_ms = wall_ms
        self._known = KnownTokens()
        self._failing = False

    def has_any_ever(self) -> bool:
        """Count revoked tokens, because revoking the last must not open the controller."""
        return self._known.counts[0] > 0

    def holder(self, authorization: bytes) -> Holder | None:
        """Return the holder of a valid token in an Authorization header.

        The time of the lookup reveals nothing, because a dict compares bytes only if keyed hashes
        are equal.
        """
        if len(authorization) > LONGEST_HEADER:
            return None
        known_tokens = self._known
        holder = known_tokens.holders.get(authorization)
        if holder is None:
            holder = self._find_holder(known_tokens, authorization)
        if holder is None or self._wall_ms() >= holder.until_ms:
            return None
        return holder

    def refresh(self) -> None:
        counts = self._tokens.counts()
        if counts == self._known.counts:
            return
        records = {record.id: record for record in self._tokens.all()}
        # the counts are older, so a change in between is found next time
        self._known = KnownTokens(counts, records)
        log.info("tokens_read", known=counts[0], revoked=counts[1])

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        watch = asyncio.create_task(self._watch(), name="token cache")
        try:
            yield
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_EVERY_S)
            try:
                await asyncio.to_thread(self.refresh)
                self._failing = False
            except Exception as error:  # noqa: BLE001 - the next refresh may succeed
                if not self._failing:
                    log.warning("tokens_not_read", error=str(error))
                self._failing = True

    @staticmethod
    def _find_holder(known_tokens: KnownTokens, authorization: bytes) -> Holder | None:
        credential = parse_credential(authorization)
        if credential is None:
            return None
        record = known_tokens.records.get(credential.token_id)
        # constant time does not reveal a partial match
        matches = hmac.compare_digest(
            credential.digest, record.digest if record else UNKNOWN_DIGEST
        )
        if not matches or record is None or record.revoked_at is not None:
            return None
        until_ms = NEVER_EXPIRES if record.expires_at is None else record.expires_at
        label = format_line(record.label, LABEL_LENGTH)
        holder = Holder(record.id, Grant.from_json(record.scopes), until_ms, label)
        if len(known_tokens.holders) >= MOST_SPELLINGS:
            known_tokens.holders.clear()
        known_tokens.holders[authorization] = holder
        return holder
