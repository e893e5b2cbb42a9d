"""What a commit of a table says of its rows: "complete to T", by the writers' word."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any

from noted_time.values.errors import Rejected

PREFIX = "noted-time."
"""What the keys of claims begin with, in the metadata of a commit; the name follows."""

EXPECTS = f"{PREFIX}expects"
"""The table property that lists the names a table expects, separated by commas."""

VALID_THROUGH = "kafka.connect.valid-through-ts"
"""The key under which Iceberg's own sink for Kafka Connect claims a time (Unix ms)."""

COMMITS = ("after", "seen")

NAMES_KEPT = 100
SEGMENTS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Claim:
    """One commit's record of the query `name`: its micro-batch, and what is complete after it.

    `complete_to` (Unix ms): every row that the query gives with a time below it, by the column
    `time_of`, is in this commit or one before, except rows that are late by contract. `None` if
    nothing is claimed: `ended` says why not, and is empty if the query has no watermark yet, or if
    another `part` of the same batch follows. `query` and `batch` are Spark's ids.

    `after` is the commit of the name's record before this one, as the committer knew it. `names`
    are the other names of the table with their times at the commit `seen`, the last one then. `cut`
    is how far the query had read of `stream` and `domain`, and `missing` names writers that the
    watermark went on without, `None` if nobody was asked. `late` rows of this batch were below the
    claim before it, from the time `least` on.

    `starts`: the first record of a query that took the name over. `merges`: the commit changes rows
    rather than appending them, in the name of this batch. `accepted` is the comment of the operator
    who vouched for what others had changed.

    >>> Claim.from_json("flights", Claim("flights", 50, "departure", "q", 7).to_json())
    Claim(name='flights', complete_to=50, time_of='departure', query='q', batch=7, ...)
    """

    name: str
    complete_to: int | None
    time_of: str = ""
    query: str = ""
    batch: int = -1
    part: str = ""
    after: int | None = None
    ended: str = ""
    names: Mapping[str, int] = field(default_factory=dict, repr=False)
    seen: int | None = field(default=None, repr=False)
    stream: str = field(default="", repr=False)
    domain: str = field(default="", repr=False)
    cut: Mapping[str, int] = field(default_factory=dict, repr=False)
    missing: tuple[str, ...] | None = field(default=None, repr=False)
    late: int = field(default=0, repr=False)
    least: int | None = field(default=None, repr=False)
    starts: bool = field(default=False, repr=False)
    merges: bool = field(default=False, repr=False)
    accepted: str = field(default="", repr=False)

    @property
    def key(self) -> str:
        """The key of the record in the metadata of a commit."""
        return f"{PREFIX}{self.name}"

    def to_json(self) -> str:
        """Return the record as the commit has it."""
        known = {
            "time_of": self.time_of,
            "part": self.part,
            "after": self.after,
            "ended": self.ended,
            "names": dict(sorted(self.names.items())[:NAMES_KEPT]),
            "seen": self.seen,
            "stream": self.stream,
            "domain": self.domain,
            "cut": self.cut if len(self.cut) <= SEGMENTS_KEPT else {},
            "missing": self.missing,
            "late": {"rows": self.late, "least": self.least} if self.late else {},
            "starts": self.starts,
            "merges": self.merges,
            "accepted": self.accepted,
        }
        given = {
            key: value for key, value in known.items() if value or (value == 0 and key in COMMITS)
        }
        if self.missing is not None:
            given["missing"] = self.missing
        record = {"complete_to": self.complete_to, "batch": [self.query, self.batch]}
        return json.dumps({**record, **given}, separators=(",", ":"))

    @classmethod
    def from_json(cls, name: str, text: str) -> Claim:
        """Return the record of a name; raises `Rejected` if it is not one."""
        try:
            found: dict[str, Any] = json.loads(text)
            query, batch = found.pop("batch", ("", -1))
            late = found.pop("late", {})
            if found["complete_to"] is not None:
                found["complete_to"] = index(found["complete_to"])
            if found.get("missing") is not None:
                found["missing"] = tuple(found["missing"])
            given = {key: value for key, value in found.items() if key in KEYS}
            late = {"late": late.get("rows", 0), "least": late.get("least")}
            return cls(name, query=str(query), batch=index(batch), **given, **late)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Rejected(f"{PREFIX}{name} holds no claim: {text[:200]!r}") from error


KEYS = frozenset(Claim.__dataclass_fields__) - {"name", "query", "batch", "late", "least"}


def claims_in(metadata: Mapping[str, Any]) -> dict[str, Claim]:
    """Return the records in the metadata of a commit, by name.

    A record that cannot be read claims nothing, and says so.

    >>> claims_in({"noted-time.flights": '{"complete_to": 50}', "owner": "me"})
    {'flights': Claim(name='flights', complete_to=50, ...)}
    """
    return {
        key.removeprefix(PREFIX): _read(key.removeprefix(PREFIX), text)
        for key, text in metadata.items()
        if key.startswith(PREFIX) and key != EXPECTS
    }


def _read(name: str, text: object) -> Claim:
    try:
        return Claim.from_json(name, text if isinstance(text, str) else json.dumps(text))
    except Rejected as error:
        return Claim(name, None, ended=str(error))


def expected(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that a table expects by its properties, none if it does not say.

    >>> expected({"noted-time.expects": "flights, bookings"})
    ('bookings', 'flights')
    """
    names = {name.strip() for name in properties.get(EXPECTS, "").split(",")}
    return tuple(sorted(names - {""}))
