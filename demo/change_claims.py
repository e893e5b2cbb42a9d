"""Judges claims that a topic of Debezium has all changes before a time.

The judge is the database, by the commit time of each row. All methods claim at the same moments: a
claim is wrong if a change was committed before its time, and was not in the topic yet.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from statistics import median
from typing import Any, NamedTuple

from rich.table import Table

from demo import stage
from tools.trials.broker import Record
from tools.trials.changes import NotedTime, Place, list_missing

NOTED = "noted time"
NEWEST = "newest source.ts_ms"
HEARTBEAT = "Debezium's heartbeat"
CLOCK = "wall clock"
DELAYED_CLOCK = "wall clock, 5 s back"
METHODS = (NOTED, NEWEST, HEARTBEAT, CLOCK, DELAYED_CLOCK)
DELAY_MS = 5000

TITLE = "All changes before this time are in the topic: who claimed it, and was wrong"
HEADINGS = ("claimed by", "claims", "wrong", "missing", "too early", "age", "oldest")


class Moment(NamedTuple):
    """The state of a topic at one moment, in the order of reading.

    The ends come last, so they are never below the ends of the topic at the clock's time.

    - `mark`: the noted time with its ends, `None` before the first.
    - `heartbeats`: the number of Debezium's heartbeats so far.
    - `clock`: the wall clock, in Unix ms.
    - `ends`: the exclusive end of each partition.
    """

    mark: NotedTime | None
    heartbeats: int
    clock: int
    ends: Mapping[int, int]


class Truth(NamedTuple):
    """The facts about a topic, read afterwards.

    - `commits_us`: the commit time of each row, as PostgreSQL kept it.
    - `places`: where each row is in the topic.
    - `source_times`: the times `source.ts_ms` in the topic.
    - `heartbeat_times`: the times of the connector's heartbeats.
    """

    commits_us: Mapping[int, int]
    places: Mapping[int, Place]
    source_times: NewestTimes
    heartbeat_times: NewestTimes


class Finding(NamedTuple):
    """One judged claim: its age, how many changes were missing, and how much too early it was."""

    method: str
    age_ms: int
    missing: int
    early_ms: int


class Verdict(NamedTuple):
    """All claims of a method: how many were wrong, and by how much at most."""

    method: str
    claims: int
    wrong: int
    most_missing: int
    most_early_ms: int
    median_age_ms: int
    longest_age_ms: int


class NewestTimes:
    """The newest time in a topic, below any ends.

    No transaction writes the topic, so its offsets have no gaps.

    >>> records = [Record(0, offset, -1, value=b"%d" % time) for offset, time in enumerate((5, 3))]
    >>> times = NewestTimes(records, int)
    >>> times.find({0: 0}), times.find({0: 2, 1: 0})
    (None, 5)
    """

    def __init__(self, records: Iterable[Record], read_time: Callable[[bytes], int]) -> None:
        times = defaultdict[int, list[int]](list)
        for record in records:
            times[record.partition].append(read_time(record.value or b""))
        self._newest: dict[int, list[int]] = {}
        for partition, of_partition in times.items():
            self._newest[partition] = list(accumulate(of_partition, max))

    def find(self, ends: Mapping[int, int]) -> int | None:
        """Return the newest time below the ends, `None` if there is no record."""
        newest: int | None = None
        for partition, end in ends.items():
            times = self._newest.get(partition, [])[:end]
            if times:
                newest = times[-1] if newest is None else max(newest, times[-1])
        return newest


def read_source_time(value: bytes) -> int:
    """Return the time of a change, as Debezium has it."""
    return int(json.loads(value)["source"]["ts_ms"])


def read_heartbeat_time(value: bytes) -> int:
    """Return the time of a heartbeat."""
    return int(json.loads(value)["ts_ms"])


def judge(moments: Iterable[Moment], truth: Truth) -> Iterator[Finding]:
    """Yield the finding on each claim of each method."""
    for moment in moments:
        for method, claim in _list_claims(moment, truth):
            missing_us = list_missing(claim, truth.commits_us, truth.places)
            early_ms = 0
            if missing_us:
                early_ms = claim.time - min(missing_us) // 1000
            yield Finding(method, moment.clock - claim.time, len(missing_us), early_ms)


def _list_claims(moment: Moment, truth: Truth) -> Iterator[tuple[str, NotedTime]]:
    if moment.mark is not None:
        yield NOTED, moment.mark
    times = {
        NEWEST: truth.source_times.find(moment.ends),
        HEARTBEAT: truth.heartbeat_times.find({0: moment.heartbeats}),
        CLOCK: moment.clock,
        DELAYED_CLOCK: moment.clock - DELAY_MS,
    }
    for method, time in times.items():
        if time is not None:
            yield method, NotedTime(time, moment.ends)


def summarize(method: str, findings: Iterable[Finding]) -> Verdict:
    """Return the verdict on the claims of a method.

    >>> verdict = summarize("clock", [Finding("clock", 0, 0, 0), Finding("clock", 4, 2, 7)])
    >>> verdict.claims, verdict.wrong, verdict.most_early_ms, verdict.median_age_ms
    (2, 1, 7, 2)
    """
    claims = [finding for finding in findings if finding.method == method]
    wrong = [claim for claim in claims if claim.missing]
    ages = [claim.age_ms for claim in claims]
    return Verdict(
        method=method,
        claims=len(claims),
        wrong=len(wrong),
        most_missing=max((claim.missing for claim in wrong), default=0),
        most_early_ms=max((claim.early_ms for claim in wrong), default=0),
        median_age_ms=round(median(ages or [0])),
        longest_age_ms=max(ages, default=0),
    )


def make_table(verdicts: Sequence[Verdict]) -> Table:
    rows = [_make_row(verdict) for verdict in verdicts]
    return stage.table(TITLE, HEADINGS, rows, ours=NOTED)


def _make_row(verdict: Verdict) -> tuple[str, ...]:
    return (
        verdict.method,
        f"{verdict.claims:,}",
        f"{verdict.wrong:,}",
        f"{verdict.most_missing:,}",
        format_seconds(verdict.most_early_ms),
        format_seconds(verdict.median_age_ms),
        format_seconds(verdict.longest_age_ms),
    )


def describe(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return sentences on the table."""
    wrong_claims = {verdict.method: _describe_wrong(verdict) for verdict in verdicts}
    return (
        (
            "missing: changes below a claim that were not in the topic, at most. too early: the "
            "time from the first missing change to the claim, at most. age: how far claims were "
            "behind the wall clock, in the median."
        ),
        (
            f"{NOTED}: {wrong_claims[NOTED]}. It waits while a snapshot or an outage holds it, "
            "and says why."
        ),
        (
            f"{HEARTBEAT}: {wrong_claims[HEARTBEAT]}. It says that the connector runs, and not "
            "how far it has read."
        ),
        f"{NEWEST}: {wrong_claims[NEWEST]}. In a snapshot, it is the clock of Connect's worker.",
        (
            f"{CLOCK}: {wrong_claims[CLOCK]}. With a delay of {DELAY_MS // 1000} s, "
            f"{wrong_claims[DELAYED_CLOCK]}: a delay is a guess of the longest outage."
        ),
    )


def _describe_wrong(verdict: Verdict) -> str:
    if verdict.wrong == 0:
        return f"none of its {verdict.claims:,} claims was wrong"
    return (
        f"{verdict.wrong:,} of its {verdict.claims:,} claims were wrong, by up to "
        f"{format_seconds(verdict.most_early_ms)}"
    )


def format_seconds(time_ms: int) -> str:
    """Return a duration in seconds.

    >>> format_seconds(1260), format_seconds(0)
    ('1.3 s', '')
    """
    if time_ms == 0:
        return ""
    return f"{time_ms / 1000:.1f} s"


def list_figures(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return the verdicts for JSON."""
    return [verdict._asdict() for verdict in verdicts]
