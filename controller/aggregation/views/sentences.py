"""Lists what `explain` says of a domain, in order; the words are `noted_time.verdict`'s."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from controller.aggregation.views.conditions import RECENT_MS
from controller.aggregation.views.silence import (
    SILENT_CONDITIONS,
    find_excluded,
    list_remedies,
    summarize_silence,
)
from controller.aggregation.views.suspect_notes import MEMBERS_EXAMINED
from controller.aggregation.views.view import View
from noted_time.answers import Explanation
from noted_time.rules import lower_without
from noted_time.values import (
    NAMES_PER_SENTENCE,
    Decision,
    MemberState,
    Sealed,
    WaitForWriters,
    Waiting,
)
from noted_time.verdict import decision_words as words
from noted_time.verdict.words import describe_vouching

HEARD_MS = 60_000  # producers report every ten seconds

WRITERS_SUPPOSED = 100


def sentences(
    view: View, decision: Decision, explanation: Explanation, resting: Iterable[str]
) -> Iterator[str]:
    """Yield the sentences of an explanation, with those about writers at rest."""
    states = _count_states(view, decision)
    is_calm = explanation.condition == "advancing"
    is_sealed = isinstance(decision, Sealed)
    yield from _list_condition(view, decision, explanation, states)
    if explanation.reader is not None:
        yield words.describe_reader(explanation.reader, is_sealed=is_sealed)
    if is_calm:
        yield _describe_excluded(view)
    described_decision = None if is_calm and _has_just_begun(decision) else decision
    if isinstance(described_decision, WaitForWriters):
        if is_calm:
            yield words.describe_next_mark(described_decision.holding_back_count)
        yield _describe_longest_waiting(view, described_decision)
        yield from _list_contacts(described_decision)
    yield from _list_without_time(view, decision)
    if not is_calm:
        yield from _list_ahead(view, decision, states["live"])
    yield from words.describe_resting(states)
    if isinstance(described_decision, WaitForWriters):
        yield _describe_next_advance(view, described_decision, explanation)
        yield from _list_suspensions(view, described_decision)
        yield _describe_without_writers(view, described_decision)
    if explanation.vouched is not None and explanation.lower is not None:
        vouching_words = describe_vouching(explanation.vouched, is_sealed=is_sealed)
        yield words.describe_lower(explanation.lower, vouching_words)
    yield from resting
    yield from _list_narrowed(view)
    if not is_calm:
        yield _describe_excluded(view)
    yield from (f"{hint.writer} {hint.detail}" for hint in explanation.hints)
    event_time_forms = view.stream.record.event_time_forms.get(view.domain)
    if event_time_forms:
        yield f"Event times are read as stated: {event_time_forms[-1].form}."
    if explanation.dry_run is not None:
        yield words.describe_dry_run(explanation.dry_run, explanation.lower)


def _list_condition(
    view: View, decision: Decision, explanation: Explanation, states: Mapping[MemberState, int]
) -> Iterator[str]:
    lower = explanation.lower
    title = view.title
    condition = explanation.condition
    if condition in SILENT_CONDITIONS:
        yield words.describe_standstill(title, lower, summarize_silence(view.stream))
        yield from list_remedies(view.stream, is_missing=condition == "missing")
    elif condition == "advancing" and lower is not None:
        yield words.describe_advance(title, lower, states["live"], view.now.wall)
    elif isinstance(decision, WaitForWriters) and explanation.overtaking is not None:
        is_late = condition == "held_back"
        yield words.describe_overtaking(
            title, decision, lower, explanation.overtaking, is_late=is_late
        )
    else:
        has_writers = any(states.values())
        yield words.describe_decision(title, decision, lower, has_writers=has_writers)


def _has_just_begun(decision: Decision) -> bool:
    return (
        not isinstance(decision, WaitForWriters)
        or decision.waiting_for[0].held_back_ms <= RECENT_MS
    )


def _count_states(view: View, decision: Decision) -> dict[MemberState, int]:
    """Count members that are waited for as live, even if they returned from an exclusion."""
    aggregator = view.stream.aggregator
    states = dict(aggregator.domains.census.members)
    returned_count = 0
    for waiting in _list_waiting(decision):
        if aggregator.member(waiting.writer).exclusion is not None:
            returned_count += 1
    return states | {
        "live": states["live"] + returned_count,
        "excluded": states["excluded"] - returned_count,
    }


def _list_waiting(decision: Decision) -> Sequence[Waiting]:
    if isinstance(decision, WaitForWriters):
        return decision.waiting_for
    return ()


def _describe_longest_waiting(view: View, decision: WaitForWriters) -> str:
    heard_at = view.stream.aggregator.member(decision.waiting_for[0].writer).heard_at
    heard_ms = None if heard_at is None else view.now.wall - heard_at
    return words.describe_longest_waiting(decision, view.history.last_lower, heard_ms)


def _list_contacts(decision: WaitForWriters) -> Iterator[str]:
    for waiting in decision.waiting_for[:NAMES_PER_SENTENCE]:
        if waiting.contact is not None:
            yield words.describe_contact(waiting.writer, waiting.contact)


def _list_without_time(view: View, decision: Decision) -> Iterator[str]:
    for waiting in _list_waiting(decision)[:NAMES_PER_SENTENCE]:
        member = view.stream.aggregator.member(waiting.writer)
        if member.no_time_reason is not None:
            is_heard = view.now.wall - (member.heard_at or 0) < HEARD_MS
            reason = member.no_time_reason
            yield words.describe_no_time(member.writer, reason, is_heard=is_heard)


def _list_ahead(view: View, decision: Decision, live: int) -> Iterator[str]:
    waiting = decision.holding_back_count if isinstance(decision, WaitForWriters) else 0
    if live > waiting:
        domain = "" if len(view.stream.settings.domains) == 1 else view.domain
        yield words.describe_ahead(live - waiting, has_waiting=bool(waiting), domain=domain)


def _describe_next_advance(view: View, decision: WaitForWriters, explanation: Explanation) -> str:
    running = view.running
    foreseen = explanation.forecast
    in_ms = 0
    if foreseen is not None:
        in_ms = max(0, foreseen.at - view.stream.unix_shift(view.now) - view.served_ms)
    is_possible = running.next_step_excluding(running.find_holding_back().keys()) is not None
    return words.describe_next_advance(decision, foreseen, in_ms, is_possible=is_possible)


def _list_suspensions(view: View, decision: WaitForWriters) -> Iterator[str]:
    shift = view.stream.unix_shift(view.now)
    suspension_count = 0
    for waiting in decision.waiting_for[:MEMBERS_EXAMINED]:
        terms = view.stream.aggregator.member(waiting.writer).terms
        until = terms.suspension_ends_served_ms
        if (
            until is not None
            and until + shift > view.now.wall
            and suspension_count < NAMES_PER_SENTENCE
        ):
            suspension_count += 1
            yield words.describe_suspension(
                waiting.writer, until + shift, terms.suspended_by, terms.suspension_reason
            )


def _describe_without_writers(view: View, decision: WaitForWriters) -> str:
    names = [waiting.writer for waiting in decision.waiting_for]
    lower = view.history.last_lower
    if decision.holding_back_count == 1:
        then = lower_without(view.running, names[0])
        return words.describe_without(names[0], f"what {names[0]} writes", lower, then)
    if decision.holding_back_count > WRITERS_SUPPOSED:
        return words.NO_GAIN
    would = view.stream.aggregator.dry_run(view.domain, names, None, view.served_ms)
    every = words.name_all(decision.holding_back_count)
    return f"{words.NO_GAIN} {words.describe_without(every, 'what they write', lower, would.lower)}"


def _describe_excluded(view: View) -> str:
    number = view.stream.aggregator.domains.census.members["excluded"]
    exclusions = []
    if number > 0:
        for member in islice(find_excluded(view.stream), NAMES_PER_SENTENCE):
            if member.exclusion is not None:
                exclusions.append((member.writer, member.exclusion))
    return words.describe_excluded(exclusions, number)


def _list_narrowed(view: View) -> Iterator[str]:
    """Name members that dropped the domain, with the command that ends their absence."""
    aggregator = view.stream.aggregator
    domain = view.domain
    number = aggregator.domains.numbers[domain]
    absent = view.stream.missing[domain].open_writers
    narrowed_writers = (
        name
        for name in absent
        if name in aggregator and aggregator.member(name).track(number).is_narrowed
    )
    for name in islice(narrowed_writers, NAMES_PER_SENTENCE):
        yield words.describe_narrowed(view.stream.record.name, name, domain)
