"""Rules for a stream and its writers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple

from controller.aggregation.views.sentences import (
    NAMES_PER_SENTENCE,
    REASON_WORDS,
    describe_fact,
    join_names,
)
from noted_time.client import Json
from noted_time.installation import name_program
from noted_time.values import (
    HOUR_MS,
    UNIX_MS,
    LogFact,
    format_duration,
    format_seconds,
    format_time,
)
from noted_time_cli.doctor.verdict import Finding, judge

MOST_HINTS = 100

SHORT_MS = 5000  # a shorter timeout excludes a writer during a restart or a pause of its runtime

TROUBLE_PAGE = "page 'Symptoms and remedies'"
SILENT_STATES = frozenset(("missing", "silent"))
# `{}` stands for the stream.
FAULT_REMEDIES = {
    "never came": "start it, or end it: {program} note {} WRITER --join --state finished",
    "excluded": "start it again, unless it was removed for good; {program} ledger {}",
    "alive, but not noting": "see the log of its process; {program} writers {}",
    "silent": "see whether its process runs; {program} explain {}",
    "holding without a time": "note each, or WriterClient(domains=…); {program} stream show {}",
    "holding for longer than its timeout": "see why its times are old; {program} explain {}",
}

HINT_REMEDIES = {
    "seconds": f"note Unix milliseconds: {TROUBLE_PAGE}",
    "no_position": "give a position with each note, or no cut covers its rows",
    "late": f"note only complete times, join and flush before the first write: {TROUBLE_PAGE}",
}
LATE_RECORDS_REMEDY = "give the observer a longer --delay, or correct the clocks that are ahead"
SHARED_NAME_REMEDY = f"give each process a separate writer name: {TROUBLE_PAGE}"


class StreamFacts(NamedTuple):
    """A stream, a page of its writers, and the explanation of each domain."""

    stream: Json
    page: Json
    explained: Mapping[str, Json]


def judge_stream(facts: StreamFacts) -> list[Finding]:
    """If a writer's fault explains why a domain does not advance, report only the writer."""
    name, rows, now = facts.stream["name"], facts.page["writers"], facts.page["now"]
    at_fault = {row["writer"] for row in rows for _ in find_faults(row, facts.stream, now)}
    domains = (
        judge_domain(name, each, why)
        for each, why in islice(facts.explained.items(), None if rows else 1)
        if not is_explained_by(at_fault, why)
    )
    settings = [*judge_settings(facts.stream), *judge_expected_writers(facts.stream)]
    return [*settings, *chain.from_iterable(domains), *judge_writers(facts)]


def judge_settings(stream: Json) -> list[Finding]:
    """Judge the settings of a stream.

    >>> made = {"name": "s", "seal": None, "writer_timeout_ms": 1000, "marks": {"default": None}}
    >>> kept = {"mark_retention_ms": 604800000, "max_time_ahead_ms": 3600000, "id": "9b"}
    >>> [each.remedy for each in judge_settings(made | kept)]
    ['noted-time stream create s --writer-timeout 60s']
    """
    timeout_ms, kept_ms = stream["writer_timeout_ms"], stream["mark_retention_ms"]
    name, timeout, kept = stream["name"], format_duration(timeout_ms), format_duration(kept_ms)
    are_unix = any(mark["lower"] in UNIX_MS for mark in stream["marks"].values() if mark)
    is_unbound = are_unix and stream["max_time_ahead_ms"] is None
    at = stream["seal"] and f"; sealed at {format_time(stream['seal']['at'])}, it takes no notes"
    faults = (
        (timeout_ms < SHORT_MS, f"a pause of {timeout} excludes a writer", "--writer-timeout 60s"),
        (kept_ms < HOUR_MS, f"marks are kept for {kept} only", "--mark-retention 7d"),
        (is_unbound, "no time is refused as too far ahead", "--max-time-ahead 1h"),
    )
    change = f"{name_program()} stream create {name}"
    described_faults = (
        (is_so, f"{name}: {fact}", f"{change} {remedy}") for is_so, fact, remedy in faults
    )
    summary = f"{name} has the id {stream['id']}, and waits for a silent writer for {timeout}"
    return judge("stream", described_faults, f"{summary}{at or ''}")


def judge_expected_writers(stream: Json) -> list[Finding]:
    if stream["expected_writers"]:
        return []
    fact = f"{stream['name']} expects no writers, so missing writers are not detected"
    remedy = f"{name_program()} stream create {stream['name']} --expected-writer NAME …"
    return [Finding("expected writers", "not checked", fact, remedy)]


