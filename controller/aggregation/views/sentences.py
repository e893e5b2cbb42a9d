"""Describes the decision of a domain in sentences for operators.

A page can show their moments, such as `2013-01-01T10:00:00Z`, in another zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from controller.aggregation.views.conditions import RECENT_MS
from controller.aggregation.views.silence import (
    SILENT_CONDITIONS,
    describe_silence,
    find_excluded,
    list_remedies,
    name_all,
)
from controller.aggregation.views.suspect_notes import MEMBERS_EXAMINED
from controller.aggregation.views.view import View
from noted_time.answers import Explanation, Overtaking
from noted_time.reading import ReaderPlace
from noted_time.rules import lower_without
from noted_time.values import (
    NAMES_PER_SENTENCE,
    REASON_WORDS,
    UNIX_MS,
    YEAR_MS,
    Advance,
    Decision,
    Forecast,
    Hold,
    MemberState,
    Quiet,
    Sealed,
    Waiting,
    Would,
    format_gap,
    format_seconds,
    format_time,
    join_names,
    pluralize,
    suggest_ending,
)
from noted_time.verdict.words import describe_vouching

HEARD_MS = 60_000  # producers report every ten seconds

HOLDERS_SUPPOSED = 100


def sentences(
    view: View, decision: Decision, found: Explanation, resting: Iterable[str]
) -> Iterator[str]:
    """Yield the sentences of an explanation, with those about writers at rest."""
    states, is_calm = _count_states(view, decision), found.condition == "advancing"
    yield from _describe_condition(view, decision, found, states)
    if found.reader is not None:
        yield _describe_reader(found.reader, decision)
    if is_calm:
        yield _describe_excluded(view)
    hold = None if is_calm and _has_just_begun(decision) else decision
    if isinstance(hold, Hold):
        if is_calm:
            yield f"Its next mark waits for {pluralize(hold.holders, 'writer')}."
        yield _describe_longest_holder(view, hold)
    yield from _describe_held_notes(view, decision)
    if not is_calm:
        yield from _describe_ahead(view, decision, states["live"])
    yield from _describe_resting(states)
    if isinstance(hold, Hold):
        yield _describe_next_advance(view, hold, found.by_itself)
        yield from _describe_operator_holds(view, hold)
        yield _describe_without_holders(view, hold)
    if found.vouched is not None and found.lower is not None:
        by = describe_vouching(found.vouched, is_sealed=isinstance(decision, Sealed))
        yield f"It is complete to {format_time(found.lower)}, {by}."
    yield from resting
    yield from _describe_narrowed(view)
    if not is_calm:
        yield _describe_excluded(view)
    yield from (f"{hint.writer} {hint.detail}" for hint in found.hints)
    if found.would is not None:
        yield _describe_dry_run(found.would, found.lower)


def _describe_condition(
    view: View, decision: Decision, found: Explanation, states: Mapping[MemberState, int]
) -> Iterator[str]:
    lower, who, condition = found.lower, view.title, found.condition
    if condition in SILENT_CONDITIONS:
        yield f"{who} stands {_format_lower(lower)}: {describe_silence(view.stream)}"
        yield from list_remedies(view.stream, is_missing=condition == "missing")
    elif condition == "advancing" and lower is not None:
        yield _describe_advance(who, lower, states["live"], view.now.wall)
    elif isinstance(decision, Hold) and found.overtaking is not None:
        is_late = condition == "holds"
        yield _describe_overtaking(who, decision, lower, found.overtaking, is_late=is_late)
    else:
        yield _describe_decision(who, decision, lower, has_writers=any(states.values()))


def _has_just_begun(decision: Decision) -> bool:
    return not isinstance(decision, Hold) or decision.waiting_for[0].held_for_ms <= RECENT_MS


def _describe_advance(who: str, lower: int, live: int, now: int) -> str:
    lag = max(0, now - lower)
    is_near = lower in UNIX_MS and lag < YEAR_MS
    far = f"{format_seconds(lag)} behind" if is_near else f"now at {format_time(lower)}"
    writers = {0: "no writer is live", 1: "its live writer notes"}
    return f"{who} advances, {far}: {writers.get(live, f'{name_all(live)} live writers note')}."


def _describe_overtaking(
    who: str, decision: Hold, lower: int | None, overtaking: Overtaking, *, is_late: bool
) -> str:
    named = [each.writer for each in decision.waiting_for[:NAMES_PER_SENTENCE]]
    does = f"holds {_format_lower(lower)}: it waits" if is_late else f"waits {_format_lower(lower)}"
    noted = f"{overtaking.writer or 'another writer'} noted {format_time(overtaking.time)}"
    since, names = format_time(overtaking.since), join_names(named, decision.holders)
    return f"{who} {does} for {names} since {since}, and {noted}."


def _describe_decision(
    who: str, decision: Decision, lower: int | None, *, has_writers: bool
) -> str:
    at = _format_lower(lower)
    match decision:
        case Hold():
            return f"{who} holds {at}: it waits for {pluralize(decision.holders, 'writer')}."
        case Advance():
            return f"{who} advances to {format_time(decision.lower)}, its first mark."
        case Sealed():
            return f"{who} is sealed {at}: it takes no more notes, and no mark follows."
        case Quiet() if has_writers:
            return f"{who} is quiet {at}: it waits for no writer, and everything noted is marked."
        case Quiet():
            none = "no writer has joined yet" if lower is None else "its writers left long ago"
            return f"{who} stands {at}: {none}; nothing advances it."


def _describe_reader(reader: ReaderPlace, decision: Decision) -> str:
    if reader.next_lower is None:
        waits = "" if isinstance(decision, Sealed) else ": it waits for the next one"
        return f"A reader at this position has reached all marks{waits}."
    needs = []
    for each in reader.waiting_for[:NAMES_PER_SENTENCE]:
        noted = f", as {each.writer} noted" if each.writer else ""
        needs.append(f"segment {each.segment} to {each.needed}{noted} (read to {each.offset})")
    mark = f"mark {reader.next_seq}, {format_time(reader.next_lower)}"
    return (
        f"A reader at this position is {_format_lower(reader.lower)}, "
        f"{pluralize(reader.marks, 'mark')} behind."
        f" It waits for {pluralize(reader.segments, 'segment')}, not for a writer: {mark}, needs "
        f"{join_names(needs, reader.segments)}."
    )


def _count_states(view: View, decision: Decision) -> dict[MemberState, int]:
    """Count holders as live, although they may have returned from an exclusion."""
    aggregator = view.stream.aggregator
    states, member = dict(aggregator.domains.census.members), aggregator.member
    waiting_for = decision.waiting_for if isinstance(decision, Hold) else ()
    back = sum(member(waiting.writer).exclusion is not None for waiting in waiting_for)
    return states | {"live": states["live"] + back, "excluded": states["excluded"] - back}


def _describe_longest_holder(view: View, decision: Hold) -> str:
    first = decision.waiting_for[0]
    held, state = format_seconds(first.held_for_ms), _describe_noted(first, view.history.last_lower)
    heard_at = view.stream.aggregator.member(first.writer).heard_at
    if heard_at is not None:
        state += f", and was last heard {format_seconds(view.now.wall - heard_at)} ago"
    if decision.holders == 1:
        return f"{first.writer} has held it for {held}: it {state}."
    names = join_names(
        [each.writer for each in decision.waiting_for[:NAMES_PER_SENTENCE]], decision.holders
    )
    return f"They are {names}. {first.writer} has held it longest, for {held}: it {state}."


def _describe_held_notes(view: View, decision: Decision) -> Iterator[str]:
    waiting_for = decision.waiting_for if isinstance(decision, Hold) else ()
    for waiting in waiting_for[:NAMES_PER_SENTENCE]:
        member = view.stream.aggregator.member(waiting.writer)
        if member.hold_reason is not None:
            is_heard = view.now.wall - (member.heard_at or 0) < HEARD_MS
            verb = "is alive, but" if is_heard else "reported before it fell silent:"
            yield f"{member.writer} {verb} {member.hold_reason}."


def _describe_noted(first: Waiting, lower: int | None) -> str:
    if first.time is None:
        return "has noted no time yet"
    if lower is not None and first.time < lower:
        return f"noted {format_time(first.time)}, which is below the watermark"
    return f"noted {format_time(first.time)} and no later time"


def _describe_ahead(view: View, decision: Decision, live: int) -> Iterator[str]:
    holders = decision.holders if isinstance(decision, Hold) else 0
    ahead = max(0, live - holders)
    if ahead:
        verb, does = ("has", "does") if ahead == 1 else ("have", "do")
        is_one = len(view.stream.settings.domains) == 1
        vouches = "" if is_one else f", or {does} not vouch for {view.domain}"
        writers = pluralize(ahead, "other live writer" if holders else "live writer")
        yield f"{writers} {verb} noted later times{vouches}."


def _describe_resting(states: Mapping[MemberState, int]) -> Iterator[str]:
    resting = [f"{states[state]:,} {state}" for state in ("idle", "finished") if states[state]]
    if resting:
        yield f"Not waited for: {' and '.join(resting)}."


def _describe_next_advance(view: View, decision: Hold, foreseen: Forecast | None) -> str:
    waits, running = decision.waiting_for, view.running
    is_one = decision.holders == 1
    who = waits[0].writer if is_one else "each of them"
    noted = f"It advances when {who} notes a later time"
    ends = f"when {who if is_one else 'the last of them'} times out"
    if foreseen is not None:
        in_ms = max(0, foreseen.at - view.stream.unix_shift(view.now) - view.service_ms)
        prediction = f"{noted}, or automatically in {format_seconds(in_ms)}, {ends}"
        if foreseen.exclusions == decision.holders:
            return f"{prediction}."
        names = join_names(foreseen.writers, foreseen.exclusions)
        return f"{prediction}: then to {format_time(foreseen.lower)}, without {names}."
    if running.next_step_excluding(running.find_holders().keys()) is None:
        return f"{noted}, not by itself: no other writer has noted a later time."
    at = format_seconds(max(each.times_out_in_ms for each in waits))
    return f"{noted}, or automatically in {at} at the earliest, {ends}."


def _describe_operator_holds(view: View, decision: Hold) -> Iterator[str]:
    shift, named = view.stream.unix_shift(view.now), 0
    for each in decision.waiting_for[:MEMBERS_EXAMINED]:
        terms = view.stream.aggregator.member(each.writer).terms
        until = terms.hold_until
        if until is not None and until + shift > view.now.wall and named < NAMES_PER_SENTENCE:
            named += 1
            why = ": ".join(filter(None, (terms.held_by, terms.held_for)))
            yield (
                f"{each.writer} is held by an operator until {format_time(until + shift)}"
                f"{f' ({why})' if why else ''}."
            )


def _describe_without_holders(view: View, decision: Hold) -> str:
    names, lower = [each.writer for each in decision.waiting_for], view.history.last_lower
    if decision.holders == 1:
        then = lower_without(view.running, names[0])
        return _describe_without(names[0], f"what {names[0]} writes", lower, then)
    one = "Leaving out only one of them changes nothing."
    if decision.holders > HOLDERS_SUPPOSED:
        return one
    would = view.stream.aggregator.dry_run(view.domain, names, None, view.service_ms)
    every = name_all(decision.holders)
    return f"{one} {_describe_without(every, 'what they write', lower, would.lower)}"


def _describe_without(who: str, what: str, lower: int | None, then: int | None) -> str:
    if then is None:
        return f"Without {who} there would still be no mark."
    if then == lower:
        return f"Without {who} it would stay where it is: no other writer has noted a later time."
    return (
        f"Without {who} it would be at {format_time(then)}{_format_gain(lower, then)}; "
        f"{what} below that would then be late."
    )


def _describe_excluded(view: View) -> str:
    number = view.stream.aggregator.domains.census.members["excluded"]
    if not number:
        return "No writer is excluded."
    members = islice(find_excluded(view.stream), NAMES_PER_SENTENCE)
    named = [
        (
            each.writer,
            f"since {format_time(each.exclusion.since)} ({REASON_WORDS[each.exclusion.reason]})",
        )
        for each in members
        if each.exclusion
    ]
    if number == len(named) == 1:
        return "{} is excluded {}.".format(*named[0])
    who = join_names([" ".join(each) for each in named], number)
    return f"Excluded: {who if named else pluralize(number, 'writer')}."


def _describe_narrowed(view: View) -> Iterator[str]:
    """Name members that dropped the domain, with the command that ends their absence."""
    aggregator, domain = view.stream.aggregator, view.domain
    number, absent = aggregator.domains.numbers[domain], view.stream.missing[domain].open
    named = (
        name
        for name in absent
        if name in aggregator and aggregator.member(name).track(number).narrowed_at is not None
    )
    for name in islice(named, NAMES_PER_SENTENCE):
        remedy = suggest_ending(view.stream.record.name, name, domain)
        yield f"{name} dropped {domain}, and marks may lack its rows: {remedy}."


def _describe_dry_run(would: Would, lower: int | None) -> str:
    if would.decision != "advance" or would.lower is None:
        verb = {"hold": "hold", "quiet": "be quiet", "sealed": "stay sealed"}[would.decision]
        return f"Then it would {verb} {_format_lower(would.lower)}."
    then = f"Then it would advance to {format_time(would.lower)}{_format_gain(lower, would.lower)}"
    if not would.excluded:
        return f"{then}."
    names = join_names(would.excluded[:NAMES_PER_SENTENCE], len(would.excluded))
    write = f"{names} writes" if len(would.excluded) == 1 else "they write"
    return f"{then}, without {names}: what {write} below that would then be late."


def _format_lower(lower: int | None) -> str:
    return "before its first mark" if lower is None else f"at {format_time(lower)}"


def _format_gain(lower: int | None, then: int) -> str:
    if lower is None or (lower in UNIX_MS) != (then in UNIX_MS):  # they may have different units
        return ""
    return f", {format_gap(lower, then)} later"
