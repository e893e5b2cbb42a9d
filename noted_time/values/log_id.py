"""Ids of logs, which distinguish logs with the same name."""

from __future__ import annotations

from msgspec import Struct

BASE64URL_TABLE = str.maketrans("+/", "-_")


def log_id(spelling: str) -> str:
    """Return the id of a Kafka topic as Kafka writes it, unlike some clients: in base64url.

    >>> log_id("l+Nn1Hl/QmqdyIVaRTaVpA")
    'l-Nn1Hl_QmqdyIVaRTaVpA'
    """
    return spelling.translate(BASE64URL_TABLE)


class OtherLog(Struct, frozen=True):
    """The log of a stream's positions, and another log that was given."""

    known: str
    given: str

    @property
    def sentence(self) -> str:
        return f"its positions are of log {self.known}, and this is log {self.given}"