def is_explained_by(at_fault: Collection[str], explained: Json) -> bool:
    """Return whether writers with faults keep a domain from advancing.

    >>> waits = {"lower": None, "silence": None, "waiting_for": [{"writer": "UA"}]}
    >>> is_explained_by({"UA"}, waits), is_explained_by({"DL"}, waits)
    (True, False)
    """
    if explained["silence"] in SILENT_STATES:
        return bool(at_fault)
    holders = (each["writer"] for each in explained["waiting_for"])
    return explained["lower"] is None and any(each in at_fault for each in holders)


def judge_domain(stream: str, domain: str, explained: Json) -> list[Finding]:
    fact, more = explained["sentences"][0], f"{name_program()} explain {stream} --domain {domain}"
    is_silent = explained["silence"] in SILENT_STATES
    faults = (
        (is_silent, fact, f"start the writers again; {more}"),
        (explained["lower"] is None, fact, f"start the writers; {more}"),
    )
    return judge(f"domain {domain}", faults, fact)


def judge_writers(facts: StreamFacts) -> list[Finding]:
    stream, page, explained = facts
    name: str = stream["name"]
    found = defaultdict[str, list[str]](list)
    for row in page["writers"]:
        for fault, detail in find_faults(row, stream, page["now"]):
            found[fault].append(f"{row['writer']} ({detail})")
    counts = ", ".join(f"{number:,} {state}" for state, number in page["states"].items())
    faults = [
        (
            True,
            f"{fault}: {join_names(named[:NAMES_PER_SENTENCE], len(named))}",
            FAULT_REMEDIES[fault].format(name, program=name_program()),
        )
        for fault, named in found.items()
    ]
    for row in page["writers"]:
        for log_fact in (LogFact(**each) for each in row["because"]):
            fact, remedy = describe_fact(log_fact)
            faults.append((log_fact.kind != "passed", f"{row['writer']}: {fact}", remedy))
    observers = {row["writer"] for row in page["writers"] if row["observes"]}
    passed = "no_position" if is_mostly_without_positions(page["writers"]) else ""
    shown = (h for why in explained.values() for h in why["hints"] if h["hint"] != passed)
    hints = {(h["writer"], h["hint"]): h for h in shown}
    for hint in islice(hints.values(), MOST_HINTS):
        fact = f"{hint['writer']} {hint['detail']}"
        is_observed = hint["hint"] == "late" and hint["writer"] in observers
        remedy = (
            LATE_RECORDS_REMEDY
            if is_observed
            else HINT_REMEDIES.get(hint["hint"], SHARED_NAME_REMEDY)
        )
        faults.append((True, fact, remedy))
    return judge("writers", faults, f"{counts}; looked at {len(page['writers']):,}")


def is_mostly_without_positions(rows: Collection[Json]) -> bool:
    """Return whether most live writers note times alone, so that readers do not use cuts.

    >>> bare, placed = {"state": "live", "position": {}}, {"state": "live", "position": {"0": 5}}
    >>> is_mostly_without_positions([bare, bare, placed]), is_mostly_without_positions([placed])
    (True, False)
    """
    live = [row for row in rows if row["state"] == "live"]
    return 2 * sum(not row["position"] for row in live) > len(live)


def find_faults(row: Json, stream: Json, now: int) -> Iterator[tuple[str, str]]:
    """Yield the fault of a writer, if any: a key of `FAULT_REMEDIES`, and the detail."""
    timeout_ms, since = row["timeout_ms"] or stream["writer_timeout_ms"], row["holding_since"]
    vouched = stream["domains"] if row["domains"] is None else row["domains"]
    unnoted = [each for each in vouched if each not in row["times"]]
    if row["is_expected"]:
        yield "never came", f"expected for {format_seconds(now - row['noted_at'])}"
    elif row["state"] == "excluded" and row["excluded"]["reason"] != "removed":
        reason, at = row["excluded"]["reason"], format_time(row["excluded"]["since"])
        yield "excluded", f"{REASON_WORDS.get(reason, reason)} {at}"
    elif row["state"] != "live" or row["held_until"] is not None:
        return
    elif row["held"]:
        yield "alive, but not noting", row["held"]
    elif row["is_silent"]:
        yield "silent", f"{format_seconds(row['silent_ms'])} of {format_duration(timeout_ms)}"
    elif row["times"] and unnoted:
        yield "holding without a time", f"never noted {', '.join(unnoted)}"
    elif since is not None and now - since >= timeout_ms:
        yield "holding for longer than its timeout", format_seconds(now - since)
