"""Rules for a stream and its writers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from noted_time.client import Json
from noted_time.installation import name_program
from noted_time.values import (
    HOUR_MS,
    UNIX_MS,
    LogFact,
    describe_lead,
    format_duration,
    format_seconds,
    format_time,
    is_ahead_of_clock,
    join_names,
)
from noted_time.verdict.words import EXPECTS_NO_WRITERS, suggest_expecting
from noted_time.wording import describe_fact
from noted_time_cli.doctor.verdict import Finding, judge

SHORT_MS = 5000  # a shorter timeout excludes a writer during a restart or a pause of its runtime

TROUBLE_PAGE = "page 'Symptoms and remedies'"
SILENT_STATES = frozenset(("missing", "silent"))
AHEAD_OF_CLOCK = "ahead of the controller's clock"
# `{}` stands for the stream.
FAULT_REMEDIES = {
    "never came": "start it, or end it: {program} note {} WRITER --join --state finished",
    "excluded": "start it again, unless it was removed for good; {program} ledger {}",
    "alive, but not noting": "see the log of its process; {program} writers {}",
    "silent": "see whether its process runs; {program} explain {}",
    "holding back without a time": (
        "note each, or WriterClient(domains=…); {program} stream show {}"
    ),
    "holding back for longer than its timeout": "see why its times are old; {program} explain {}",
    AHEAD_OF_CLOCK: (
        "correct its clock or its event times, or what it writes below its time is late"
    ),
    "too_far_ahead": "correct its clock, its event times or their unit: its notes are refused",
    "seconds": f"note Unix milliseconds: {TROUBLE_PAGE}",
    "no_position": "give a position with each note, or no cut covers its rows",
    "late": f"note only complete times, join and flush before the first write: {TROUBLE_PAGE}",
    "late records": "give the observer a longer --delay, or correct the clocks that are ahead",
    "shared name": f"give each process a separate writer name: {TROUBLE_PAGE}",
}


class ExaminedStream(NamedTuple):
    """A stream, a page of its writers, and the explanation of each domain."""

    stream: Json
    page: Json
    explained: Mapping[str, Json]


def judge_stream(facts: ExaminedStream) -> list[Finding]:
    findings = [*judge_settings(facts.stream), *judge_expected_writers(facts.stream)]
    for domain, explanation in facts.explained.items():
        findings.append(judge_domain(facts.stream["name"], domain, explanation))
        if not facts.page["writers"]:  # then all domains have the same fault
            break
    return [*findings, *judge_writers(facts)]


def judge_settings(stream: Json) -> list[Finding]:
    """Judge the settings of a stream.

    >>> made = {"name": "s", "seal": None, "writer_timeout_ms": 1000, "marks": {"default": None}}
    >>> kept = {"mark_retention_ms": 604800000, "max_time_ahead_ms": 3600000, "id": "9b"}
    >>> [finding.remedy for finding in judge_settings(made | kept)]
    ['noted-time stream set s --writer-timeout 60s']
    """
    name = stream["name"]
    timeout = format_duration(stream["writer_timeout_ms"])
    retention = format_duration(stream["mark_retention_ms"])
    is_short = stream["writer_timeout_ms"] < SHORT_MS
    is_brief = stream["mark_retention_ms"] < HOUR_MS
    are_unix = any(mark["lower"] in UNIX_MS for mark in stream["marks"].values() if mark)
    is_unbound = are_unix and stream["max_time_ahead_ms"] is None
    faults = (
        (is_short, f"a pause of {timeout} excludes a writer", "--writer-timeout 60s"),
        (is_brief, f"marks are kept for {retention} only", "--mark-retention 7d"),
        (is_unbound, "no time is refused as too far ahead", "--max-time-ahead 1h"),
    )
    change = f"{name_program()} stream set {name}"
    described_faults = (
        (is_so, f"{name}: {fact}", f"{change} {remedy}") for is_so, fact, remedy in faults
    )
    summary = f"{name} has the id {stream['id']}, and waits for a silent writer for {timeout}"
    if stream["seal"]:
        summary += f"; sealed at {format_time(stream['seal']['at'])}, it takes no notes"
    return judge("stream", described_faults, summary)


def judge_expected_writers(stream: Json) -> list[Finding]:
    if stream["expected_writers"]:
        return []
    fact = f"{stream['name']} {EXPECTS_NO_WRITERS}"
    remedy = suggest_expecting(stream["name"])
    return [Finding("expected writers", "not checked", fact, remedy)]


def judge_domain(stream: str, domain: str, explanation: Json) -> Finding:
    check = f"domain {domain}"
    fact = " ".join(explanation["sentences"])
    if explanation["silence"] in SILENT_STATES or explanation["lower"] is None:
        explain_command = f"{name_program()} explain {stream} --domain {domain}"
        return Finding(check, "wrong", fact, f"start the writers; {explain_command}")
    return Finding(check, "ok", fact)


def judge_writers(facts: ExaminedStream) -> list[Finding]:
    writers_by_fault = defaultdict[tuple[str, str], dict[str, None]](dict)
    for writer_fault in find_faults(facts):
        writers = writers_by_fault[writer_fault.fault, writer_fault.remedy]
        writers[writer_fault.writer] = None
    faults = (
        (True, f"{fault}: {join_names([*writers])}", remedy)
        for (fault, remedy), writers in writers_by_fault.items()
    )
    page = facts.page
    counts = ", ".join(f"{number:,} {state}" for state, number in page["states"].items())
    return judge("writers", faults, f"{counts}; looked at {len(page['writers']):,}")


class WriterFault(NamedTuple):
    """A writer, perhaps with the detail of its fault, the fault and the remedy."""

    writer: str
    fault: str
    remedy: str


def find_faults(facts: ExaminedStream) -> Iterator[WriterFault]:
    """Yield the faults of writers: by their rows first, then by the hints of `explain`."""
    stream, page, explanations = facts
    writers_ahead = set[str]()
    for row in page["writers"]:
        for fault, detail in find_writer_faults(row, stream, page["now"]):
            if fault == AHEAD_OF_CLOCK:
                writers_ahead.add(row["writer"])
            remedy = FAULT_REMEDIES[fault].format(stream["name"], program=name_program())
            writer = f"{row['writer']} ({detail})" if detail else row["writer"]
            yield WriterFault(writer, fault, remedy)
        for fields in row["because"]:
            fact = LogFact(**fields)
            if fact.kind != "passed":
                remedy = describe_fact(fact).remedy
                yield WriterFault(row["writer"], fact.kind.replace("_", " "), remedy)
    observers = {row["writer"] for row in page["writers"] if row["observes"]}
    has_no_positions = is_mostly_without_positions(page["writers"])
    for hint in chain.from_iterable(answer["hints"] for answer in explanations.values()):
        fault = hint["hint"]
        if fault == "no_position" and has_no_positions:
            continue
        if fault == "ahead_of_clock":
            if hint["writer"] in writers_ahead:
                continue
            fault = AHEAD_OF_CLOCK
        if fault == "late" and hint["writer"] in observers:
            fault = "late records"
        if fault not in FAULT_REMEDIES:
            fault = "shared name"
        yield WriterFault(hint["writer"], fault.replace("_", " "), FAULT_REMEDIES[fault])


def is_mostly_without_positions(rows: Collection[Json]) -> bool:
    """Return whether most live writers note times alone, so that readers do not use cuts.

    >>> bare, placed = {"state": "live", "position": {}}, {"state": "live", "position": {"0": 5}}
    >>> is_mostly_without_positions([bare, bare, placed]), is_mostly_without_positions([placed])
    (True, False)
    """
    live_rows = [row for row in rows if row["state"] == "live"]
    bare_rows = [row for row in live_rows if not row["position"]]
    return 2 * len(bare_rows) > len(live_rows)


def find_lead(row: Json, now: int) -> str:
    """Return how far the latest time of a writer is ahead of the clock, or `""`.

    >>> find_lead({"state": "live", "times": {"default": 1357041900000}}, 1357041600000)
    'noted 2013-01-01T12:05:00Z, 5m ahead'
    """
    if row["state"] not in {"live", "idle"} or not row["times"]:
        return ""
    latest_time = max(row["times"].values())
    if not is_ahead_of_clock(latest_time, now):
        return ""
    return describe_lead(latest_time, now)


def find_writer_faults(row: Json, stream: Json, now: int) -> Iterator[tuple[str, str]]:
    """Yield the faults of a writer: keys of `FAULT_REMEDIES`, and their details."""
    lead = find_lead(row, now)
    if lead and stream["max_time_ahead_ms"] is not None:
        yield AHEAD_OF_CLOCK, lead
    timeout_ms = row["timeout_ms"] or stream["writer_timeout_ms"]
    holding_back_began_at = row["holding_back_began_at"]
    domains = stream["domains"] if row["domains"] is None else row["domains"]
    domains_without_time = [domain for domain in domains if domain not in row["times"]]
    if row["is_expected"]:
        yield "never came", f"expected for {format_seconds(now - row['noted_at'])}"
    elif row["state"] == "excluded" and row["excluded"]["reason"] != "removed":
        yield "excluded", ""
    elif row["state"] != "live" or row["suspension_ends_at"] is not None:
        return
    elif row["no_time_reason"]:
        yield "alive, but not noting", row["no_time_reason"]
    elif row["is_silent"]:
        yield "silent", f"{format_seconds(row['silent_ms'])} of {format_duration(timeout_ms)}"
    elif row["times"] and domains_without_time:
        yield "holding back without a time", f"never noted {', '.join(domains_without_time)}"
    elif holding_back_began_at is not None and now - holding_back_began_at >= timeout_ms:
        yield (
            "holding back for longer than its timeout",
            format_seconds(now - holding_back_began_at),
        )
