"""What is shown of a stream in memory: its decision, its members, and its figures for a scrape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest, nsmallest
from itertools import chain, filterfalse, islice
from operator import attrgetter, itemgetter, methodcaller
from typing import NamedTuple, cast

from controller.aggregation.draft import Moment
from controller.aggregation.stream import StreamState
from controller.aggregation.views.idleness import describe_idleness
from controller.aggregation.views.sentences import sentences
from controller.aggregation.views.silence import Silence, classify_silence
from controller.aggregation.views.suspect_notes import Hint, find_hints
from controller.aggregation.views.vouching import Roster
from noted_time import Advance, Hold, Mark
from noted_time.reading import ReaderPlace, locate_reader
from noted_time.rules import (
    HOLDERS_NAMED,
    Forecast,
    MemberState,
    Track,
    Would,
    forecast,
    lower_without,
)
from noted_time.values import (
    FROM_FIRST_MARK,
    DecisionName,
    ExcludedSince,
    HeldName,
    LateRows,
    LogFact,
    VouchedBy,
    Waiting,
)

HOLDERS_EXAMINED = 100
"""Maximum number of holders of a domain that are examined.

Holders are kept in the order in which they began, so the longest are among them.
"""

MEMBERS_SORTED = 20_000
"""Maximum number of members that are listed by their times, which takes 10 ms."""

HOLDERS_SCRAPED = 5
"""Maximum number of holders of a domain that are named."""

EXCLUDED_NAMED = 10
"""Maximum number of excluded writers of a stream that are named, of those the last ones."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision now; `waiting_for` names some of the `holders`, the longest first.

    `lower_without` is the lower that the stream would have without each of them; `by_itself` is
    when (Unix ms) and where the watermark moves if none of them notes, null if it does not or too
    many writers would be excluded by then. `hints` name ten
    writers whose notes look wrong. `silence` is what the silence of the stream costs, null if it is
    not silent. `vouched` says by whom the stream is complete to the lower, null if there are too
    many members to look at. `reader` is what a reader at the position asked for waits for.
    `sentences` put it in words: first what was decided, last the result of the dry run.
    """

    now: int
    decision: DecisionName
    lower: int | None
    written_at: int | None
    next_lower: int | None
    waiting_for: Sequence[Waiting]
    holders: int
    lower_without: Mapping[str, int | None]
    by_itself: Forecast | None
    would: Would | None
    hints: Sequence[Hint]
    silence: Silence | None
    vouched: VouchedBy | None
    reader: ReaderPlace | None
    sentences: Sequence[str]


@dataclass(frozen=True, slots=True)
class CountedPeriod:
    """Marks from `from_seq` on have all rows of a writer below `until`; null while it lasts.

    Then each has all its rows below the lower of the mark.
    """

    from_seq: int
    until: int | None


@dataclass(frozen=True, slots=True)
class WriterRow:
    """A member: every moment in Unix ms; `timeout_ms` and `domains` are what it declared itself.

    For a member that never noted (`is_expected`), `noted_at` is since when it has been expected.
    Until `held_until` an operator keeps it from timing out: `held_by` and `held_for` say who, and
    why. `silent_ms` is how long a live one has noted nothing while a controller served;
    `is_silent`: that is half its timeout, or more. At `out_at` it is excluded if it is silent until
    then and holds the watermark by then; null if it is ahead and no other noted a later time.
    `session` is the process that has its name, and `held` why it lives and does not note.
    `observes` is whether its last note says so, and `because` what it found in the log; false and
    empty until it notes after the controller took the stream over. `vouching` has, by domain, the
    last two periods in which marks count it. `times_out_in_ms` and `lower_without`, the lower that
    there would be without it, are those of a holder of the domain asked for.
    """

    # moments on the service clock are computed from now, so time without a controller does not
    # count; `noted_at`, the `since` of `excluded`, and that of an expected writer never change
    writer: str
    state: MemberState
    times: Mapping[str, int]
    position: Mapping[int, int]
    noted_at: int
    is_expected: bool
    holding_since: int | None
    excluded: ExcludedSince | None
    timeout_ms: int | None
    domains: Sequence[str] | None
    held_until: int | None
    held_by: str | None
    held_for: str | None
    silent_ms: int | None
    is_silent: bool
    out_at: int | None
    late: Mapping[str, LateRows]
    session: HeldName | None
    held: str | None
    observes: bool
    because: Sequence[LogFact]
    times_out_in_ms: int | None
    lower_without: int | None
    vouching: Mapping[str, Sequence[CountedPeriod]]


@dataclass(frozen=True, slots=True)
class WritersPage:
    """A page of members, the longest holder first, then by time; `next` is the next `start`.

    `total` counts the members that match, `states` all members of the stream.
    """

    now: int
    total: int
    writers: Sequence[WriterRow]
    states: Mapping[MemberState, int]
    next: int | None


class WriterQuery(NamedTuple):
    """Which members to show, `limit` from the `start`-th on: those with `search` in their names.

    The holders of `domain` come first, the longest before the others, then the other live ones by
    their times. Without a domain, holders of all domains come first, and each row shows the default
    one.
    """

    start: int
    limit: int
    domain: str | None = None
    search: str = ""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What to suppose: these writers removed, and another writer timeout of the stream."""

    exclude: Sequence[str] = ()
    writer_timeout_ms: int | None = None

    def __bool__(self) -> bool:
        return bool(self.exclude) or self.writer_timeout_ms is not None


