"""How tokens are made, spelled and checked.

A token is ``nt_<id>_<secret>``, the secret 256 bits of chance. Kept is its SHA-256: nobody can try
2^256 secrets, so a digest made slow on purpose, as passwords need, would protect nothing more.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from controller.store.tokens import TokenRecord
from noted_time import Rejected

if TYPE_CHECKING:
    from controller.service.access import Grant

SECRET_BYTES = 32
TOKEN = re.compile(rb"nt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
BEARER = re.compile(rb"bearer +(\S+)", re.IGNORECASE)
NOBODY = sha256(b"").hexdigest()
UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
PERIOD = re.compile(r"([1-9][0-9]{0,5})([smhd])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    """What somebody shows: the id of a token, and the digest of a secret that may be its own."""

    token_id: str
    digest: str


def mint(
    grant: Grant, *, label: str, now_ms: int, lifetime_ms: int | None
) -> tuple[str, TokenRecord]:
    """Return a new token, which is to be shown once, and its record, which is to be kept."""
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(SECRET_BYTES)
    record = TokenRecord(
        id=token_id,
        digest=sha256(secret.encode()).hexdigest(),
        scopes=grant.to_scopes(),
        label=label,
        created_at=now_ms,
        expires_at=None if lifetime_ms is None else now_ms + lifetime_ms,
    )
    return f"nt_{token_id}_{secret}", record


def credential_of(authorization: bytes) -> Credential | None:
    """Return what the value of an Authorization header shows, where it has the form of a token.

    >>> credential_of(b"Basic bm90OnlvdQ==") is None
    True
    >>> credential_of(b"Bearer nt_0123456789ab_" + 43 * b"s").token_id
    '0123456789ab'
    """
    shown = BEARER.fullmatch(authorization)
    parts = TOKEN.fullmatch(shown[1]) if shown else None
    return Credential(parts[1].decode(), sha256(parts[2]).hexdigest()) if parts else None


def is_of(shown: Credential, record: TokenRecord | None) -> bool:
    """Whether the secret is that of the record, in a time that does not tell how far it is."""
    return hmac.compare_digest(shown.digest, record.digest if record else NOBODY)


def period_ms(text: str) -> int:
    """Return the ms of a period; raises `Rejected`.

    >>> period_ms("90d"), period_ms("12h")
    (7776000000, 43200000)
    """
    parts = PERIOD.fullmatch(text)
    if parts is None:
        raise Rejected(f"{text[:40]!r} is no period: say 90d, 12h, 30m or 45s")
    return int(parts[1]) * UNITS_MS[parts[2]]
