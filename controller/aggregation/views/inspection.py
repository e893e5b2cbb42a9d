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
from controller.aggregation.views.conditions import WRITERS_EXAMINED, assess_domain
from controller.aggregation.views.idleness import describe_idleness
from controller.aggregation.views.sentences import sentences
from controller.aggregation.views.silence import classify_silence
from controller.aggregation.views.suspect_notes import find_hints
from controller.aggregation.views.view import View
from controller.aggregation.views.vouching import Vouching
from noted_time.answers import Explanation, WriterRow, WritersPage
from noted_time.reading import ReaderPlace, locate_reader
from noted_time.rules import HOLDING_BACK_NAMED, Track, forecast, lower_without
from noted_time.values import Advance, Forecast, Mark, MemberState, WaitForWriters, Waiting

MEMBERS_SORTED = 20_000  # sorting them by time takes 10 ms

WRITERS_SCRAPED = 5

EXCLUDED_NAMED = 10


def explain(
    view: View,
    *,
    exclude: Sequence[str] = (),
    writer_timeout_ms: int | None = None,
    position: Mapping[int, int] | None = None,
    limit: int = HOLDING_BACK_NAMED,
) -> Explanation:
    """Explain a decision. The dry run assumes excluded writers and another writer timeout."""
    aggregator = view.stream.aggregator
    last = view.history.last
    decision = aggregator.decide(view.domain, view.served_ms)
    silence = classify_silence(view.stream, view.now.wall)
    waiting_for: Sequence[Waiting] = ()
    holding_back_count = 0
    if isinstance(decision, WaitForWriters):
        waiting_for = decision.waiting_for[:limit]
        holding_back_count = decision.holding_back_count
    outcome = None
    if exclude or writer_timeout_ms is not None:
        outcome = aggregator.dry_run(view.domain, exclude, writer_timeout_ms, view.served_ms)
    lower = None
    written_at = None
    vouched_by = None
    if last is not None:
        lower = last.lower
        written_at = last.written_at
        vouched_by = Vouching(view).find_vouching(last)
    reader = None
    if position is not None:
        reader = _locate_reader(view, position, limit)
    assessment = assess_domain(view, silence)
    explanation = Explanation(
        now=view.now.wall,
        decision=assessment.decision,
        condition=assessment.condition,
        lower=lower,
        written_at=written_at,
        next_lower=decision.lower if isinstance(decision, Advance) else None,
        waiting_for=waiting_for,
        holding_back_count=holding_back_count,
        overtaking=assessment.overtaking,
        lower_without={
            waiting.writer: lower_without(view.running, waiting.writer) for waiting in waiting_for
        },
        forecast=_forecast_advance(view),
        dry_run=outcome,
        hints=find_hints(view),
        silence=silence,
        vouched=vouched_by,
        reader=reader,
        sentences=(),
    )
    texts = sentences(view, decision, explanation, describe_idleness(view))
    return replace(explanation, sentences=tuple(texts))


def _forecast_advance(view: View) -> Forecast | None:
    advance = forecast(view.stream.aggregator.domains, view.running)
    if advance is None:
        return None
    advances_at = advance.served_ms + view.stream.unix_shift(view.now)
    return Forecast(advances_at, advance.lower, advance.writers, advance.exclusions)


def _locate_reader(view: View, position: Mapping[int, int], limit: int) -> ReaderPlace:
    aggregator = view.stream.aggregator
    reader = locate_reader(view.history, aggregator.succession.normalise(position), limit)
    waiting_for = (
        replace(waiting, writer=aggregator.find_writer_of(waiting.segment, waiting.needed))
        for waiting in reader.waiting_for
    )
    return replace(reader, waiting_for=tuple(waiting_for))


def writers(
    stream: StreamState, now: Moment, page: range, domain: str | None = None, search: str = ""
) -> WritersPage:
    """Return a page of members: first those that hold back the watermark, then others by time.

    Without a `domain`, those of all domains come first.
    """
    names = _list_holding_back_first(stream, domain)
    total = len(stream.aggregator)
    if search:
        matches = methodcaller("__contains__", search)
        names = filter(matches, names)
        total = sum(map(matches, stream.aggregator.writers()))
    view = View.of(stream, now, domain)
    has_domain = view.domain in stream.histories
    return WritersPage(
        now=now.wall,
        total=total,
        writers=[build_writer_row(view, writer) for writer in islice(names, page.start, page.stop)],
        states=dict(stream.aggregator.domains.census.members),
        next=page.stop if total > page.stop else None,
        forgotten_seq=Vouching(view).forgotten_seq if has_domain else None,
    )


def _list_holding_back_first(stream: StreamState, domain: str | None) -> Iterator[str]:
    """Use iterators of the standard library: a loop over a million members takes seconds."""
    aggregator = stream.aggregator
    if domain is not None:
        by_domain = [aggregator.domains[domain].find_holding_back()]
    else:
        domains = [aggregator.domains[name] for name in stream.settings.domains]
        by_domain = [running.holding_back for running in domains if running.holding_back]
        by_domain.sort(key=lambda tracks: next(iter(tracks.values())).waiting_served_ms)
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
    if number == 0:
        by_time = sorted(members.values(), key=attrgetter("first_track.time"))
    else:
        by_time = sorted(members.values(), key=lambda member: member.track(number).time)
    by_time.sort(key=attrgetter("state"), reverse=True)  # live, idle, finished
    return map(attrgetter("writer"), by_time)


