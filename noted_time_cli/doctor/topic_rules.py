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


def judge_rights(allowed: Collection[str]) -> list[Finding]:
    """Judge the operations that a client may do on a topic.

    >>> [judge_rights(may)[0].outcome for may in ({"READ", "DESCRIBE"}, {"WRITE"}, {"DESCRIBE"})]
    ['ok', 'ok', 'wrong']
    """
    fact = f"this client may {', '.join(sorted(allowed))}"
    faults = [
        ({"READ", "WRITE"}.isdisjoint(allowed), f"{fact}: neither READ nor WRITE", RIGHTS_REMEDY)
    ]
    only = "" if "READ" in allowed else ": not READ, which readers and observers need"
    return judge("rights", faults, f"{fact}{only}")


def judge_topic(
    settings: Mapping[str, str], look: TopicLook, seen: ExaminedStream | None, now: int
) -> list[Finding]:
    age = find_age_ms(look, seen, now)
    if seen is None:
        return judge_settings(settings, age, 0, is_observed=False)
    rows = seen.page["writers"]
    is_observed = bool(rows) and all(each["observes"] for each in rows)
    return judge_settings(settings, age, seen.stream["max_time_ahead_ms"], is_observed=is_observed)


def find_age_ms(look: TopicLook, seen: ExaminedStream | None, now: int) -> int:
    """Return the largest age of an event at its mark, or else of the newest record."""
    marks = seen.stream["marks"].values() if seen else ()
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
    names = "retention.ms", *(f"message.timestamp.{each}.max.ms" for each in ("before", "after"))
    # with LogAppendTime the limits do not concern event times
    limits = (MAX_INT64 if is_stamped else int(settings.get(n, MAX_INT64)) for n in names)
    kept_ms, before_ms, after_ms = limits
    most = MAX_INT64 if ahead_ms is None else ahead_ms
    old = f"and events are up to {format_duration(age_ms)} old when they are noted"
    ahead = "any time" if ahead_ms is None else f"{format_duration(ahead_ms)} ahead"
    is_compacted = "compact" in settings.get("cleanup.policy", "")
    faults = (
        (
            is_stamped and not is_observed,
            TIMESTAMP_TYPE,
            "the broker overwrites the event times",
            STAMPS_REMEDY,
        ),
        (is_compacted, "cleanup.policy", "records may be deleted before they are read", "delete"),
        (0 <= kept_ms < age_ms, names[0], f"records are deleted by their times, {old}", "-1"),
        (before_ms < age_ms, names[1], f"older events are refused, {old}", MAX_INT64),
        (after_ms < most, names[2], f"later events are refused, the stream takes {ahead}", most),
    )
    named = (
        (is_so, f"{name}={settings.get(name)}: {fact}", f"set {name}={value}")
        for is_so, name, fact, value in faults
    )
    shown = (
        f"{each}={settings.get(each)}" for each in (TIMESTAMP_TYPE, names[0], "cleanup.policy")
    )
    return judge("topic settings", named, ", ".join(shown))


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


def judge_log(look: TopicLook, seen: ExaminedStream) -> list[Finding]:
    logs, name = seen.stream["logs"], seen.stream["name"]
    linked = f"{name_program()} stream log {name} {look.id} (page 'Mirrors and several clusters')"
    remedy = f"use a separate stream; or, if it was linked: {linked}"
    fact = f"the topic has the id {look.id}, and {name} is of {', '.join(logs) or 'no log yet'}"
    is_other = look.id and logs and look.id not in logs
    return judge("log", [(is_other, fact, remedy)], fact)


def judge_segments(look: TopicLook, seen: ExaminedStream) -> list[Finding]:
    """Judge the writers' positions, which were read before the topic's ends."""
    noted: dict[int, tuple[int, str]] = {}
    for row in seen.page["writers"]:
        for segment, offset in row["position"].items():
            at = int(segment)
            noted[at] = max(noted.get(at, (0, "")), (offset, row["writer"]))
    ends, known = look.ends, look.partitions
    far = [f"{n} to {at} by {who}" for n, (at, who) in noted.items() if at > ends.get(n, at)]
    bare = sorted(n for n, end in ends.items() if end and n not in noted)
    strange, lost = sorted(noted.keys() - known), sorted(look.unknown)
    end = "page 'Symptoms and remedies', section 'An offset is wrong'"
    faults = (
        (lost, f"partitions without a leader: {lost}", "see the log of the broker"),
        (far, f"segments noted beyond the end of their partition: {', '.join(far)}", end),
        (strange, f"segments that are noted and no partition: {strange}", "name another topic"),
        (bare, f"partitions with records and no position: {bare}", "have each producer note"),
    )
    return judge("segments", faults, f"{pluralize(len(known), 'partition')}, {len(noted)} noted")
