"""What the streams in memory tell of themselves: their holders, their members, and to scrapes."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, filterfalse, islice
from typing import TYPE_CHECKING, NamedTuple

from noted_time import Hold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controller.aggregation.draft import Moment
    from controller.aggregation.stream import StreamState
    from noted_time import Decision, Mark
    from noted_time.dry_run import Would
    from noted_time.membership import Exclusion, LateRows


EXAMINED = 100
"""So many holders of a domain are looked at.

Holders are kept in the order in which they began, so the longest are among them. Only between a
restart and the next mark may the order differ, and then only a domain that more of them hold.
"""

NAMED = 5
"""So many holders of a domain are named."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision of one domain now; `lower_without` is the lower without each holder.

    `would` is what a dry run that was asked for leads to.
    """

    decision: Decision
    lower: int | None
    lower_without: Mapping[str, int | None]
    would: Would | None = None


@dataclass(frozen=True, slots=True)
class WriterRow:
    """One writer as the admin sees it; every moment in Unix ms.

    Moments are reckoned back from now by the service clock, so time without a controller does not
    count. `timeout_ms` and `domains` are what the writer declared itself, `None` where it did not;
    until `held_until` an operator keeps it from timing out. `late` has, by domain, the rows below
    the lower that it reported.
    """

    writer: str
    state: str
    times: Mapping[str, int]
    position: Mapping[int, int]
    noted_at: int
    holding_since: int | None
    excluded: Exclusion | None
    timeout_ms: int | None
    domains: Sequence[str] | None
    held_until: int | None
    late: Mapping[str, LateRows]


@dataclass(frozen=True, slots=True)
class DryRun:
    """What to suppose: these writers removed, and another writer timeout of the stream."""

    exclude: Sequence[str] = ()
    writer_timeout_ms: int | None = None

    def __bool__(self) -> bool:
        return bool(self.exclude) or self.writer_timeout_ms is not None


def explain(
    stream: StreamState, domain: str | None, service_ms: int, dry_run: DryRun
) -> Explanation:
    """Explain the decision of `domain`; raises `UnknownDomain` and `UnknownWriter`."""
    name = stream.settings.domain_or_default(domain)
    aggregator = stream.aggregator
    last = stream.history(name).last
    decision = aggregator.decide(name, service_ms)
    holders: tuple[str, ...] = ()
    if isinstance(decision, Hold):
        holders = tuple(waiting.writer for waiting in decision.waiting_for)
    without = {writer: aggregator.without(name, writer) for writer in holders}
    would = None
    if dry_run:
        would = aggregator.would(name, dry_run.exclude, dry_run.writer_timeout_ms, service_ms)
    return Explanation(decision, last.lower if last else None, without, would)


def writers(stream: StreamState, *, start: int, limit: int, now: Moment) -> list[WriterRow]:
    """Return `limit` members from the `start`-th on, the longest holders of time first."""
    shift = stream.unix_shift(now)
    return [
        writer_row(stream, writer, shift)
        for writer in islice(_holders_first(stream), start, start + limit)
    ]


def _holders_first(stream: StreamState) -> Iterator[str]:
    """Return all members, holders first: the domain held longest, then the next, then the rest.

    Holders of a domain are kept in the order in which they began, so nothing is sorted, and what
    comes before a page is passed over without a step of the interpreter: a million in some 50 ms.
    """
    aggregator = stream.aggregator
    held = [holders for each in stream.settings.domains if (holders := aggregator.holding(each))]
    held.sort(key=lambda holders: next(iter(holders.values())).began)
    members: Iterator[str] = iter(())
    for number, writers in enumerate([*held, aggregator.writers()]):
        fresh = iter(writers)
        for earlier in held[:number]:
            fresh = filterfalse(earlier.__contains__, fresh)
        members = chain(members, fresh)
    return members


def writer_row(stream: StreamState, writer: str, shift: int) -> WriterRow:
    """Return one member; `shift` leads from the service clock to Unix ms.

    Raises `UnknownWriter`.
    """
    record = stream.aggregator.record(writer)
    since = stream.aggregator.holding_since(writer)
    exclusion, terms = record.exclusion, record.terms
    return WriterRow(
        writer=writer,
        state="excluded" if exclusion else record.state,
        times=record.times,
        position=record.position,
        noted_at=record.noted_at + shift,
        holding_since=None if since is None else since + shift,
        excluded=exclusion and exclusion._replace(since=exclusion.since + shift),
        timeout_ms=terms.timeout_ms,
        domains=terms.domains,
        held_until=None if terms.hold_until is None else terms.hold_until + shift,
        late=record.late,
    )


class Holding(NamedTuple):
    """A writer that holds time back: for how long, and how long until it times out if it is silent.

    Both in ms on the service clock.
    """

    writer: str
    ms: int
    left_ms: int


class DomainReading(NamedTuple):
    """One domain: its last durable mark, how many hold it, and who longest, at most `NAMED`.

    `late_rows` is how many rows below the lower were reported since the stream was read.
    """

    domain: str
    last: Mark | None
    holders: int
    longest: tuple[Holding, ...]
    late_rows: int


class StreamReading(NamedTuple):
    """One stream: its members by state, how often one was excluded, and its domains."""

    name: str
    members: Mapping[str, int]
    excluded: int
    domains: tuple[DomainReading, ...]


def read_stream(stream: StreamState, service_ms: int) -> StreamReading:
    """Read what there is to show; later changes of the stream do not change it."""
    return StreamReading(
        stream.record.name,
        dict(stream.aggregator.census.members),
        stream.excluded,
        tuple(_read_domain(stream, domain, service_ms) for domain in stream.histories),
    )


def _read_domain(stream: StreamState, domain: str, service_ms: int) -> DomainReading:
    # `decide` looks at all holders: 20 ms where 100,000 writers note in step
    holders = stream.aggregator.holding(domain)
    timeout_ms = stream.settings.writer_timeout_ms
    first = [
        (track.began, writer, track.times_out_at(timeout_ms))
        for writer, track in islice(holders.items(), EXAMINED)
    ]
    longest = tuple(
        Holding(writer, service_ms - began, max(0, due - service_ms))
        for began, writer, due in nsmallest(NAMED, first)
    )
    last, late_rows = stream.histories[domain].last, stream.aggregator.late_rows(domain)
    return DomainReading(domain, last, len(holders), longest, late_rows)