NO_DRY_RUN = DryRun()


def explain(  # noqa: PLR0913 - what may be asked of it
    stream: StreamState,
    domain: str | None,
    now: Moment,
    dry_run: DryRun = NO_DRY_RUN,
    *,
    position: Mapping[int, int] | None = None,
    limit: int = HOLDERS_NAMED,
) -> Explanation:
    """Explain the decision of `domain`, and what a reader at `position` waits for.

    At most `limit` holders and `limit` segments are named. Raises `UnknownDomain` and
    `UnknownWriter`.
    """
    name = stream.settings.domain_or_default(domain)
    aggregator, service_ms = stream.aggregator, stream.service_ms(now)
    last = stream.history(name).last
    decision = aggregator.decide(name, service_ms)
    would, found = None, find_hints(stream, name, now)
    foreseen = forecast(aggregator.domains, aggregator.domains[name])
    if dry_run:
        would = aggregator.would(name, dry_run.exclude, dry_run.writer_timeout_ms, service_ms)
    reader = None
    if position is not None:
        whole = aggregator.succession.normalise(position)
        reader = locate_reader(stream.history(name), whole, limit)
        named = (
            replace(each, writer=aggregator.who_noted(each.segment, each.needed))
            for each in reader.waiting_for
        )
        reader = replace(reader, waiting_for=tuple(named))
    silence = classify_silence(stream, now.wall)
    by = None if last is None else Roster(stream, domain).find_vouching(last)
    said = sentences(
        stream,
        name,
        decision,
        now,
        last=last,
        hints=found,
        resting=describe_idleness(stream, name, now, last),
        would=would,
        silence=silence,
        vouched=by,
        reader=reader,
        foreseen=foreseen,
    )
    waiting_for = decision.waiting_for[:limit] if isinstance(decision, Hold) else ()
    return Explanation(
        now=now.wall,
        decision=cast("DecisionName", type(decision).__name__.lower()),
        lower=last.lower if last else None,
        written_at=last.written_at if last else None,
        next_lower=decision.lower if isinstance(decision, Advance) else None,
        waiting_for=waiting_for,
        holders=decision.holders if isinstance(decision, Hold) else 0,
        lower_without={
            each.writer: lower_without(aggregator.domains[name], each.writer)
            for each in waiting_for
        },
        by_itself=foreseen and replace(foreseen, at=foreseen.at + stream.unix_shift(now)),
        would=would,
        hints=found,
        silence=silence,
        vouched=by,
        reader=reader,
        sentences=tuple(said),
    )


