"""The words of a watermark that advances or waits, for `explain`, `/readyz` and the doctor.

A page can show their moments, such as `2013-01-01T10:00:00Z`, in another zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from noted_time.reading import ReaderPlace
from noted_time.values import (
    NAMES_PER_SENTENCE,
    STATUS_WORDS,
    UNIX_MS,
    YEAR_MS,
    Advance,
    Decision,
    DryRun,
    Exclusion,
    Forecast,
    MemberState,
    Overtaking,
    Quiet,
    Sealed,
    WaitForWriters,
    Waiting,
    format_gap,
    format_seconds,
    format_time,
    join_names,
    pluralize,
    suggest_ending,
)
from noted_time.verdict.words import describe_waiting

NOTHING_LATE = "No later time was noted, so nothing is late."
NO_GAIN = "Leaving out only one of them changes nothing."


def name_all(number: int) -> str:
    """Return a phrase for all of `number` writers.

    >>> name_all(2), name_all(3)
    ('both', 'all 3')
    """
    return "both" if number == 2 else f"all {number:,}"  # noqa: PLR2004 - a pair


def format_lower(lower: int | None) -> str:
    if lower is None:
        return "before its first mark"
    return f"at {format_time(lower)}"


def describe_advance(stream: str, lower: int, live: int, now: int) -> str:
    lag = max(0, now - lower)
    is_near = lower in UNIX_MS and lag < YEAR_MS
    if is_near:
        progress = f"{format_seconds(lag)} behind"
    else:
        progress = f"now at {format_time(lower)}"
    writers = {0: "no writer is live", 1: "its live writer notes"}
    return (
        f"{stream} advances, {progress}: "
        f"{writers.get(live, f'{name_all(live)} live writers note')}."
    )


def describe_overtaking(
    stream: str,
    decision: WaitForWriters,
    lower: int | None,
    overtaking: Overtaking,
    *,
    is_late: bool,
) -> str:
    writers = [waiting_writer.writer for waiting_writer in decision.waiting_for]
    clause = describe_waiting(writers, decision.holding_back_count)
    last_note = f"{overtaking.writer or 'another writer'} noted {format_time(overtaking.time)}"
    ending = f"since {format_time(overtaking.began_at)}, and {last_note}."
    place = format_lower(lower)
    if is_late:
        return f"{stream} is held back {place}: {clause} {ending}"
    return f"{stream} waits {place} {clause.removeprefix('it waits ')} {ending}"


def describe_decision(
    stream: str, decision: Decision, lower: int | None, *, has_writers: bool
) -> str:
    place = format_lower(lower)
    match decision:
        case WaitForWriters():
            writers = pluralize(decision.holding_back_count, "writer")
            return f"{stream} is held back {place}: it waits for {writers}."
        case Advance():
            return f"{stream} advances to {format_time(decision.lower)}, its first mark."
        case Sealed():
            return f"{stream} is sealed {place}: it takes no more notes, and no mark follows."
        case Quiet() if has_writers:
            return (
                f"{stream} is quiet {place}: it waits for no writer, and everything noted is "
                "marked."
            )
        case Quiet():
            reason = "its writers left long ago"
            if lower is None:
                reason = "no writer has joined yet"
            return describe_standstill(stream, lower, reason)


def describe_standstill(stream: str, lower: int | None, reason: str) -> str:
    return f"{stream} stands {format_lower(lower)}: {reason}; nothing advances it."


def describe_silence(
    excluded_count: int, last_at: int | None, *, are_silent: bool, has_finished_writers: bool
) -> str:
    """Describe a stream whose writers are all excluded, except for finished ones if it has them.

    `last_at` is the Unix time when one of them was heard last, `None` if it is unknown.

    >>> describe_silence(2, None, are_silent=True, has_finished_writers=True)
    'all writers that have not finished are silent'
    """
    subject = "its only writer is"
    silence = "silent"
    if excluded_count > 1:
        subject = f"{name_all(excluded_count)} writers are"
    if has_finished_writers:
        subject = "all writers that have not finished are"
    if last_at is not None and excluded_count > 1:
        silence = f"silent, the last since {format_time(last_at)}"
    elif last_at is not None:
        silence = f"silent since {format_time(last_at)}"
    return f"{subject} {silence if are_silent else 'excluded'}"


def describe_never_noted(number: int) -> str:
    """Describe a stream without a note.

    >>> describe_never_noted(1), describe_never_noted(1200)
    ('its only writer has never noted', 'none of its 1,200 writers has ever noted')
    """
    subject = "its only writer has never"
    if number != 1:
        subject = f"none of its {number:,} writers has ever"
    return f"{subject} noted"


def describe_return(number: int) -> str:
    """Describe when a stream advances whose `number` of writers are silent."""
    writer = "that writer" if number == 1 else "one of them"
    return f"It advances when {writer} notes a later time."


def describe_reader(reader: ReaderPlace, *, is_sealed: bool) -> str:
    if reader.next_lower is None:
        waiting_clause = "" if is_sealed else ": it waits for the next one"
        return f"A reader at this position has reached all marks{waiting_clause}."
    needed_segments = []
    for segment in reader.waiting_for[:NAMES_PER_SENTENCE]:
        noted_clause = ""
        if segment.writer:
            noted_clause = f", as {segment.writer} noted"
        needed_segments.append(
            f"segment {segment.segment} to {segment.needed}{noted_clause} "
            f"(read to {segment.offset})"
        )
    mark = f"mark {reader.next_seq}, {format_time(reader.next_lower)}"
    return (
        f"A reader at this position is {format_lower(reader.lower)}, "
        f"{pluralize(reader.marks, 'mark')} behind."
        f" It waits for {pluralize(reader.segments, 'segment')}, not for a writer: {mark}, needs "
        f"{join_names(needed_segments, reader.segments)}."
    )


def describe_next_mark(writers: int) -> str:
    return f"Its next mark waits for {pluralize(writers, 'writer')}."


def describe_lower(lower: int, vouching: str) -> str:
    return f"It is complete to {format_time(lower)}, {vouching}."


def describe_longest_waiting(
    decision: WaitForWriters, lower: int | None, heard_ms: int | None
) -> str:
    """Describe the waiting writers. The first was heard `heard_ms` ago, if it ever noted."""
    first = decision.waiting_for[0]
    held_back = format_seconds(first.held_back_ms)
    last_note = _describe_noted(first, lower)
    if heard_ms is not None:
        last_note += f", and was last heard {format_seconds(heard_ms)} ago"
    if decision.holding_back_count == 1:
        return f"{first.writer} has held it back for {held_back}: it {last_note}."
    names = join_names(
        [waiting_writer.writer for waiting_writer in decision.waiting_for],
        decision.holding_back_count,
    )
    return (
        f"They are {names}. {first.writer} has held it back longest, for {held_back}: "
        f"it {last_note}."
    )


def describe_contact(writer: str, contact: str) -> str:
    return f"The contact of {writer} is {contact}."


def describe_no_time(writer: str, reason: str, *, is_heard: bool) -> str:
    """Describe a writer that reported why it notes no later time."""
    verb = "reported before it fell silent:"
    if is_heard:
        verb = "is alive, but"
    return f"{writer} {verb} {reason}."


def _describe_noted(first: Waiting, lower: int | None) -> str:
    if first.time is None:
        return "has noted no time yet"
    if lower is not None and first.time < lower:
        return f"noted {format_time(first.time)}, which is below the watermark"
    return f"noted {format_time(first.time)} and no later time"


def describe_ahead(ahead: int, *, has_waiting: bool, domain: str) -> str:
    """Describe live writers beyond the lower; `domain` is empty if it is the only one."""
    writers = pluralize(ahead, "other live writer" if has_waiting else "live writer")
    clause = "have noted later times"
    exception = f", or do not vouch for {domain}"
    if ahead == 1:
        clause = "has noted later times"
        exception = f", or does not vouch for {domain}"
    return f"{writers} {clause}{exception}." if domain else f"{writers} {clause}."


def describe_resting(states: Mapping[MemberState, int]) -> Iterator[str]:
    resting = [f"{states[state]:,} {state}" for state in ("idle", "finished") if states[state]]
    if resting:
        yield f"Not waited for: {' and '.join(resting)}."


def describe_idle(
    quiet: Sequence[str], alive: Sequence[str], silent: Sequence[str]
) -> Iterator[str]:
    """Describe quiet segments, and idle writers whose process is alive or silent."""
    if quiet:
        yield f"Live, but without new rows: {join_names(quiet)}."
    if alive:
        yield f"Idle, with a live process: {join_names(alive)}."
    if silent:
        yield (
            f"Idle, with a process that fell silent: {join_names(silent)}. Start it again: the "
            "watermark does not wait for rows written meanwhile."
        )


def describe_quiet_segment(segment: int, quiet_ms: int, writer: str, heard_ms: int) -> str:
    return f"segment {segment} for {format_seconds(quiet_ms)} ({writer}, {_format_heard(heard_ms)})"


def describe_idle_writer(writer: str, segments: Sequence[int], idle_ms: int, heard_ms: int) -> str:
    place = ""
    if len(segments) == 1:
        place = f"segment {segments[0]}, "
    return f"{writer} ({place}for {format_seconds(idle_ms)}, {_format_heard(heard_ms)})"


def _format_heard(heard_ms: int) -> str:
    return f"heard {format_seconds(heard_ms)} ago"


def describe_next_advance(
    decision: WaitForWriters, foreseen: Forecast | None, in_ms: int, *, is_possible: bool
) -> str:
    """Describe the next advance: the forecast in `in_ms`, or at the last timeout."""
    waiting_writers = decision.waiting_for
    condition = "It advances when each of them notes a later time"
    timeout_clause = "when the last of them times out"
    if decision.holding_back_count == 1:
        condition = f"It advances when {waiting_writers[0].writer} notes a later time"
        timeout_clause = f"when {waiting_writers[0].writer} times out"
    if foreseen is not None:
        prediction = f"{condition}, or automatically in {format_seconds(in_ms)}, {timeout_clause}"
        if foreseen.exclusions == decision.holding_back_count:
            return f"{prediction}."
        names = join_names(foreseen.writers, foreseen.exclusions)
        return f"{prediction}: then to {format_time(foreseen.lower)}, without {names}."
    if not is_possible:
        return f"{condition}, not by itself: no other writer has noted a later time."
    longest_ms = max(waiting_writer.times_out_in_ms for waiting_writer in waiting_writers)
    earliest = format_seconds(longest_ms)
    return f"{condition}, or automatically in {earliest} at the earliest, {timeout_clause}."


def describe_suspension(writer: str, ends_at: int, operator: str | None, reason: str | None) -> str:
    explanation = ": ".join(filter(None, (operator, reason)))
    bracket = f" ({explanation})" if explanation else ""
    return f"The timeout of {writer} is suspended until {format_time(ends_at)}{bracket}."


def describe_without(writers: str, rows: str, lower: int | None, lower_then: int | None) -> str:
    if lower_then is None:
        return f"Without {writers} there would still be no mark."
    if lower_then == lower:
        return (
            f"Without {writers} it would stay where it is: no other writer has noted a later time."
        )
    return (
        f"Without {writers} it would be at {format_time(lower_then)}"
        f"{_format_gain(lower, lower_then)}; {rows} below that would then be late."
    )


def describe_excluded(first_excluded: Sequence[tuple[str, Exclusion]], number: int) -> str:
    """Describe the first of `number` excluded writers."""
    if not number:
        return "No writer is excluded."
    if not first_excluded:
        return f"Excluded: {pluralize(number, 'writer')}."
    reasons = [
        f"since {format_time(exclusion.excluded_at)} ({STATUS_WORDS[exclusion.reason]})"
        for _, exclusion in first_excluded
    ]
    writers = [writer for writer, _ in first_excluded]
    if number == len(writers) == 1:
        return f"{writers[0]} is excluded {reasons[0]}."
    descriptions = [f"{writer} {reason}" for writer, reason in zip(writers, reasons, strict=True)]
    return f"Excluded: {join_names(descriptions, number)}."


def describe_narrowed(stream: str, writer: str, domain: str) -> str:
    remedy = suggest_ending(stream, writer, domain)
    return f"{writer} dropped {domain}, and marks may lack its rows: {remedy}."


def describe_dry_run(dry_run: DryRun, lower: int | None) -> str:
    if dry_run.decision != "advance" or dry_run.lower is None:
        verb = {"wait": "wait", "quiet": "be quiet", "sealed": "stay sealed"}[dry_run.decision]
        return f"Then it would {verb} {format_lower(dry_run.lower)}."
    outcome = (
        f"Then it would advance to {format_time(dry_run.lower)}{_format_gain(lower, dry_run.lower)}"
    )
    if not dry_run.excluded:
        return f"{outcome}."
    names = join_names(dry_run.excluded)
    writing = "they write"
    if len(dry_run.excluded) == 1:
        writing = f"{names} writes"
    return f"{outcome}, without {names}: what {writing} below that would then be late."


def _format_gain(lower: int | None, lower_then: int) -> str:
    if lower is None or (lower in UNIX_MS) != (
        lower_then in UNIX_MS
    ):  # they may have different units
        return ""
    return f", {format_gap(lower, lower_then)} later"
