"""Claims in the commits of a table: "complete to T", vouched for by writers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, NamedTuple

from noted_time.values.errors import Rejected
from noted_time.values.settings import INGESTION_NAME, NAME_PATTERN
from noted_time.values.times import DAY_MS, MAX_INT64, MIN_INT64, pluralize

KEY_PREFIX = "noted-time."

EXPECTS_PROPERTY = f"{KEY_PREFIX}expects"
"""Names, separated by commas."""

RESERVED_NAMES = ("expects", "accept")

VALID_THROUGH = "kafka.connect.valid-through-ts"
"""The key of the time (Unix ms) that Iceberg's sink for Kafka Connect claims."""

NAMES_KEPT = 100
PARENTS_KEPT = 100
SEGMENTS_KEPT = 1000

LARGEST_RECORD = 1 << 20


class ClaimSource(NamedTuple):
    """A stream that a query reads, and its domain, `None` if this is not known.

    The query has all rows of this domain below its claim plus `lag_ms`.
    """

    stream: str
    domain: str | None
    lag_ms: int = 0


@dataclass(frozen=True, slots=True)
class Parent:
    """A source of a table that a batch job wrote, and the claim that the table inherits from it.

    - `table`: the URL of the source, and `id` its own id.
    - `version`: the version or snapshot pinned before the job.
    - `names`: its claims, whose least time is `complete_to` (Unix ms, exclusive).
    - `records`, `vouched`: the ids of their records and their counts of writers, in this order.
    """

    table: str
    id: str
    version: int
    names: tuple[str, ...]
    complete_to: int
    records: tuple[str, ...]
    vouched: tuple[Mapping[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """The record of one commit of the query `name`: its micro-batch, and up to when it is complete.

    Every row of the query with a time below `complete_to` is in this or an earlier commit, except
    rows that are late by contract.

    - `complete_to`: Unix ms in the column `time_of`, or `None` if the commit claims nothing.
    - `plan`: the input of the batch. The same batch with another plan has other rows.
    - `after`: the commit with the previous record of the name, as far as the committer knew.
    - `ended`: why nothing is claimed. Empty before the first watermark, or if the batch continues.
    - `continues`: whether another part of the batch follows.
    - `stream`, `domain`: what the query reads, see `sources`. `domain` is `None` if an offset of
      the query does not state it.
    - `lag_ms`: how far `complete_to` is below the ingestion marks of the query, if it reads any.
    - `since`: rows below this time (Unix ms) may be missing, because the query began after them.
      `None` if it is not known. If `is_since_stated`, the user has stated it.
    - `first_lower`: the lower of the stream's first mark, less `lag_ms`. Below it, no writer
      vouches. `None` if it is not known, and the least integer after a final mark.
    - `max_time_ahead_ms`: how far the stream lets `complete_to` be ahead of the commit. `None` if
      this is not known, or if the stream is sealed or accepts any time.
    - `inherits`: the sources, if a batch job wrote the table. `after` is the version that it wrote.

    >>> Claim.from_json("flights", Claim("flights", 50, "departure", "q", 7).to_json())
    Claim(name='flights', complete_to=50, time_of='departure', query='q', batch=7, ...)
    """

    name: str
    complete_to: int | None
    time_of: str = ""
    query: str = ""
    batch: int = -1
    part: str = ""
    id: str = ""
    table: str = ""
    plan: str = field(default="", repr=False)
    after: int | None = None
    after_id: str = field(default="", repr=False)
    ended: str = ""
    names: Mapping[str, int | None] = field(default_factory=dict, repr=False)
    seen: int | None = field(default=None, repr=False)
    stream: str = field(default="", repr=False)
    domain: str | None = field(default=None, repr=False)
    lag_ms: int = field(default=0, repr=False)
    cut: Mapping[str, int] = field(default_factory=dict, repr=False)
    missing: tuple[str, ...] | None = field(default=None, repr=False)
    vouched: Mapping[str, int] = field(default_factory=dict, repr=False)
    first_lower: int | None = field(default=None, repr=False)
    since: int | None = field(default=None, repr=False)
    is_since_stated: bool = field(default=False, repr=False)
    max_time_ahead_ms: int | None = field(default=None, repr=False)
    starts: bool = field(default=False, repr=False)
    merges: bool = field(default=False, repr=False)
    continues: bool = field(default=False, repr=False)
    accepted: str = field(default="", repr=False)
    inherits: tuple[Parent, ...] = field(default=(), repr=False)
    unreadable: str = field(default="", repr=False)

    @property
    def key(self) -> str:
        return f"{KEY_PREFIX}{self.name}"

    @property
    def sources(self) -> tuple[ClaimSource, ...]:
        """The streams of the query.

        >>> Claim("web", 50, stream="orders,stock", domain="ship,default").sources[0]
        ClaimSource(stream='orders', domain='ship', lag_ms=0)
        >>> Claim("web", 50, stream="orders").sources
        (ClaimSource(stream='orders', domain=None, lag_ms=0),)
        """
        streams = self.stream.split(",") if self.stream else []
        domains = (self.domain or "").split(",")
        known = domains if len(domains) == len(streams) else [""] * len(streams)
        return tuple(
            ClaimSource(stream, domain or None, self.lag_ms * (domain == INGESTION_NAME))
            for stream, domain in zip(streams, known, strict=True)
        )

    @property
    def has_unknown_domain(self) -> bool:
        return any(each.domain is None for each in self.sources)

    @property
    def vouched_by(self) -> str:
        if not self.vouched:
            return ""
        if self.vouched["expected"]:
            of = f"{self.vouched['expected_vouching']:,} of {self.vouched['expected']:,}"
            return f", by {of} expected writers"
        return f", by {pluralize(self.vouched['count'], 'writer')}, none expected"

    def to_json(self) -> str:
        fields = asdict(self)
        batch = [self.query, self.batch]
        record = {"complete_to": self.complete_to, "batch": batch, "id": self.id}
        fields["cut"] = self.cut if len(self.cut) <= SEGMENTS_KEPT else {}
        values = {key: fields[key] for key in RECORD_FIELDS if fields[key] != RECORD_DEFAULTS[key]}
        return json.dumps({**record, **values}, separators=(",", ":"))

    @classmethod
    def from_json(cls, name: str, text: str) -> Claim:
        try:
            record: Any = json.loads(text) if len(text) <= LARGEST_RECORD else None
            query, batch = record["batch"]
            values = {key: record[key] for key in RECORD_FIELDS if key in record}
            complete_to, values["id"] = record["complete_to"], record["id"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise Rejected(f"{KEY_PREFIX}{name} holds no claim: {text[:200]!r}") from error
        is_record = _is_time(complete_to) and _is_text(query) and _is_int(batch)
        if not (is_record and all(RECORD_FIELDS[key](value) for key, value in values.items())):
            raise Rejected(f"{KEY_PREFIX}{name} holds no claim: {text[:200]!r}")
        if values.get("missing") is not None:
            values["missing"] = tuple(values["missing"])
        values["inherits"] = tuple(map(_parse_parent, values.get("inherits", ())))
        return cls(name, complete_to, query=query, batch=batch, **values)


def _is_int(value: object) -> bool:
    return type(value) is int and MIN_INT64 <= value <= MAX_INT64


def _is_time(value: object) -> bool:
    return value is None or _is_int(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_map(value: object, most: int, is_one: Callable[[object], bool]) -> bool:
    return isinstance(value, dict) and len(value) <= most and all(map(is_one, value.values()))


def _is_names(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(map(_is_text, value)))


def _is_vouched(value: object) -> bool:
    has_fields = isinstance(value, dict) and value.keys() == {*VOUCHED_FIELDS}
    return has_fields and _is_map(value, len(VOUCHED_FIELDS), _is_int)


def _is_parents(value: object) -> bool:
    return isinstance(value, list) and len(value) <= PARENTS_KEPT and all(map(_is_parent, value))


def _is_parent(value: object) -> bool:
    if not isinstance(value, dict) or not {*PARENT_FIELDS} - {"vouched"} <= value.keys():
        return False
    return all(is_one(value[key]) for key, is_one in PARENT_FIELDS.items() if key in value)


def _parse_parent(record: Mapping[str, Any]) -> Parent:
    values = {key: record[key] for key in PARENT_FIELDS if key in record}
    lists = {key: tuple(each) for key, each in values.items() if isinstance(each, list)}
    return Parent(**{**values, **lists})


VOUCHED_FIELDS = ("count", "expected", "expected_vouching")

PARENT_FIELDS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("table", "id"), _is_text),
    "version": _is_int,
    "names": lambda value: value is not None and _is_names(value),
    "complete_to": _is_int,
    "records": lambda value: value is not None and _is_names(value),
    "vouched": lambda value: (
        isinstance(value, list) and all(v == {} or _is_vouched(v) for v in value)
    ),
}

RECORD_FIELDS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("time_of", "part", "id", "table", "plan"), _is_text),
    "after": _is_time,
    **dict.fromkeys(("after_id", "ended"), _is_text),
    "names": lambda value: _is_map(value, NAMES_KEPT, _is_time),
    "seen": _is_time,
    "stream": _is_text,
    "domain": lambda value: value is None or _is_text(value),
    "lag_ms": lambda value: type(value) is int and 0 <= value <= MAX_INT64,
    "cut": lambda value: _is_map(value, SEGMENTS_KEPT, _is_int),
    "missing": _is_names,
    "vouched": lambda value: value == {} or _is_vouched(value),
    **dict.fromkeys(("first_lower", "since", "max_time_ahead_ms"), _is_time),
    **dict.fromkeys(
        ("is_since_stated", "starts", "merges", "continues"), lambda value: isinstance(value, bool)
    ),
    "accepted": _is_text,
    "inherits": _is_parents,
}

