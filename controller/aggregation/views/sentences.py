"""Lists what `explain` says of a domain, in order; the words are `noted_time.verdict`'s."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from noted_time.values import NAMES_PER_SENTENCE, Decision, Hold, MemberState, Sealed
from noted_time.verdict import decision_words as words
from noted_time.verdict.words import describe_vouching

HEARD_MS = 60_000  # producers report every ten seconds

HOLDERS_SUPPOSED = 100


def sentences(
    view: View, decision: Decision, found: Explanation, resting: Iterable[str]
) -> Iterator[str]:
    """Yield the sentences of an explanation, with those about writers at rest."""
    states, is_calm = _count_states(view, decision), found.condition == "advancing"
    is_sealed = isinstance(decision, Sealed)
    yield from _list_condition(view, decision, found, states)
    if found.reader is not None:
        yield words.describe_reader(found.reader, is_sealed=is_sealed)
    if is_calm:
        yield _describe_excluded(view)
    hold = None if is_calm and _has_just_begun(decision) else decision
    if isinstance(hold, Hold):
        if is_calm:
            yield words.describe_next_mark(hold.holders)
        yield _describe_longest_holder(view, hold)
    yield from _list_held_notes(view, decision)
    if not is_calm:
        yield from _list_ahead(view, decision, states["live"])
    yield from words.describe_resting(states)
    if isinstance(hold, Hold):
        yield _describe_next_advance(view, hold, found)
        yield from _list_operator_holds(view, hold)
        yield _describe_without_holders(view, hold)
    if found.vouched is not None and found.lower is not None:
        by = describe_vouching(found.vouched, is_sealed=is_sealed)
        yield words.describe_lower(found.lower, by)
    yield from resting
    yield from _list_narrowed(view)
    if not is_calm:
        yield _describe_excluded(view)
    yield from (f"{hint.writer} {hint.detail}" for hint in found.hints)
    if found.would is not None:
        yield words.describe_dry_run(found.would, found.lower)


def _list_condition(
    view: View, decision: Decision, found: Explanation, states: Mapping[MemberState, int]
) -> Iterator[str]:
    lower, who, condition = found.lower, view.title, found.condition
    if condition in SILENT_CONDITIONS:
        yield words.describe_standstill(who, lower, summarize_silence(view.stream))
        yield from list_remedies(view.stream, is_missing=condition == "missing")
    elif condition == "advancing" and lower is not None:
        yield words.describe_advance(who, lower, states["live"], view.now.wall)
    elif isinstance(decision, Hold) and found.overtaking is not None:
        is_late = condition == "holds"
        yield words.describe_overtaking(who, decision, lower, found.overtaking, is_late=is_late)
    else:
        has_writers = any(states.values())
        yield words.describe_decision(who, decision, lower, has_writers=has_writers)


def _has_just_begun(decision: Decision) -> bool:
    return not isinstance(decision, Hold) or decision.waiting_for[0].held_for_ms <= RECENT_MS


def _count_states(view: View, decision: Decision) -> dict[MemberState, int]:
    """Count holders as live, although they may have returned from an exclusion."""
    aggregator = view.stream.aggregator
    states, member = dict(aggregator.domains.census.members), aggregator.member
    waiting_for = decision.waiting_for if isinstance(decision, Hold) else ()
    back = sum(member(waiting.writer).exclusion is not None for waiting in waiting_for)
    return states | {"live": states["live"] + back, "excluded": states["excluded"] - back}


def _describe_longest_holder(view: View, decision: Hold) -> str:
    heard_at = view.stream.aggregator.member(decision.waiting_for[0].writer).heard_at
    heard_ms = None if heard_at is None else view.now.wall - heard_at
    return words.describe_longest_holder(decision, view.history.last_lower, heard_ms)


def _list_held_notes(view: View, decision: Decision) -> Iterator[str]:
    waiting_for = decision.waiting_for if isinstance(decision, Hold) else ()
    for waiting in waiting_for[:NAMES_PER_SENTENCE]:
        member = view.stream.aggregator.member(waiting.writer)
        if member.hold_reason is not None:
            is_heard = view.now.wall - (member.heard_at or 0) < HEARD_MS
            reason = member.hold_reason
            yield words.describe_held_notes(member.writer, reason, is_heard=is_heard)


def _list_ahead(view: View, decision: Decision, live: int) -> Iterator[str]:
    holders = decision.holders if isinstance(decision, Hold) else 0
    if live > holders:
        domain = "" if len(view.stream.settings.domains) == 1 else view.domain
        yield words.describe_ahead(live - holders, has_holders=bool(holders), domain=domain)


def _describe_next_advance(view: View, decision: Hold, found: Explanation) -> str:
    running, foreseen, in_ms = view.running, found.by_itself, 0
    if foreseen is not None:
        in_ms = max(0, foreseen.at - view.stream.unix_shift(view.now) - view.service_ms)
    is_possible = running.next_step_excluding(running.find_holders().keys()) is not None
    return words.describe_next_advance(decision, foreseen, in_ms, is_possible=is_possible)


def _list_operator_holds(view: View, decision: Hold) -> Iterator[str]:
    shift, named = view.stream.unix_shift(view.now), 0
    for each in decision.waiting_for[:MEMBERS_EXAMINED]:
        terms = view.stream.aggregator.member(each.writer).terms
        until = terms.hold_until
        if until is not None and until + shift > view.now.wall and named < NAMES_PER_SENTENCE:
            named += 1
            yield words.describe_operator_hold(
                each.writer, until + shift, terms.held_by, terms.held_for
            )


def _describe_without_holders(view: View, decision: Hold) -> str:
    names, lower = [each.writer for each in decision.waiting_for], view.history.last_lower
    if decision.holders == 1:
        then = lower_without(view.running, names[0])
        return words.describe_without(names[0], f"what {names[0]} writes", lower, then)
    if decision.holders > HOLDERS_SUPPOSED:
        return words.NO_GAIN
    would = view.stream.aggregator.dry_run(view.domain, names, None, view.service_ms)
    every = words.name_all(decision.holders)
    return f"{words.NO_GAIN} {words.describe_without(every, 'what they write', lower, would.lower)}"


def _describe_excluded(view: View) -> str:
    number = view.stream.aggregator.domains.census.members["excluded"]
    some = islice(find_excluded(view.stream), NAMES_PER_SENTENCE if number else 0)
    named = [(each.writer, each.exclusion) for each in some if each.exclusion]
    return words.describe_excluded(named, number)


def _list_narrowed(view: View) -> Iterator[str]:
    """Name members that dropped the domain, with the command that ends their absence."""
    aggregator, domain = view.stream.aggregator, view.domain
    number, absent = aggregator.domains.numbers[domain], view.stream.missing[domain].open
    named = (
        name
        for name in absent
        if name in aggregator and aggregator.member(name).track(number).is_narrowed
    )
    for name in islice(named, NAMES_PER_SENTENCE):
        yield words.describe_narrowed(view.stream.record.name, name, domain)
