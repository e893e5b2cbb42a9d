"""Describes writers that the watermark does not wait for, although they are not excluded.

An idle observer notes every few seconds, so its last note shows whether it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from controller.aggregation.draft import Moment
from controller.aggregation.stream import StreamState
from controller.aggregation.views.sentences import NAMES_PER_SENTENCE, describe_fact, join_names
from noted_time import Mark
from noted_time.reading import MarkHistory
from noted_time.rules import Member
from noted_time.values import format_seconds

IDLE_EXAMINED = 100


def describe_idleness(
    stream: StreamState, domain: str, now: Moment, last: Mark | None
) -> Iterator[str]:
    if stream.aggregator.sealed is not None:
        return
    members = [*map(stream.aggregator.member, islice(stream.aggregator.writers(), IDLE_EXAMINED))]
    for member in members:
        for fact, remedy in map(describe_fact, member.log_facts):
            yield f"{member.writer}: {fact}; {remedy}."
    cut = {} if last is None else last.cut.offsets
    quiet = list(_describe_quiet_segments(stream, stream.history(domain), cut, members, now))
    if quiet:
        names = join_names(quiet[:NAMES_PER_SENTENCE], len(quiet))
        yield f"Live, but without new rows: {names}."
    idle = [each for each in members if each.counted_as == "idle" and each.noted_at > each.since]
    live = [
        _describe_idle_writer(stream, each, now) for each in idle if _is_alive(stream, each, now)
    ]
    ended = [
        _describe_idle_writer(stream, each, now)
        for each in idle
        if not _is_alive(stream, each, now)
    ]
    if live:
        yield f"Idle, with a live process: {join_names(live[:NAMES_PER_SENTENCE], len(live))}."
    if ended:
        yield (
            "Idle, with a process that fell silent: "
            f"{join_names(ended[:NAMES_PER_SENTENCE], len(ended))}. Start it "
            "again: the watermark does not wait for rows written meanwhile."
        )


def _describe_quiet_segments(
    stream: StreamState,
    history: MarkHistory,
    cut: Mapping[int, int],
    members: Sequence[Member],
    now: Moment,
) -> Iterator[str]:
    """Yield segments of observers, because other writers choose segments by keys."""
    final, known = stream.aggregator.succession.final, stream.aggregator.domains.segments.offsets
    live = (each for each in members if each.counted_as == "live" and _is_alive(stream, each, now))
    pairs = ((each, segment) for each in live if each.observes for segment in each.position)
    for member, segment in islice(pairs, IDLE_EXAMINED):
        since = history.moved_at(segment)
        if (
            since is not None
            and segment not in final
            and known[segment] <= cut.get(segment, 0)
            and now.wall - since >= stream.settings.writer_timeout_ms
        ):
            quiet = format_seconds(now.wall - since)
            yield f"segment {segment} for {quiet} ({member.writer}, {_describe_heard(member, now)})"


def _describe_idle_writer(stream: StreamState, member: Member, now: Moment) -> str:
    place = f"segment {next(iter(member.position))}, " if len(member.position) == 1 else ""
    since = format_seconds(stream.service_ms(now) - member.since)
    return f"{member.writer} ({place}for {since}, {_describe_heard(member, now)})"


def _describe_heard(member: Member, now: Moment) -> str:
    return f"heard {format_seconds(now.wall - (member.heard_at or now.wall))} ago"


def _is_alive(stream: StreamState, member: Member, now: Moment) -> bool:
    timeout_ms = member.terms.timeout_ms or stream.settings.writer_timeout_ms
    return stream.service_ms(now) - member.noted_at < timeout_ms