def writers(stream: StreamState, query: WriterQuery, now: Moment) -> WritersPage:
    """Return the members that match; raises `UnknownDomain`.

    A search scans all members, in C.
    """
    names, total = _list_holders_first(stream, query.domain), len(stream.aggregator)
    if query.search:
        is_meant = methodcaller("__contains__", query.search)
        names, total = filter(is_meant, names), sum(map(is_meant, stream.aggregator.writers()))
    end = query.start + query.limit
    return WritersPage(
        now=now.wall,
        total=total,
        writers=[
            build_writer_row(stream, each, query.domain, now)
            for each in islice(names, query.start, end)
        ],
        states=dict(stream.aggregator.domains.census.members),
        next=end if total > end else None,
    )


def _list_holders_first(stream: StreamState, domain: str | None) -> Iterator[str]:
    """Return all members, holders first: the domain held longest, then the next, then the rest.

    If a domain is named, its holders come first and then the rest.

    Holders of a domain are kept in the order in which they began, and the rest is sorted only if
    it is small; what comes before a page is skipped in C: a million members in some 50 ms.
    """
    aggregator = stream.aggregator
    if domain is not None:
        held = [aggregator.domains[domain].find_holders()]
    else:
        domains = [aggregator.domains[each] for each in stream.settings.domains]
        held = [each.holders for each in domains if each.holders]
        held.sort(key=lambda holders: next(iter(holders.values())).began)
    members: Iterator[str] = iter(())
    for number, writers in enumerate([*held, _sort_by_time(stream, domain)]):
        fresh = iter(writers)
        for earlier in held[:number]:
            fresh = filterfalse(earlier.__contains__, fresh)
        members = chain(members, fresh)
    return members


def _sort_by_time(stream: StreamState, domain: str | None) -> Iterable[str]:
    """Return all members: live ones by their times, then the others; of many, as they joined."""
    members = stream.aggregator.domains.members
    if len(members) > MEMBERS_SORTED:
        return members
    number = stream.aggregator.domains.numbers.get(stream.settings.domain_or_default(domain), 0)
    time = attrgetter("first.time") if not number else lambda each: each.track(number).time
    by_time = sorted(members.values(), key=time)
    by_time.sort(key=attrgetter("state"), reverse=True)  # live, idle, finished
    return map(attrgetter("writer"), by_time)


def build_writer_row(
    stream: StreamState, writer: str, domain: str | None, now: Moment
) -> WriterRow:
    """Return one member, and how it holds `domain`; raises `UnknownWriter`."""
    shift, running = stream.unix_shift(now), stream.aggregator.domains
    record, member = stream.aggregator.record(writer), running.members[writer]
    terms, session = record.terms, record.session
    name, timeout_ms = stream.settings.domain_or_default(domain), stream.settings.writer_timeout_ms
    out_at, left_ms, without = None, None, None
    if name in stream.histories:  # a stream of several domains may have no default
        track = member.track(running.numbers[name])
        out_at = track.out_at(timeout_ms)
        if writer in running[name].find_holders():
            left_ms = find_timeout_ms(stream, track, now)
            without = lower_without(running[name], writer)
    silent_ms = max(0, stream.service_ms(now) - member.noted_at) if member.vouches else None
    own_ms = timeout_ms if terms.timeout_ms is None else terms.timeout_ms
    expected_at = record.expected_at if record.heard_at is None else None
    since = member.holding_since
    if since is not None:
        since = expected_at if expected_at and since == record.noted_at else since + shift
    return WriterRow(
        writer=writer,
        state="excluded" if record.exclusion else record.state,
        times=record.times,
        position=record.position,
        noted_at=record.heard_at or expected_at or record.noted_at + shift,
        is_expected=expected_at is not None,
        holding_since=since,
        excluded=record.exclusion,
        timeout_ms=terms.timeout_ms,
        domains=terms.domains,
        held_until=None if terms.hold_until is None else terms.hold_until + shift,
        held_by=terms.held_by,
        held_for=terms.held_for,
        silent_ms=silent_ms,
        is_silent=silent_ms is not None and 2 * silent_ms >= own_ms,
        out_at=None if out_at is None else out_at + shift,
        late=record.late,
        held=record.held,
        observes=member.observes,
        because=member.because,
        session=session.held if session.id else None,
        times_out_in_ms=left_ms,
        lower_without=without,
        vouching={
            name: [
                CountedPeriod(each.from_seq, None if each.is_open else each.until)
                for each in record.vouching.get(name, FROM_FIRST_MARK)
            ]
            for name in running.numbers
        },
    )


