"""A stream's decision, its members, and its figures for metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest, nsmallest
from itertools import chain, filterfalse, islice
from operator import attrgetter, itemgetter, methodcaller
from typing import NamedTuple

from msgspec.structs import replace

from controller.aggregation.draft import Moment
from controller.aggregation.stream import StreamState
from controller.aggregation.views.conditions import HOLDERS_EXAMINED, assess_domain
from controller.aggregation.views.idleness import describe_idleness
from controller.aggregation.views.sentences import sentences
from controller.aggregation.views.silence import classify_silence
from controller.aggregation.views.suspect_notes import find_hints
from controller.aggregation.views.view import View
from controller.aggregation.views.vouching import Vouching
from noted_time.answers import Explanation, WriterRow, WritersPage
from noted_time.reading import ReaderPlace, locate_reader
from noted_time.rules import HOLDERS_NAMED, Track, forecast, lower_without
from noted_time.values import Advance, Hold, Mark, MemberState, Waiting

MEMBERS_SORTED = 20_000  # sorting them by time takes 10 ms

HOLDERS_SCRAPED = 5

EXCLUDED_NAMED = 10


def explain(
    view: View,
    *,
    exclude: Sequence[str] = (),
    writer_timeout_ms: int | None = None,
    position: Mapping[int, int] | None = None,
    limit: int = HOLDERS_NAMED,
) -> Explanation:
    """Explain a decision. The dry run assumes excluded writers and another writer timeout."""
    aggregator, last = view.stream.aggregator, view.history.last
    decision = aggregator.decide(view.domain, view.service_ms)
    foreseen = forecast(aggregator.domains, view.running)
    silence = classify_silence(view.stream, view.now.wall)
    waiting_for = decision.waiting_for[:limit] if isinstance(decision, Hold) else ()
    would = None
    if exclude or writer_timeout_ms is not None:
        would = aggregator.dry_run(view.domain, exclude, writer_timeout_ms, view.service_ms)
    assessment = assess_domain(view, silence)
    found = Explanation(
        now=view.now.wall,
        decision=assessment.decision,
        condition=assessment.condition,
        lower=last.lower if last else None,
        written_at=last.written_at if last else None,
        next_lower=decision.lower if isinstance(decision, Advance) else None,
        waiting_for=waiting_for,
        holders=decision.holders if isinstance(decision, Hold) else 0,
        overtaking=assessment.overtaking,
        lower_without={
            each.writer: lower_without(view.running, each.writer) for each in waiting_for
        },
        by_itself=foreseen and replace(foreseen, at=foreseen.at + view.stream.unix_shift(view.now)),
        would=would,
        hints=find_hints(view),
        silence=silence,
        vouched=None if last is None else Vouching(view).find_vouching(last),
        reader=None if position is None else _locate_reader(view, position, limit),
        sentences=(),
    )
    described = sentences(view, decision, found, describe_idleness(view))
    return replace(found, sentences=tuple(described))


def _locate_reader(view: View, position: Mapping[int, int], limit: int) -> ReaderPlace:
    aggregator = view.stream.aggregator
    reader = locate_reader(view.history, aggregator.succession.normalise(position), limit)
    named = (
        replace(each, writer=aggregator.find_writer_of(each.segment, each.needed))
        for each in reader.waiting_for
    )
    return replace(reader, waiting_for=tuple(named))


def writers(
    stream: StreamState, now: Moment, page: range, domain: str | None = None, search: str = ""
) -> WritersPage:
    """Return a page of members: holders first, then live members by time.

    Without a `domain`, holders of all domains come first.
    """
    names, total = _list_holders_first(stream, domain), len(stream.aggregator)
    if search:
        matches = methodcaller("__contains__", search)
        names, total = filter(matches, names), sum(map(matches, stream.aggregator.writers()))
    view = View.of(stream, now, domain)
    has_domain = view.domain in stream.histories
    return WritersPage(
        now=now.wall,
        total=total,
        writers=[build_writer_row(view, each) for each in islice(names, page.start, page.stop)],
        states=dict(stream.aggregator.domains.census.members),
        next=page.stop if total > page.stop else None,
        forgotten_seq=Vouching(view).forgotten_seq if has_domain else None,
    )


def _list_holders_first(stream: StreamState, domain: str | None) -> Iterator[str]:
    """Use iterators of the standard library: a loop over a million members takes seconds."""
    aggregator = stream.aggregator
    if domain is not None:
        by_domain = [aggregator.domains[domain].find_holders()]
    else:
        domains = [aggregator.domains[each] for each in stream.settings.domains]
        by_domain = [each.holders for each in domains if each.holders]
        by_domain.sort(key=lambda holders: next(iter(holders.values())).waiting_since)
    members: Iterator[str] = iter(())
    for number, writers in enumerate([*by_domain, _sort_by_time(stream, domain)]):
        fresh = iter(writers)
        for earlier in by_domain[:number]:
            fresh = filterfalse(earlier.__contains__, fresh)
        members = chain(members, fresh)
    return members


def _sort_by_time(stream: StreamState, domain: str | None) -> Iterable[str]:
    members = stream.aggregator.domains.members
    if len(members) > MEMBERS_SORTED:
        return members
    number = stream.aggregator.domains.numbers.get(stream.settings.domain_or_default(domain), 0)
    time = attrgetter("first_track.time") if not number else lambda each: each.track(number).time
    by_time = sorted(members.values(), key=time)
    by_time.sort(key=attrgetter("state"), reverse=True)  # live, idle, finished
    return map(attrgetter("writer"), by_time)


def build_writer_row(view: View, writer: str) -> WriterRow:
    stream, name, now = view.stream, view.domain, view.service_ms
    shift, running = stream.unix_shift(view.now), stream.aggregator.domains
    record, member = stream.aggregator.record(writer), running.members[writer]
    terms, session = record.terms, record.session
    timeout_ms = stream.settings.writer_timeout_ms
    out_at, left_ms, without = None, None, None
    if name in stream.histories:  # a stream with several domains may lack the default
        track = member.track(running.numbers[name])
        out_at = track.excluded_at(timeout_ms)
        if writer in running[name].find_holders():
            left_ms = find_timeout_ms(stream, track, now)
            without = lower_without(running[name], writer)
    silent_ms = max(0, now - member.noted_at) if member.is_active else None
    own_ms = timeout_ms if terms.timeout_ms is None else terms.timeout_ms
    expected_at = record.expected_at if record.heard_at is None else None
    since = member.holding_since
    if since is not None:
        since = expected_at if expected_at and since == record.noted_at else since + shift
    return WriterRow(
        writer=writer,
        state="excluded" if member.exclusion else record.state,
        times=record.times,
        position=record.position,
        noted_at=record.heard_at or expected_at or record.noted_at + shift,
        is_expected=expected_at is not None,
        holding_since=since,
        excluded=member.exclusion,
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
        because=member.log_facts,
        session=session.held if session.id else None,
        times_out_in_ms=left_ms,
        lower_without=without,
        vouching={name: member.track(n).timeline.spells for name, n in running.numbers.items()},
    )


def find_timeout_ms(stream: StreamState, track: Track, service_ms: int) -> int:
    return max(0, track.times_out_at(stream.settings.writer_timeout_ms) - service_ms)


class DomainReading(NamedTuple):
    """The figures of one domain."""

    domain: str
    last: Mark | None
    holders: int
    longest: tuple[Waiting, ...]
    late_rows: int


class StreamReading(NamedTuple):
    """The figures of one stream since it was loaded; `out` has Unix ms."""

    name: str
    members: Mapping[MemberState, int]
    excluded: int
    out: Mapping[str, int]
    fenced: int
    lost_marks: int
    domains: tuple[DomainReading, ...]


def read_stream(stream: StreamState, service_ms: int) -> StreamReading:
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
    # scanning all members would take longer
    newest = (
        islice(reversed(each.open.values()), EXCLUDED_NAMED) for each in stream.missing.values()
    )
    members = stream.aggregator.domains.members
    since = {
        entry.writer: entry.since
        for entry, *_ in chain.from_iterable(newest)
        if entry.since is not None and entry.writer in members and members[entry.writer].excluded
    }
    return dict(nlargest(EXCLUDED_NAMED, since.items(), key=itemgetter(1)))


def _read_domain(stream: StreamState, domain: str, service_ms: int) -> DomainReading:
    # `decide` would take 20 ms for 100,000 holders
    holders = stream.aggregator.domains[domain].holders
    first = [
        (track.waiting_since, writer, track)
        for writer, track in islice(holders.items(), HOLDERS_EXAMINED)
    ]
    longest = tuple(
        Waiting(writer, track.noted, service_ms - began, find_timeout_ms(stream, track, service_ms))
        for began, writer, track in nsmallest(HOLDERS_SCRAPED, first)
    )
    last, late_rows = stream.histories[domain].last, stream.aggregator.domains[domain].late_rows
    return DomainReading(domain, last, len(holders), longest, late_rows)
