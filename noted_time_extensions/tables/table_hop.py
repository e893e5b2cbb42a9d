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

    `names` are the claims that count, by default the expected ones. Without a valid claim the hop
    has no time. `time` is the requested one: below the first rows or marks it is in doubt.
    """
    statuses = history.statuses()
    times_made_current = {commit.id: commit.current_since for commit in history.commits}
    sources: list[HopSource] = []
    has_claim = False
    for name in names or history.expects or statuses:
        status = statuses.get(name)
        if status is not None and status.claim is not None:
            has_claim = True
            sources += _list_sources(dataset, status, status.claim, times_made_current)
    is_written_by_job = any(source.why for source in sources)
    table_claim = history.claim(names or None, statuses)
    if isinstance(table_claim, NoClaim):
        if not has_claim or NOT_CLAIMED in table_claim.why:
            remedy = LET_CLAIM
        elif is_written_by_job:
            remedy = RUN_JOB
        else:
            remedy = ACCEPT_AGAIN
        why = f"nothing is claimed of it: {table_claim.why}"
        return Hop(dataset, None, tuple(sources), why, remedy)
    from_time = table_claim.from_time
    if time is not None and from_time is not None and time <= from_time:
        doubt = table_claim.gone
    else:
        doubt = describe_first_mark(table_claim.known_first_lower, time)
    return Hop(
        dataset,
        table_claim.complete_to,
        tuple(sources),
        "" if sources else "its claim names no stream",
        RUN_JOB if is_written_by_job else RUN_QUERY,
        table_claim.describe_lack(),
        doubt,
    )


def _list_sources(
    dataset: Dataset, status: ClaimStatus, claim: Claim, times_made_current: Mapping[int, int]
) -> Iterator[HopSource]:
    """Yield the sources of a claim. A job's claim is their least time, less the job's delay."""
    complete_to = status.complete_to
    streams = tuple(Dataset(source.stream, source.domain) for source in claim.sources)
    if not claim.inherits:
        for stream, source in zip(streams, claim.sources, strict=True):
            yield HopSource(stream, complete_to, source.lag_ms)
        return
    delay_ms = 0
    if claim.complete_to is not None:
        delay_ms = min(parent.complete_to for parent in claim.inherits) - claim.complete_to
    written_at = times_made_current.get(status.at or 0, 0) // 1000 * 1000
    time_clause = f"since {format_time(written_at)}" if written_at else "again"
    why = f"the job that writes {dataset} has not run {time_clause}"
    for parent in claim.inherits:
        parent_table = Dataset(parent.table)
        yield HopSource(parent_table, complete_to, delay_ms, why, parent.complete_to, streams)
