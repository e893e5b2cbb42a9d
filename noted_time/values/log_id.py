"""The ids of logs: what tells a log from another one of the same name."""

from __future__ import annotations

from dataclasses import dataclass

BASE64URL_TABLE = str.maketrans("+/", "-_")


def log_id(spelling: str) -> str:
    """Return the id of a Kafka topic as Kafka itself spells it, in base64url.

    Its clients in C and Python have `+` and `/` in it.

    >>> log_id("l+Nn1Hl/QmqdyIVaRTaVpA")
    'l-Nn1Hl_QmqdyIVaRTaVpA'
    """
    return spelling.translate(BASE64URL_TABLE)


@dataclass(frozen=True, slots=True)
class OtherLog:
    """The log that the positions of a stream are of, and the other one that was given."""

    known: str
    given: str

    @property
    def sentence(self) -> str:
        """What differs.

        >>> OtherLog("a", "b").sentence
        'its positions are of log a, and this is log b'
        """
        return f"its positions are of log {self.known}, and this is log {self.given}"
