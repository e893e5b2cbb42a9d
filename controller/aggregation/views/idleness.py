"""Describes writers that the watermark does not wait for, although they are not excluded.

An idle observer notes every few seconds, so its last note shows whether it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from controller.aggregation.views.view import View
from noted_time.rules import Member
from noted_time.verdict.decision_words import (
    describe_idle,
    describe_idle_writer,
    describe_quiet_segment,
)
from noted_time.wording import describe_fact

IDLE_EXAMINED = 100


def describe_idleness(view: View) -> Iterator[str]:
    stream = view.stream
    if stream.aggregator.sealed is not None:
        return
    members = [*map(stream.aggregator.member, islice(stream.aggregator.writers(), IDLE_EXAMINED))]
    for member in members:
        for fact, remedy in map(describe_fact, member.log_facts):
            yield f"{member.writer}: {fact}; {remedy}."
    quiet_sentences = list(_describe_quiet_segments(view, members))
    idle = [
        member
        for member in members
        if member.counted_as == "idle" and member.noted_served_ms > member.changed_served_ms
    ]
    live_sentences = [
        _describe_idle_writer(view, member) for member in idle if _is_alive(view, member)
    ]
    ended_sentences = [
        _describe_idle_writer(view, member) for member in idle if not _is_alive(view, member)
    ]
    yield from describe_idle(quiet_sentences, live_sentences, ended_sentences)


def _describe_quiet_segments(view: View, members: Sequence[Member]) -> Iterator[str]:
    """Yield segments of observers, because other writers choose segments by keys."""
    aggregator = view.stream.aggregator
    history = view.history
    now = view.now.wall
    final = aggregator.succession.final
    offsets = aggregator.domains.segments.offsets
    last = history.last
    cut = {} if last is None else last.cut.offsets
    live_members = (
        member for member in members if member.counted_as == "live" and _is_alive(view, member)
    )
    pairs = (
        (member, segment)
        for member in live_members
        if member.observes
        for segment in member.position
    )
    for member, segment in islice(pairs, IDLE_EXAMINED):
        since = history.moved_at(segment)
        if (
            since is not None
            and segment not in final
            and offsets[segment] <= cut.get(segment, 0)
            and now - since >= view.stream.settings.writer_timeout_ms
        ):
            heard_ms = _find_heard_ms(view, member)
            yield describe_quiet_segment(segment, now - since, member.writer, heard_ms)


def _describe_idle_writer(view: View, member: Member) -> str:
    idle_ms = view.served_ms - member.changed_served_ms
    heard_ms = _find_heard_ms(view, member)
    return describe_idle_writer(member.writer, [*member.position], idle_ms, heard_ms)


def _find_heard_ms(view: View, member: Member) -> int:
    return view.now.wall - (member.heard_at or view.now.wall)


def _is_alive(view: View, member: Member) -> bool:
    timeout_ms = member.terms.timeout_ms or view.stream.settings.writer_timeout_ms
    return view.served_ms - member.noted_served_ms < timeout_ms
