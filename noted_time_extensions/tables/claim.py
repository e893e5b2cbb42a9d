"""Claims in the commits of a table: "complete to T", vouched for by writers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, to_builtins

from noted_time.extending import (
    DAY_MS,
    INGESTION_NAME,
    MAX_INT64,
    MIN_INT64,
    NAME_PATTERN,
    Int64,
    Rejected,
    convert_from_json,
    pluralize,
)

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

NOT_A_RECORD = "{} holds no claim: {!r}"

VOUCHED_FIELDS = ("count", "expected", "expected_vouching")


class ClaimSource(NamedTuple):
    """A stream that a query reads, and its domain, `None` if this is not known.

    The query has all rows of this domain below its claim plus `lag_ms`. It has the marks up to the
    first one whose lower reaches `at_most`, which is `None` if this is not known.
    """

    stream: str
    domain: str | None
    lag_ms: int = 0
    at_most: int | None = None


class Parent(Struct, frozen=True):
    """A source of a table that a batch job wrote, and the claim that the table inherits from it.

    - `table`: the URL of the source, and `id` its own id.
    - `version`: the version or snapshot pinned before the job.
    - `names`: its claims, whose least time is `complete_to` (Unix ms, exclusive).
    - `records`, `vouched`: the ids of their records and their counts of writers, in this order.
    """

    table: str
    id: str
    version: Int64
    names: tuple[str, ...]
    complete_to: Int64
    records: tuple[str, ...]
    vouched: tuple[Mapping[str, Int64], ...] = ()


class Claim(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
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
    - `from_time`: rows below this time (Unix ms) may be missing, because the query began after
      them. `None` if it is not known. If `is_from_time_stated`, the user has stated it.
    - `first_lower`: the lower of the stream's first mark, less `lag_ms`, later by the delay of the
      jobs that inherited it. Below it, no writer vouches. `None` if it is not known of a stream,
      and the least integer after a final mark.
    - `keeps_late_rows`: whether rows that come late to the query are in the table, too. `None` if
      it is not known.
    - `max_time_ahead_ms`: how far the stream lets `complete_to` be ahead of the commit. `None` if
      this is not known, or if the stream is sealed or accepts any time.
    - `inherits`: the sources, if a batch job wrote the table. `after` is the version that it wrote.
      `at_most` then has a time for each of `sources`, or none if one is not known.

    >>> Claim.from_json("flights", Claim("flights", 50, "departure", "q", 7).to_json())
    Claim(name='flights', complete_to=50, time_of='departure', query='q', batch=7)
    """

    name: str
    complete_to: Int64 | None
    time_of: str = ""
    query: str = ""
    batch: Int64 = -1
    part: str = ""
    id: str = ""
    table: str = ""
    plan: str = ""
    after: Int64 | None = None
    after_id: str = ""
    ended: str = ""
    names: Annotated[Mapping[str, Int64 | None], Meta(max_length=NAMES_KEPT)] = {}
    seen: Int64 | None = None
    stream: str = ""
    domain: str | None = None
    lag_ms: Annotated[int, Meta(ge=0, le=MAX_INT64)] = 0
    cut: Annotated[Mapping[str, Int64], Meta(max_length=SEGMENTS_KEPT)] = {}
    missing_writers: tuple[str, ...] | None = None
    vouched: Mapping[str, Int64] = {}
    first_lower: Int64 | None = None
    from_time: Int64 | None = None
    is_from_time_stated: bool = False
    max_time_ahead_ms: Int64 | None = None
    keeps_late_rows: bool | None = None
    starts: bool = False
    merges: bool = False
    continues: bool = False
    accepted: str = ""
    inherits: Annotated[tuple[Parent, ...], Meta(max_length=PARENTS_KEPT)] = ()
    at_most: tuple[Int64, ...] = ()
    unreadable: str = ""

    @property
    def key(self) -> str:
        return f"{KEY_PREFIX}{self.name}"

    @property
    def sources(self) -> tuple[ClaimSource, ...]:
        """The streams of the query, and how far a job's table has their marks.

        >>> Claim("web", 50, stream="orders,stock", domain="ship,default").sources[0]
        ClaimSource(stream='orders', domain='ship', lag_ms=0, at_most=None)
        >>> Claim("web", 50, stream="orders", at_most=(60,)).sources
        (ClaimSource(stream='orders', domain=None, lag_ms=0, at_most=60),)
        """
        if not self.stream:
            return ()
        streams = self.stream.split(",")
        domains = (self.domain or "").split(",")
        if len(domains) != len(streams):
            domains = [""] * len(streams)
        times: Sequence[int | None] = self.at_most
        if len(times) != len(streams):
            times = [None] * len(streams)
        sources = []
        for stream, domain, at_most in zip(streams, domains, times, strict=True):
            lag_ms = 0
            if domain == INGESTION_NAME:
                lag_ms = self.lag_ms
            sources.append(ClaimSource(stream, domain or None, lag_ms, at_most))
        return tuple(sources)

    @property
    def vouched_by(self) -> str:
        if not self.vouched:
            return ""
        expected = self.vouched["expected"]
        if expected:
            return f", by {self.vouched['expected_vouching']:,} of {expected:,} expected writers"
        return f", by {pluralize(self.vouched['count'], 'writer')}, none expected"

    @property
    def all_counts(self) -> tuple[Mapping[str, int], ...]:
        """The counts of writers of this and the inherited claims, empty if not known."""
        counts = [self.vouched]
        for parent in self.inherits:
            counts += parent.vouched
        return tuple(counts)

    def to_json(self) -> str:
        record = to_builtins(self)
        del record["name"]
        record |= {"batch": [record.pop("query", ""), self.batch], "id": self.id}
        if len(self.cut) > SEGMENTS_KEPT:
            del record["cut"]
        return json.dumps(record, separators=(",", ":"))  # with lone surrogates, too

    @classmethod
    def from_json(cls, name: str, text: str) -> Claim:
        try:
            record: Any = json.loads(text) if len(text) <= LARGEST_RECORD else None
            query, batch = record["batch"]
            identity = {"name": name, "query": query, "batch": batch, "id": record["id"]}
            fields = {**record, **identity, "unreadable": ""}
            claim: Claim = convert_from_json(fields, cls, str_keys=False)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise Rejected(NOT_A_RECORD.format(f"{KEY_PREFIX}{name}", text[:200])) from error
        for counts in claim.all_counts:
            if counts and counts.keys() != {*VOUCHED_FIELDS}:
                raise Rejected(NOT_A_RECORD.format(claim.key, text[:200]))
        return claim


