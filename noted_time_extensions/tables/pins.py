"""Decides which claim a table inherits from the sources of the batch job that wrote it.

The job may have read a source at any version after its pin. So the claim of the pinned version is
inherited only if no later commit may have changed its rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

from msgspec import Struct

from noted_time.extending import MIN_INT64, Rejected, Unreadable
from noted_time_extensions.tables.claim import (
    VOUCHED_FIELDS,
    Claim,
    ClaimSource,
    Parent,
    find_greatest,
    join_sources,
    shift_bound,
)
from noted_time_extensions.tables.committing import find_last_record, list_other_names
from noted_time_extensions.tables.table_history import (
    HISTORY_GAP,
    ClaimStatus,
    NoClaim,
    TableClaim,
    TableHistory,
    find_whether_all_keep,
)

INHERITED_QUERY = "inherit"
"""The `query` of inherited records."""

PIN_FORM = "SOURCE@VERSION, as `claim pin` printed it before the job"
_PIN = re.compile(r"(.+)@(\d{1,19})(?:-([0-9a-f]{16}))?")

NO_VERSION = (
    "version {} is not in the history of {}: the table was restored or created again, or its "
    "history has expired"
)
OTHER_COMMIT = "version {} of {} is not the pinned one: the table was rolled back or restored"
NO_CLAIM = (
    "{} has no claim at version {}: {}. If its rows do not affect completeness, pass it as static"
)
CHANGED_MEANWHILE = "{} was changed after version {}, and the job may have read the change: {}"
PIN_AGAIN = "{}. Pin the sources and run the job again"
OF_A_QUERY = "{!r} is the name of a query's claim in {}: choose another name"
WRITTEN_SINCE = "{} was changed after version {}, which the job wrote: {}. Run the job again"


class Pin(Struct, frozen=True):
    """A version of a table, as it was before a job.

    A rollback makes an old snapshot of Iceberg current again, and a restore from a backup numbers
    versions of Delta again. So `fingerprint` is a hash of the table's id, of the last record up to
    the version, and of when the snapshot became current.

    >>> Pin.parse("delta:/data/orders@5-00112233aabbccdd")
    Pin(table='delta:/data/orders', version=5, fingerprint='00112233aabbccdd')
    """

    table: str
    version: int
    fingerprint: str = ""

    @classmethod
    def parse(cls, text: str) -> Pin:
        match = _PIN.fullmatch(text)
        if match is None:
            raise Unreadable(
                f"{text!r} does not name the version that the job read: write {PIN_FORM}"
            )
        return cls(match[1], int(match[2]), match[3] or "")

    @classmethod
    def of(cls, table: str, history: TableHistory) -> Pin:
        """Return the pin of the last commit in `history`. Raises `Rejected` if it is empty."""
        if history.version is None:
            raise Rejected(f"{table} has no commits yet, so there is nothing to pin")
        return cls(table, history.version, _compute_fingerprint(history))

    def __str__(self) -> str:
        if not self.fingerprint:
            return f"{self.table}@{self.version}"
        return f"{self.table}@{self.version}-{self.fingerprint}"


def _compute_fingerprint(history: TableHistory) -> str:
    current_since = 0
    if not history.is_numbered:
        current_since = history.commits[-1].current_since
    text = json.dumps([history.table, find_last_record(history), current_since])
    return sha256(text.encode()).hexdigest()[:16]


def judge_source(pin: Pin, history: TableHistory) -> TableClaim:
    """Return the claim that a job may inherit from a source, or raise `Rejected`."""
    pinned_history = history.cut_at(pin.version)
    if pinned_history is None:
        raise Rejected(PIN_AGAIN.format(NO_VERSION.format(pin.version, pin.table)))
    if pin.fingerprint not in {"", _compute_fingerprint(pinned_history)}:
        raise Rejected(PIN_AGAIN.format(OTHER_COMMIT.format(pin.version, pin.table)))
    claim = pinned_history.claim()
    if isinstance(claim, NoClaim):
        raise Rejected(NO_CLAIM.format(pin.table, pin.version, claim.why))
    if why := _find_change(history, pin.version, claim.claims.keys()):
        raise Rejected(PIN_AGAIN.format(CHANGED_MEANWHILE.format(pin.table, pin.version, why)))
    return claim


def _find_change(history: TableHistory, version: int, merging: Collection[str] = ()) -> str:
    """Return why rows may have changed after a version, or `""`.

    A marked MERGE of all queries in `merging` changes no row that their claims are about.
    """
    ids = [commit.id for commit in history.commits]
    for before, commit in pairwise(history.commits[ids.index(version) :]):
        if commit.parent != before.id:
            return HISTORY_GAP.format(commit.id)
        merged_names = {name for name, claim in history.records(commit).items() if claim.merges}
        if commit.change == "other" and not (merging and merged_names.issuperset(merging)):
            return commit.description
    return ""


def build_inheritance(  # noqa: PLR0913 - the options of the command
    table: str,
    history: TableHistory,
    name: str,
    time_of: str,
    sources: Mapping[Pin, TableHistory],
    *,
    delay_ms: int = 0,
    at: int | None = None,
) -> Claim:
    """Return the record of `inherit`, with an id if the table has it already.

    Raises `Rejected` for the first of: the name of a query, a table that has changed after the job,
    a source whose claim cannot be inherited.
    """
    statuses = history.statuses()
    before = statuses.get(name, ClaimStatus())
    if before.claim is not None and before.claim.query != INHERITED_QUERY:
        raise Rejected(OF_A_QUERY.format(name, table))
    if at is None:
        at = find_written_version(history)
    written_history = None
    if at is not None:
        written_history = history.cut_at(at)
    if at is None or written_history is None:
        raise Rejected(f"version {at} does not lead to the present state of {table}")
    if why := _find_change(history, at):
        raise Rejected(WRITTEN_SINCE.format(table, at, why))
    claims = {pin: judge_source(pin, sources[pin]) for pin in sorted(sources, key=str)}
    pin_texts = [str(pin) for pin in claims]
    batch = _compute_batch([*pin_texts, delay_ms, time_of, at])
    if before.claim is not None and before.complete_to is not None and before.claim.batch == batch:
        return before.claim
    least_time = min(claim.complete_to for claim in claims.values())
    return Claim(
        name,
        max(least_time - delay_ms, MIN_INT64 + 1),
        time_of,
        INHERITED_QUERY,
        batch,
        table=history.table,
        after=at,
        after_id=find_last_record(written_history),
        names=list_other_names(statuses, name),
        seen=history.version,
        inherits=tuple(_describe(pin, sources[pin].table, claim) for pin, claim in claims.items()),
        **_combine_writers([*claims.values()], delay_ms),
    )


def find_written_version(history: TableHistory) -> int | None:
    """Return the last commit that is not the record of a job, which has no rows."""
    for commit in reversed(history.commits):
        if not any(record.inherits for record in commit.claims.values()):
            return commit.id
    return None


def _compute_batch(content: Sequence[object]) -> int:
    return int(sha256(json.dumps(content).encode()).hexdigest()[:15], 16)


def _describe(pin: Pin, table_id: str, table_claim: TableClaim) -> Parent:
    names = tuple(sorted(table_claim.claims))
    return Parent(
        pin.table,
        table_id,
        pin.version,
        names,
        table_claim.complete_to,
        tuple(table_claim.claims[name].id for name in names),
        tuple(table_claim.claims[name].vouched for name in names),
    )


def _combine_writers(table_claims: Sequence[TableClaim], delay_ms: int) -> dict[str, Any]:
    """Return the fields of a record that say who vouches for a job's table, from its sources.

    A field is not known if it is not known of one source: then it is `None`, and the streams,
    cuts and counts are empty. Times are later by the job's delay.
    """
    claims: list[Claim] = []
    for table_claim in table_claims:
        claims += table_claim.claims.values()
    sources: list[ClaimSource] = []
    counts: Mapping[str, int] = {}
    if all(claim.stream for claim in claims):
        counts = _combine_vouched(claims)
        for table_claim in table_claims:
            sources += table_claim.list_sources()
    from_time = find_greatest(table_claim.from_time for table_claim in table_claims)
    if from_time is not None:
        from_time = shift_bound(from_time, delay_ms)
    first_lower = find_greatest(table_claim.first_lower for table_claim in table_claims)
    if first_lower is not None:
        first_lower = shift_bound(first_lower, delay_ms)
    return {
        **join_sources(sources),
        "missing_writers": _join_missing_writers(table_claims),
        "vouched": counts,
        "from_time": from_time,
        "first_lower": first_lower,
        "is_from_time_stated": any(claim.is_from_time_stated for claim in claims),
        "max_time_ahead_ms": find_greatest(claim.max_time_ahead_ms for claim in claims),
        "keeps_late_rows": find_whether_all_keep(claims),
    }


def _join_missing_writers(table_claims: Sequence[TableClaim]) -> tuple[str, ...] | None:
    """Return the writers that are missing from a claim, `None` if one has not asked for them."""
    names: set[str] = set()
    for table_claim in table_claims:
        if table_claim.missing_writers is None:
            return None
        names.update(table_claim.missing_writers)
    return tuple(sorted(names))


def _combine_vouched(claims: Sequence[Claim]) -> Mapping[str, int]:
    """Add the counts of all streams, or return `{}` if a writer may be counted twice.

    An open stream among them makes the expected writers of all unknown.

    >>> def of(stream, *counts):
    ...     return Claim("a", 5, stream=stream, vouched=dict(zip(VOUCHED_FIELDS, counts)))
    >>> _combine_vouched([of("orders", 3, 2, 2), of("stock", 1, 1, 0), of("stock", 1, 1, 1)])
    {'count': 4, 'expected': 3, 'expected_vouching': 2}
    >>> _combine_vouched([of("orders,stock", 3, 2, 2), of("stock", 1, 1, 1)])
    {}
    """
    least_counts: dict[tuple[str, str | None], Mapping[str, int]] = {}
    for claim in claims:
        if not claim.vouched:
            return {}
        key = claim.stream, claim.domain
        stream_counts = least_counts.setdefault(key, claim.vouched)
        if claim.vouched["expected_vouching"] < stream_counts["expected_vouching"]:
            least_counts[key] = claim.vouched
    names = ",".join(stream for stream, _ in least_counts).split(",")
    if len(names) > len(set(names)):
        return {}
    counts = dict.fromkeys(VOUCHED_FIELDS, 0)
    for stream_counts in least_counts.values():
        for field in VOUCHED_FIELDS:
            counts[field] += stream_counts[field]
    if any(stream_counts["expected"] == 0 for stream_counts in least_counts.values()):
        return {**counts, "expected": 0, "expected_vouching": 0}
    return counts
