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
    faults = [
        ({"READ", "WRITE"}.isdisjoint(operations), f"{fact}: neither READ nor WRITE", RIGHTS_REMEDY)
    ]
    missing_right = "" if "READ" in operations else ": not READ, which readers and observers need"
    return judge("rights", faults, f"{fact}{missing_right}")


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
    marks = examined_stream.stream["marks"].values() if examined_stream else ()
    ages: list[int] = [mark["written_at"] - mark["lower"] for mark in marks if mark]
    newest = max((stamp.time for stamp in look.newest.values()), default=now)
    return max(0, *(ages or [now - newest]))


def judge_settings(
    settings: Mapping[str, str], age_ms: int, ahead_ms: int | None, *, is_observed: bool
) -> list[Finding]:
    """Judge the settings of a topic, by the age of events when they are noted.

    `ahead_ms` is the stream's limit for times ahead. Only observers note if `is_observed`.

    >>> stamped = {"message.timestamp.type": "LogAppendTime", "retention.ms": "1000"}
    >>> [each.fact for each in judge_settings(stamped, 5000, 0, is_observed=False)]
    ['message.timestamp.type=LogAppendTime: the broker overwrites the event times']
    """
    is_stamped = settings.get(TIMESTAMP_TYPE) == "LogAppendTime"
    names = "retention.ms", *(f"message.timestamp.{name}.max.ms" for name in ("before", "after"))
    # with LogAppendTime the limits do not concern event times
    limits = (MAX_INT64 if is_stamped else int(settings.get(name, MAX_INT64)) for name in names)
    retention_ms, before_ms, after_ms = limits
    max_ahead_ms = MAX_INT64 if ahead_ms is None else ahead_ms
    age = f"and events are up to {format_duration(age_ms)} old when they are noted"
    limit = "any time" if ahead_ms is None else f"{format_duration(ahead_ms)} ahead"
    is_compacted = "compact" in settings.get("cleanup.policy", "")
    faults = (
        (
            is_stamped and not is_observed,
            TIMESTAMP_TYPE,
            "the broker overwrites the event times",
            STAMPS_REMEDY,
        ),
        (is_compacted, "cleanup.policy", "records may be deleted before they are read", "delete"),
        (0 <= retention_ms < age_ms, names[0], f"records are deleted by their times, {age}", "-1"),
        (before_ms < age_ms, names[1], f"older events are refused, {age}", MAX_INT64),
        (
            after_ms < max_ahead_ms,
            names[2],
            f"later events are refused, the stream takes {limit}",
            max_ahead_ms,
        ),
    )
    described_faults = (
        (is_so, f"{name}={settings.get(name)}: {fact}", f"set {name}={value}")
        for is_so, name, fact, value in faults
    )
    shown_settings = (
        f"{name}={settings.get(name)}" for name in (TIMESTAMP_TYPE, names[0], "cleanup.policy")
    )
    return judge("topic settings", described_faults, ", ".join(shown_settings))


def judge_replication(settings: Mapping[str, str], replicas: int) -> list[Finding]:
    """Find the settings of a replicated topic that can lose acknowledged records.

    >>> lossy = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    >>> [[each.remedy for each in judge_replication(lossy, count)] for count in (1, 3)]
    [[], ['set unclean.leader.election.enable=false', 'set min.insync.replicas=2']]
    """
    values = ("unclean.leader.election.enable", "true", "false"), ("min.insync.replicas", "1", "2")
    fact = "a broker that fails can lose acknowledged records, and marks do not show it"
    return [
        Finding("replication", "wrong", f"{name}={lossy}: {fact}", f"set {name}={safe}")
        for name, lossy, safe in values
        if replicas > 1 and settings.get(name) == lossy
    ]


STAMPS_REMEDY = f"CreateTime, or observe it: {name_program()} observe kafka timestamp --delay …"


def judge_log(look: TopicLook, examined_stream: ExaminedStream) -> list[Finding]:
    logs, name = examined_stream.stream["logs"], examined_stream.stream["name"]
    link_command = (
        f"{name_program()} stream log {name} {look.id} (page 'Mirrors and several clusters')"
    )
    remedy = f"use a separate stream; or, if it was linked: {link_command}"
    fact = f"the topic has the id {look.id}, and {name} is of {', '.join(logs) or 'no log yet'}"
    is_other = look.id and logs and look.id not in logs
    return judge("log", [(is_other, fact, remedy)], fact)


def judge_segments(look: TopicLook, examined_stream: ExaminedStream) -> list[Finding]:
    """Judge the writers' positions, which were read before the topic's ends."""
    writers_ends: dict[int, tuple[int, str]] = {}
    for row in examined_stream.page["writers"]:
        for segment, offset in row["position"].items():
            number = int(segment)
            writers_ends[number] = max(writers_ends.get(number, (0, "")), (offset, row["writer"]))
    ends, partitions = look.ends, look.partitions
    segments_beyond = [
        f"{segment} to {noted_end} by {writer}"
        for segment, (noted_end, writer) in writers_ends.items()
        if noted_end > ends.get(segment, noted_end)
    ]
    bare_segments = sorted(
        segment for segment, end in ends.items() if end and segment not in writers_ends
    )
    strange_segments, unled_partitions = (
        sorted(writers_ends.keys() - partitions),
        sorted(look.unknown),
    )
    page = "page 'Symptoms and remedies', section 'An offset is wrong'"
    faults = (
        (
            unled_partitions,
            f"partitions without a leader: {unled_partitions}",
            "see the log of the broker",
        ),
        (
            segments_beyond,
            f"segments noted beyond the end of their partition: {', '.join(segments_beyond)}",
            page,
        ),
        (
            strange_segments,
            f"segments that are noted and no partition: {strange_segments}",
            "name another topic",
        ),
        (
            bare_segments,
            f"partitions with records and no position: {bare_segments}",
            "have each producer note",
        ),
    )
    return judge(
        "segments", faults, f"{pluralize(len(partitions), 'partition')}, {len(writers_ends)} noted"
    )
