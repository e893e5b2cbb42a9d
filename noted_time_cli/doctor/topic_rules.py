"""Rules for a Kafka topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from noted_time.installation import name_program
from noted_time.values import MAX_INT64, Unreachable, format_duration, pluralize
from noted_time_cli.doctor.stream_rules import ExaminedStream
from noted_time_cli.doctor.verdict import Finding, judge

if TYPE_CHECKING:
    from noted_time.kafka import TopicLook


TIMESTAMP_TYPE = "message.timestamp.type"
RETENTION = "retention.ms"
MAX_AGE = "message.timestamp.before.max.ms"
MAX_AHEAD = "message.timestamp.after.max.ms"
CLEANUP_POLICY = "cleanup.policy"
SECURED_PAGE = "page 'Secured brokers'"
RIGHTS_REMEDY = f"grant READ to a reader, WRITE to a producer: {SECURED_PAGE}"


def find_remedy(error: Exception) -> str:
    """Return the remedy for an error while asking for a topic."""
    if not isinstance(error, Unreachable):
        return ""
    if "refused" in str(error) or "resolve" in str(error):
        return "start the broker, or correct --kafka"
    return f"correct --kafka, or name the broker's security settings by --config: {SECURED_PAGE}"


def judge_rights(operations: Collection[str]) -> list[Finding]:
    """Judge the operations that a client may do on a topic.

    >>> [judge_rights(may)[0].outcome for may in ({"READ", "DESCRIBE"}, {"WRITE"}, {"DESCRIBE"})]
    ['ok', 'ok', 'wrong']
    """
    fact = f"this client may {', '.join(sorted(operations))}"
    if {"READ", "WRITE"}.isdisjoint(operations):
        return [Finding("rights", "wrong", f"{fact}: neither READ nor WRITE", RIGHTS_REMEDY)]
    if "READ" not in operations:
        fact += ": not READ, which readers and observers need"
    return [Finding("rights", "ok", fact)]


def judge_topic(
    settings: Mapping[str, str], look: TopicLook, examined_stream: ExaminedStream | None, now: int
) -> list[Finding]:
    age = find_age_ms(look, examined_stream, now)
    if examined_stream is None:
        return judge_settings(settings, age, 0, is_observed=False)
    rows = examined_stream.page["writers"]
    is_observed = bool(rows) and all(row["observes"] for row in rows)
    return judge_settings(
        settings, age, examined_stream.stream["max_time_ahead_ms"], is_observed=is_observed
    )


def find_age_ms(look: TopicLook, examined_stream: ExaminedStream | None, now: int) -> int:
    """Return the largest age of an event at its mark, or else of the newest record."""
    ages: list[int] = []
    if examined_stream is not None:
        marks = [mark for mark in examined_stream.stream["marks"].values() if mark]
        ages = [mark["written_at"] - mark["lower"] for mark in marks]
    if not ages:
        newest_time = max((stamp.time for stamp in look.newest.values()), default=now)
        ages = [now - newest_time]
    return max(0, *ages)


def judge_settings(
    settings: Mapping[str, str], age_ms: int, ahead_ms: int | None, *, is_observed: bool
) -> list[Finding]:
    """Judge the settings of a topic, by the age of events when they are noted.

    `ahead_ms` is the stream's limit for times ahead. Only observers note if `is_observed`.

    >>> stamped = {"message.timestamp.type": "LogAppendTime", "retention.ms": "1000"}
    >>> [finding.fact for finding in judge_settings(stamped, 5000, 0, is_observed=False)]
    ['message.timestamp.type=LogAppendTime: the broker overwrites the event times']
    """
    is_stamped = settings.get(TIMESTAMP_TYPE) == "LogAppendTime"
    is_compacted = "compact" in settings.get(CLEANUP_POLICY, "")
    is_deleted_early = 0 <= _find_limit_ms(settings, RETENTION) < age_ms
    is_refused_as_old = _find_limit_ms(settings, MAX_AGE) < age_ms
    max_ahead_ms = MAX_INT64 if ahead_ms is None else ahead_ms
    is_refused_as_ahead = _find_limit_ms(settings, MAX_AHEAD) < max_ahead_ms
    age = f"and events are up to {format_duration(age_ms)} old when they are noted"
    limit = "any time" if ahead_ms is None else f"{format_duration(ahead_ms)} ahead"
    faults = (
        (
            is_stamped and not is_observed,
            TIMESTAMP_TYPE,
            "the broker overwrites the event times",
            STAMPS_REMEDY,
        ),
        (is_compacted, CLEANUP_POLICY, "records may be deleted before they are read", "delete"),
        (is_deleted_early, RETENTION, f"records are deleted by their times, {age}", "-1"),
        (is_refused_as_old, MAX_AGE, f"older events are refused, {age}", MAX_INT64),
        (
            is_refused_as_ahead,
            MAX_AHEAD,
            f"later events are refused, the stream takes {limit}",
            max_ahead_ms,
        ),
    )
    described_faults = (
        (is_so, f"{name}={settings.get(name)}: {fact}", f"set {name}={value}")
        for is_so, name, fact, value in faults
    )
    names = (TIMESTAMP_TYPE, RETENTION, CLEANUP_POLICY)
    summary = ", ".join(f"{name}={settings.get(name)}" for name in names)
    return judge("topic settings", described_faults, summary)


def _find_limit_ms(settings: Mapping[str, str], name: str) -> int:
    """Return the limit that a setting puts on the age of events, or on how far they are ahead.

    With LogAppendTime, the limits do not concern event times.
    """
    if settings.get(TIMESTAMP_TYPE) == "LogAppendTime":
        return MAX_INT64
    return int(settings.get(name, MAX_INT64))


def judge_replication(settings: Mapping[str, str], replicas: int) -> list[Finding]:
    """Find the settings of a replicated topic that can lose acknowledged records.

    >>> lossy = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    >>> [[finding.remedy for finding in judge_replication(lossy, count)] for count in (1, 3)]
    [[], ['set unclean.leader.election.enable=false', 'set min.insync.replicas=2']]
    """
    if replicas <= 1:
        return []
    values = ("unclean.leader.election.enable", "true", "false"), ("min.insync.replicas", "1", "2")
    fact = "a broker that fails can lose acknowledged records, and marks do not show it"
    findings = []
    for name, lossy, safe in values:
        if settings.get(name) == lossy:
            remedy = f"set {name}={safe}"
            findings.append(Finding("replication", "wrong", f"{name}={lossy}: {fact}", remedy))
    return findings


STAMPS_REMEDY = f"CreateTime, or observe it: {name_program()} observe kafka timestamp --delay …"


def judge_log(look: TopicLook, examined_stream: ExaminedStream) -> list[Finding]:
    logs = examined_stream.stream["logs"]
    name = examined_stream.stream["name"]
    link_command = f"{name_program()} stream log {name} {look.id}"
    page = "page 'Mirrors and several clusters'"
    remedy = f"use a separate stream; or, if it was linked: {link_command} ({page})"
    fact = f"the topic has the id {look.id}, and {name} is of {', '.join(logs) or 'no log yet'}"
    is_other = look.id and logs and look.id not in logs
    return judge("log", [(is_other, fact, remedy)], fact)


def judge_segments(look: TopicLook, examined_stream: ExaminedStream) -> list[Finding]:
    """Judge the writers' positions, which were read before the topic's ends."""
    noted_ends: dict[int, tuple[int, str]] = {}  # the highest noted end and its writer
    for row in examined_stream.page["writers"]:
        for segment_text, offset in row["position"].items():
            segment = int(segment_text)
            noted_ends[segment] = max(noted_ends.get(segment, (0, "")), (offset, row["writer"]))
    segments_beyond = []
    for segment, (noted_end, writer) in noted_ends.items():
        if noted_end > look.ends.get(segment, noted_end):
            segments_beyond.append(f"{segment} to {noted_end} by {writer}")
    bare_segments = sorted(
        segment for segment, end in look.ends.items() if end and segment not in noted_ends
    )
    strange_segments = sorted(noted_ends.keys() - look.partitions)
    leaderless = sorted(look.unknown)
    beyond = f"segments noted beyond the end of their partition: {', '.join(segments_beyond)}"
    bare = f"partitions with records and no position: {bare_segments}"
    strange = f"segments that are noted and no partition: {strange_segments}"
    page = "page 'Symptoms and remedies', section 'An offset is wrong'"
    faults = (
        (leaderless, f"partitions without a leader: {leaderless}", "see the log of the broker"),
        (segments_beyond, beyond, page),
        (strange_segments, strange, "name another topic"),
        (bare_segments, bare, "have each producer note"),
    )
    summary = f"{pluralize(len(look.partitions), 'partition')}, {len(noted_ends)} noted"
    return judge("segments", faults, summary)