def build_writer_row(view: View, writer: str) -> WriterRow:
    stream = view.stream
    name = view.domain
    now = view.served_ms
    shift = stream.unix_shift(view.now)
    running = stream.aggregator.domains
    record = stream.aggregator.record(writer)
    member = running.members[writer]
    terms = record.terms
    session = record.session
    timeout_ms = stream.settings.writer_timeout_ms
    times_out_at: int | None = None
    left_ms: int | None = None
    without: int | None = None
    if name in stream.histories:  # a stream with several domains may lack the default
        track = member.track(running.numbers[name])
        times_out_served_ms = track.excluded_served_ms(timeout_ms)
        if times_out_served_ms is not None:
            times_out_at = times_out_served_ms + shift
        if writer in running[name].find_holding_back():
            left_ms = find_timeout_ms(stream, track, now)
            without = lower_without(running[name], writer)
    silent_ms = max(0, now - member.noted_served_ms) if member.is_active else None
    own_ms = timeout_ms if terms.timeout_ms is None else terms.timeout_ms
    expected_at = record.expected_at if record.heard_at is None else None
    began_at = None
    began_served_ms = member.holding_back_served_ms
    if began_served_ms is not None:
        began_at = began_served_ms + shift
        if expected_at and began_served_ms == record.noted_served_ms:
            began_at = expected_at
    suspension_ends_at = None
    if terms.suspension_ends_served_ms is not None:
        suspension_ends_at = terms.suspension_ends_served_ms + shift
    return WriterRow(
        writer=writer,
        state="excluded" if member.exclusion else record.state,
        times=record.times,
        position=record.position,
        noted_at=record.heard_at or expected_at or record.noted_served_ms + shift,
        is_expected=expected_at is not None,
        holding_back_began_at=began_at,
        excluded=member.exclusion,
        timeout_ms=terms.timeout_ms,
        domains=terms.domains,
        suspension_ends_at=suspension_ends_at,
        suspended_by=terms.suspended_by,
        suspension_reason=terms.suspension_reason,
        silent_ms=silent_ms,
        is_silent=silent_ms is not None and 2 * silent_ms >= own_ms,
        times_out_at=times_out_at,
        late_rows=record.late_rows,
        no_time_reason=record.no_time_reason,
        observes=member.observes,
        because=member.log_facts,
        session=session.current if session.id else None,
        times_out_in_ms=left_ms,
        lower_without=without,
        vouching={
            name: member.track(number).membership.spells for name, number in running.numbers.items()
        },
        contact=record.contact,
    )


def find_timeout_ms(stream: StreamState, track: Track, served_ms: int) -> int:
    return max(0, track.times_out_served_ms(stream.settings.writer_timeout_ms) - served_ms)


class DomainReading(NamedTuple):
    """The figures of one domain."""

    domain: str
    last: Mark | None
    holding_back: int
    longest: tuple[Waiting, ...]
    late_rows: int


class StreamReading(NamedTuple):
    """The figures of one stream since it was loaded.

    `out` has excluded writers, and since when (Unix ms). `contacts` are theirs.
    """

    name: str
    members: Mapping[MemberState, int]
    excluded: int
    out: Mapping[str, int]
    contacts: Mapping[str, str | None]
    fenced: int
    lost_marks: int
    domains: tuple[DomainReading, ...]


def read_stream(stream: StreamState, served_ms: int) -> StreamReading:
    out = _find_excluded(stream)
    members = stream.aggregator.domains.members
    return StreamReading(
        stream.record.name,
        dict(stream.aggregator.domains.census.members),
        stream.excluded,
        out,
        {writer: members[writer].contact for writer in out},
        stream.fences.notes,
        stream.lost_marks,
        tuple(_read_domain(stream, domain, served_ms) for domain in stream.histories),
    )


def _find_excluded(stream: StreamState) -> dict[str, int]:
    # scanning all members would take longer
    members = stream.aggregator.domains.members
    began_at: dict[str, int] = {}
    for missing in stream.missing.values():
        for absence in islice(missing.list_newest_open(), EXCLUDED_NAMED):
            is_excluded = absence.writer in members and members[absence.writer].excluded
            if is_excluded and absence.began_at is not None:
                began_at[absence.writer] = absence.began_at
    return dict(nlargest(EXCLUDED_NAMED, began_at.items(), key=itemgetter(1)))


def _read_domain(stream: StreamState, domain: str, served_ms: int) -> DomainReading:
    # `decide` would take 20 ms for 100,000 waiting members
    holding_back = stream.aggregator.domains[domain].holding_back
    tracks = nsmallest(
        WRITERS_SCRAPED,
        islice(holding_back.values(), WRITERS_EXAMINED),
        key=attrgetter("waiting_served_ms", "member.writer"),
    )
    longest = tuple(
        Waiting(
            track.member.writer,
            track.noted,
            served_ms - track.waiting_served_ms,
            find_timeout_ms(stream, track, served_ms),
            track.member.contact,
        )
        for track in tracks
    )
    last = stream.histories[domain].last
    late_rows = stream.aggregator.domains[domain].late_rows
    return DomainReading(domain, last, len(holding_back), longest, late_rows)
