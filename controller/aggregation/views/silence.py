"""Silent streams, whose writers have all finished or are excluded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from controller.aggregation.stream import StreamState
from controller.aggregation.views.suspect_notes import MEMBERS_EXAMINED
from noted_time.answers import Silence
from noted_time.open_enum import list_names
from noted_time.rules import Member
from noted_time.values import DAY_MS
from noted_time.verdict.decision_words import (
    NOTHING_LATE,
    describe_never_noted,
    describe_return,
    describe_silence,
)

SILENT_CONDITIONS = frozenset(list_names(Silence))


def classify_silence(stream: StreamState, wall_ms: int) -> Silence | None:
    """Return `None` if the stream is not silent. Only the first writers to join are examined."""
    domains = stream.aggregator.domains
    counts = domains.census.members
    if not counts["excluded"] or counts["live"] or counts["idle"] or stream.final_cut is not None:
        return None
    if not all(domain.is_quiet for domain in domains):
        return None
    excluded_members = [*find_excluded(stream)]
    has_missing = any(domain.roster.missing for domain in domains) or _has_forgotten_missing(stream)
    if has_missing or any(map(has_never_noted, excluded_members)):
        return "missing"
    since = max(
        (member.exclusion.excluded_at for member in excluded_members if member.exclusion),
        default=wall_ms,
    )
    return "silent" if wall_ms - since < DAY_MS else "ended"


def _has_forgotten_missing(stream: StreamState) -> bool:
    """Return whether the last mark of a domain lacks a writer that is no member any more."""
    for missing in stream.missing.values():
        for writer in missing.open_writers:
            if writer not in stream.aggregator:
                return True
    return False


def find_excluded(stream: StreamState) -> Iterator[Member]:
    members = map(stream.aggregator.member, islice(stream.aggregator.writers(), MEMBERS_EXAMINED))
    return (member for member in members if member.counted_as == "excluded")


def has_never_noted(member: Member) -> bool:
    return member.heard_at is None and member.expected_at is not None


def summarize_silence(stream: StreamState) -> str:
    census = stream.aggregator.domains.census.members
    excluded_members = [*find_excluded(stream)]
    excluded_count = census["excluded"]
    if excluded_members and all(map(has_never_noted, excluded_members)):
        return describe_never_noted(excluded_count)
    last_at = max(
        (member.heard_at for member in excluded_members if member.heard_at is not None),
        default=None,
    )
    are_silent = all(map(_has_timed_out, excluded_members))
    has_finished_writers = census["finished"] > 0
    return describe_silence(
        excluded_count, last_at, are_silent=are_silent, has_finished_writers=has_finished_writers
    )


def list_remedies(stream: StreamState, *, is_missing: bool) -> Iterator[str]:
    if not is_missing and all(map(_has_timed_out, find_excluded(stream))):
        yield NOTHING_LATE
    yield describe_return(stream.aggregator.domains.census.members["excluded"])


def _has_timed_out(member: Member) -> bool:
    return member.exclusion is not None and member.exclusion.reason == "timed_out"
