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
    names = islice(stream.aggregator.writers(), IDLE_EXAMINED)
    members = [stream.aggregator.member(name) for name in names]
    for member in members:
        for fact, remedy in map(describe_fact, member.log_facts):
            yield f"{member.writer}: {fact}; {remedy}."
    quiet_sentences = list(_describe_quiet_segments(view, members))
    live_sentences: list[str] = []
    ended_sentences: list[str] = []
    for member in members:
        if member.counted_as == "idle" and member.noted_served_ms > member.changed_served_ms:
            sentences = live_sentences if _is_alive(view, member) else ended_sentences
            sentences.append(_describe_idle_writer(view, member))
    yield from describe_idle(quiet_sentences, live_sentences, ended_sentences)


def _describe_quiet_segments(view: View, members: Sequence[Member]) -> Iterator[str]:
    """Yield segments of observers, because other writers choose segments by keys."""
    aggregator = view.stream.aggregator
    history = view.history
    now = view.now.wall
    final_offsets = aggregator.succession.final
    noted_offsets = aggregator.domains.segments.offsets
    last_mark = history.last
    cut_offsets = {} if last_mark is None else last_mark.cut.offsets
    for member, segment in islice(_list_observed_segments(view, members), IDLE_EXAMINED):
        moved_at = history.moved_at(segment)
        if (
            moved_at is not None
            and segment not in final_offsets
            and noted_offsets[segment] <= cut_offsets.get(segment, 0)
            and now - moved_at >= view.stream.settings.writer_timeout_ms
        ):
            unheard_ms = _find_heard_ms(view, member)
            yield describe_quiet_segment(segment, now - moved_at, member.writer, unheard_ms)


def _list_observed_segments(view: View, members: Sequence[Member]) -> Iterator[tuple[Member, int]]:
    for member in members:
        if member.counted_as == "live" and member.observes and _is_alive(view, member):
            for segment in member.position:
                yield member, segment


def _describe_idle_writer(view: View, member: Member) -> str:
    idle_ms = view.served_ms - member.changed_served_ms
    unheard_ms = _find_heard_ms(view, member)
    return describe_idle_writer(member.writer, [*member.position], idle_ms, unheard_ms)


def _find_heard_ms(view: View, member: Member) -> int:
    return view.now.wall - (member.heard_at or view.now.wall)


def _is_alive(view: View, member: Member) -> bool:
    timeout_ms = member.terms.timeout_ms or view.stream.settings.writer_timeout_ms
    return view.served_ms - member.noted_served_ms < timeout_ms