RECORD_DEFAULTS: Mapping[str, Any] = {
    each.name: each.default if each.default is not MISSING else {} for each in fields(Claim)
}


def shift_bound(bound: int, by_ms: int) -> int:
    """Return a bound of a claim (Unix ms), moved. The least integer, which bounds nothing, stays.

    >>> shift_bound(1000, 60), shift_bound(1000, -60), shift_bound(MIN_INT64, 60) == MIN_INT64
    (1060, 940, True)
    """
    return bound if bound == MIN_INT64 else max(MIN_INT64, min(bound + by_ms, MAX_INT64))


def join_sources(sources: Iterable[ClaimSource]) -> dict[str, Any]:
    """Return the fields of a claim that `Claim.sources` reads.

    >>> join_sources([ClaimSource("stock", "default"), ClaimSource("orders", "ship")])
    {'stream': 'orders,stock', 'domain': 'ship,default', 'lag_ms': 0}
    >>> join_sources([ClaimSource("stock", None), ClaimSource("orders", "ship")])["domain"] is None
    True
    """
    known = list(sources)
    pairs = sorted({(each.stream, each.domain or "") for each in known})
    domains = [domain for _, domain in pairs]
    return {
        "stream": ",".join(stream for stream, _ in pairs),
        "domain": ",".join(domains) if domains and all(domains) else None,
        "lag_ms": max((each.lag_ms for each in known), default=0),
    }