def find_timeout_ms(stream: StreamState, track: Track, now: Moment) -> int:
    """Return how long until a member times out if it stays silent."""
    return max(0, track.times_out_at(stream.settings.writer_timeout_ms) - stream.service_ms(now))


class Holding(NamedTuple):
    """A writer that holds time back: for how long, and how long until it times out if it is silent.

    Both in ms on the service clock.
    """

    writer: str
    ms: int
    left_ms: int


class DomainReading(NamedTuple):
    """One domain: its last durable mark, how many hold it, and some of the longest.

    `late_rows` is how many rows below the lower were reported since the stream was loaded.
    """

    domain: str
    last: Mark | None
    holders: int
    longest: tuple[Holding, ...]
    late_rows: int


class StreamReading(NamedTuple):
    """One stream: its members by state, how often one was excluded, its domains and lost marks.

    `out` has since when (Unix ms) writers are excluded that a mark advanced without, by name.
    `fenced` counts the notes that were refused as another process had the writer's name.
    """

    name: str
    members: Mapping[MemberState, int]
    excluded: int
    out: Mapping[str, int]
    fenced: int
    lost_marks: int
    domains: tuple[DomainReading, ...]


def read_stream(stream: StreamState, service_ms: int) -> StreamReading:
    """Read what a scrape shows; later changes of the stream do not change it."""
    return StreamReading(
        stream.record.name,
        dict(stream.aggregator.domains.census.members),
        stream.excluded,
        _find_excluded(stream),
        stream.fences.notes,
        stream.lost_marks,
        tuple(_read_domain(stream, domain, service_ms) for domain in stream.histories),
    )


def _find_excluded(stream: StreamState) -> dict[str, int]:
    # the ledger's missing writers, not the members: those are many
    newest = (
        islice(reversed(each.open.values()), EXCLUDED_NAMED) for each in stream.missing.values()
    )
    members = stream.aggregator.domains.members
    since = {
        found.writer: found.since
        for found, *_ in chain.from_iterable(newest)
        if found.since is not None and found.writer in members and members[found.writer].excluded
    }
    return dict(nlargest(EXCLUDED_NAMED, since.items(), key=itemgetter(1)))


def _read_domain(stream: StreamState, domain: str, service_ms: int) -> DomainReading:
    # not `decide`, which looks at all holders: 20 ms if 100,000 writers note in step
    holders = stream.aggregator.domains[domain].holders
    timeout_ms = stream.settings.writer_timeout_ms
    first = [
        (track.began, writer, track.times_out_at(timeout_ms))
        for writer, track in islice(holders.items(), HOLDERS_EXAMINED)
    ]
    longest = tuple(
        Holding(writer, service_ms - began, max(0, due - service_ms))
        for began, writer, due in nsmallest(HOLDERS_SCRAPED, first)
    )
    last, late_rows = stream.histories[domain].last, stream.aggregator.domains[domain].late_rows
    return DomainReading(domain, last, len(holders), longest, late_rows)
