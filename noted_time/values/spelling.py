"""Names, lines and ids in JSON, and ids of logs, which distinguish logs with the same name."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noted_time.values.fencing import SESSION_LENGTH

# Readers of OpenAPI need a pattern without lookahead. msgspec's own patterns are slow, and admit a
# newline at the end, so requests are checked after they are decoded.
NAME_SCHEMA = (
    r"^([A-Za-z0-9_-][A-Za-z0-9._-]{0,248}"
    r"|\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,247}"
    r"|\.\.[A-Za-z0-9._-]{1,247})$"
)
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=249,
        description="1 to 249 of A-Z a-z 0-9 . _ -, neither . nor ..",
        extra_json_schema={"pattern": NAME_SCHEMA},
    ),
]
INVISIBLE = r"\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2060-\u206f\u3164\ufeff\uffa0"
LINE_SCHEMA = rf"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e{INVISIBLE}]*$"
Line = Annotated[str, Meta(extra_json_schema={"pattern": LINE_SCHEMA})]

# of a session or of a log; a Kafka topic's id is base64url
ID_SCHEMA = rf"^[A-Za-z0-9._-]{{1,{SESSION_LENGTH}}}$"
Id = Annotated[
    str, Meta(min_length=1, max_length=SESSION_LENGTH, extra_json_schema={"pattern": ID_SCHEMA})
]

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
