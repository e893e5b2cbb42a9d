"""Describes a table as a hop on the way to the writers, with the sources of its claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noted_time.extending import (
    RUN_QUERY,
    Dataset,
    Hop,
    HopSource,
    describe_first_mark,
    format_time,
)
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.table_history import (
    NOT_CLAIMED,
    ClaimStatus,
    NoClaim,
    TableHistory,
)

ACCEPT_AGAIN = "`{program} claim accept {dataset}` lists the commits since the claim"
LET_CLAIM = "let its query claim (NotedTable), or its job (`{program} claim inherit {dataset} …`)"
RUN_JOB = "run the job, then `{program} claim inherit {dataset} …`"


def describe_table(
    dataset: Dataset, history: TableHistory, time: int | None, names: tuple[str, ...] = ()
) -> Hop:
    """Return a table with its sources, also the sources of claims that have ended.

    `names` are the claims that count, by default the expected ones.
    """
    statuses = history.statuses()
    table_claim = history.claim(names or None, statuses)
    moments = {commit.id: commit.current_since for commit in history.commits}
    judged_statuses = (statuses.get(name) for name in names or history.expects or statuses)
    claimed_statuses = [
        status for status in judged_statuses if status is not None and status.claim is not None
    ]
    sources = tuple(
        source for status in claimed_statuses for source in _list_sources(dataset, status, moments)
    )
    is_by_job = any(source.why for source in sources)
    if isinstance(table_claim, NoClaim):
        is_unclaimed = not claimed_statuses or NOT_CLAIMED in table_claim.why
        remedy = LET_CLAIM if is_unclaimed else RUN_JOB if is_by_job else ACCEPT_AGAIN
        return Hop(dataset, None, sources, f"nothing is claimed of it: {table_claim.why}", remedy)
    why = "" if sources else "its claim names no stream"
    remedy = RUN_JOB if is_by_job else RUN_QUERY
    is_before = (
        time is not None and table_claim.from_time is not None and time <= table_claim.from_time
    )
    doubt = (
        table_claim.gone if is_before else describe_first_mark(table_claim.known_first_lower, time)
    )
    return Hop(
        dataset, table_claim.complete_to, sources, why, remedy, table_claim.describe_lack(), doubt
    )


def _list_sources(
    dataset: Dataset, status: ClaimStatus, moments: Mapping[int, int]
) -> Iterator[HopSource]:
    """Yield the sources of a claim. A job's claim is their least time, less the job's delay."""
    claim, taken_to = status.claim or Claim("", None), status.complete_to
    streams = tuple(Dataset(source.stream, source.domain) for source in claim.sources)
    if not claim.inherits:
        for stream, source in zip(streams, claim.sources, strict=True):
            yield HopSource(stream, taken_to, source.lag_ms)
        return
    least_time = min(parent.complete_to for parent in claim.inherits)
    delay_ms = 0 if claim.complete_to is None else least_time - claim.complete_to
    second = moments.get(status.at or 0, 0) // 1000 * 1000
    since = f"since {format_time(second)}" if second else "again"
    why = f"the job that writes {dataset} has not run {since}"
    for parent in claim.inherits:
        yield HopSource(Dataset(parent.table), taken_to, delay_ms, why, parent.complete_to, streams)