def shift_bound(bound: int, by_ms: int) -> int:
    """Return a bound of a claim (Unix ms), moved. The least integer, which bounds nothing, stays.

    >>> shift_bound(1000, 60), shift_bound(1000, -60), shift_bound(MIN_INT64, 60) == MIN_INT64
    (1060, 940, True)
    """
    if bound == MIN_INT64:
        return bound
    return max(MIN_INT64, min(bound + by_ms, MAX_INT64))


def find_greatest(times: Iterable[int | None]) -> int | None:
    """Return the greatest time, `None` if one is not known, or without times.

    >>> find_greatest([1, 2]), find_greatest([1, None]), find_greatest([])
    (2, None, None)
    """
    return max(_list_known(times), default=None)


def find_least(times: Iterable[int | None]) -> int | None:
    """Return the least time, `None` if one is not known, or without times."""
    return min(_list_known(times), default=None)


def _list_known(times: Iterable[int | None]) -> list[int]:
    """Return the times, or `[]` if one is not known."""
    known_times = []
    for time in times:
        if time is None:
            return []
        known_times.append(time)
    return known_times


def join_sources(sources: Iterable[ClaimSource]) -> dict[str, Any]:
    """Return the fields of a claim that `Claim.sources` reads.

    >>> join_sources([ClaimSource("stock", "default"), ClaimSource("orders", "ship")])
    {'stream': 'orders,stock', 'domain': 'ship,default', 'lag_ms': 0, 'at_most': ()}
    >>> join_sources([ClaimSource("stock", None), ClaimSource("orders", "ship")])["domain"] is None
    True
    """
    streams: list[str] = []
    domains: list[str] = []
    times: list[int] = []
    lag_ms = 0
    for source in merge_sources(sources):
        streams.append(source.stream)
        if source.domain:
            domains.append(source.domain)
        if source.at_most is not None:
            times.append(source.at_most)
        lag_ms = max(lag_ms, source.lag_ms)
    are_domains_known = bool(streams) and len(domains) == len(streams)
    return {
        "stream": ",".join(streams),
        "domain": ",".join(domains) if are_domains_known else None,
        "lag_ms": lag_ms,
        "at_most": tuple(times) if len(times) == len(streams) else (),
    }


def merge_sources(sources: Iterable[ClaimSource]) -> list[ClaimSource]:
    """Return each domain of a stream once, with the marks that all its readers have.

    >>> web = ClaimSource("web", "ship", at_most=9)
    >>> merge_sources([web, web._replace(at_most=7), web._replace(stream="till", at_most=None)])
    ... # doctest: +NORMALIZE_WHITESPACE
    [ClaimSource(stream='till', domain='ship', lag_ms=0, at_most=None),
     ClaimSource(stream='web', domain='ship', lag_ms=0, at_most=7)]
    """
    sources_by_place: dict[tuple[str, str], ClaimSource] = {}
    for source in sources:
        place = source.stream, source.domain or ""
        before = sources_by_place.setdefault(place, source)
        at_most = find_least([before.at_most, source.at_most])
        lag_ms = max(before.lag_ms, source.lag_ms)
        sources_by_place[place] = source._replace(lag_ms=lag_ms, at_most=at_most)
    return [sources_by_place[place] for place in sorted(sources_by_place)]


def parse_claims(metadata: Mapping[str, Any]) -> dict[str, Claim]:
    """Return the records in the metadata of a commit, by name.

    >>> text = '{"complete_to": 50, "batch": ["q", 7], "id": "a1"}'
    >>> parse_claims({"noted-time.flights": text, "owner": "me"})
    {'flights': Claim(name='flights', complete_to=50, ...)}
    """
    claims = {}
    for key, text in metadata.items():
        if is_key(key):
            name = key.removeprefix(KEY_PREFIX)
            claims[name] = _read(name, text)
    return claims


def is_key(key: object) -> bool:
    if not isinstance(key, str) or not key.startswith(KEY_PREFIX):
        return False
    name = key.removeprefix(KEY_PREFIX)
    return name not in RESERVED_NAMES and NAME_PATTERN.fullmatch(name) is not None


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
    >>> read_retention_days({"history.expire.max-snapshot-age-ms": "172800000"})
    2.0
    """
    age_ms = properties.get("history.expire.max-snapshot-age-ms", "")
    if age_ms.isdecimal():
        return int(age_ms) / DAY_MS
    interval = re.search(r"(\d+) (week|day|hour)", properties.get("delta.logRetentionDuration", ""))
    if interval is None:
        return None
    return int(interval[1]) * {"week": 7, "day": 1, "hour": 1 / 24}[interval[2]]