def parse_claims(metadata: Mapping[str, Any]) -> dict[str, Claim]:
    """Return the records in the metadata of a commit, by name.

    >>> text = '{"complete_to": 50, "batch": ["q", 7], "id": "a1"}'
    >>> parse_claims({"noted-time.flights": text, "owner": "me"})
    {'flights': Claim(name='flights', complete_to=50, ...)}
    """
    texts = {
        str(key).removeprefix(KEY_PREFIX): text for key, text in metadata.items() if is_key(key)
    }
    return {name: _read(name, text) for name, text in texts.items()}


def is_key(key: object) -> bool:
    name = key.removeprefix(KEY_PREFIX) if isinstance(key, str) else ""
    return name != key and name not in RESERVED_NAMES and NAME_PATTERN.fullmatch(name) is not None


def _read(name: str, text: object) -> Claim:
    try:
        return Claim.from_json(name, text if isinstance(text, str) else json.dumps(text))
    except (Rejected, RecursionError) as error:
        return Claim(name, None, unreadable=str(error))


def list_expected_names(properties: Mapping[str, str]) -> tuple[str, ...]:
    names = {name.strip() for name in properties.get(EXPECTS_PROPERTY, "").split(",")}
    return tuple(sorted(names - {""}))


def read_retention_days(properties: Mapping[str, str]) -> float | None:
    """Return how many days a table keeps its commits, if known.

    >>> read_retention_days({"delta.logRetentionDuration": "interval 12 hours"})
    0.5
    """
    age_ms = properties.get("history.expire.max-snapshot-age-ms", "")
    if age_ms.isdecimal():
        return int(age_ms) / DAY_MS
    interval = re.search(r"(\d+) (week|day|hour)", properties.get("delta.logRetentionDuration", ""))
    if interval is None:
        return None
    return int(interval[1]) * {"week": 7, "day": 1, "hour": 1 / 24}[interval[2]]
