"""Tracks records that an observer passed over because it could not use their times.

Such a record is unreadable, or ahead of the clock. Its segment may be behind, so it is not idle
while the record is its newest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from noted_time.values import LABEL_LENGTH, LARGEST_TIME, MOST_LOG_FACTS, LogFact, format_line

UNREADABLE = LARGEST_TIME
"""No clock passes this time."""

MOST_READ_BACK = 1000

IDLE_OPTION = "--unreadable idle"

Passes = Mapping[int, int | None] | Literal["all"]
"""The last offset that an operator passes in a segment; with `None`, or `all`, also later ones."""

Verdict = int | Literal["read", "empty"]
"""Of a record: the time until which it is ahead, `UNREADABLE`, or that it was read."""


@dataclass(slots=True)
class _Run:
    """The records of a segment since its last readable one."""

    first: int
    since: int
    last: int = -1
    until: int = UNREADABLE
    count: int = 0


class PassedOver:
    """The records that were passed over since the last readable one of each segment.

    `now` is in Unix ms. A record that is ahead of the clock holds its segment `until` its time. A
    record that the operator passes holds nothing.

    >>> records = PassedOver(now=0)
    >>> records.add(3, 17, now=1000)
    >>> records.find_active(now=9000), records.list_facts(now=9000)
    ({3}, [LogFact(kind='unreadable', segment=3, offset=17, time=1000, by=None, count=1)])
    >>> records.end(3)
    >>> records.find_active(now=9000)
    set()
    """

    def __init__(self, passes: Passes | None = None, *, now: int) -> None:
        self._passes: Passes = passes or {}
        self._facts = _describe_passes(self._passes, now)
        self._runs: dict[int, _Run] = {}
        self._new: set[int] = set()

    def add(self, segment: int, offset: int, *, now: int, until: int = UNREADABLE) -> None:
        run = self._runs.setdefault(segment, _Run(offset, now))
        run.last, run.until, run.count = offset, until, run.count + 1
        if not self._is_passed(segment, offset):
            self._new.add(segment)

    def end(self, segment: int) -> None:
        """Record that a later record was read."""
        self._runs.pop(segment, None)

    def drop_below(self, begins: Mapping[int, int]) -> None:
        """Forget records that the log no longer has."""
        for segment, begin in begins.items():
            if segment in self._runs and self._runs[segment].last < begin:
                self.end(segment)

    def find_held(self, *, now: int) -> list[int]:
        runs = sorted(self._runs.items())
        return [n for n, run in runs if now < run.until and not self._is_passed(n, run.last)]

    def find_active(self, *, now: int) -> set[int]:
        """Return the segments that are not idle. Call it once per poll."""
        new, self._new = self._new, set()
        return new.union(self.find_held(now=now))

    def list_facts(self, *, now: int) -> list[LogFact]:
        """Return facts for `explain`. If not all segments fit, one option ends their holds."""
        facts, held = [*self._facts], self.find_held(now=now)
        by = IDLE_OPTION if len(facts) + len(held) > MOST_LOG_FACTS else None
        for segment in held:
            run = self._runs[segment]
            facts.append(LogFact("unreadable", segment, run.first, run.since, by, run.count))
        return facts

    def _is_passed(self, segment: int, offset: int) -> bool:
        if self._passes == "all":
            return True
        last = self._passes.get(segment, -1)
        return last is None or offset <= last


def _describe_passes(passes: Passes, now: int) -> list[LogFact]:
    if passes == "all":
        return [LogFact("passed", 0, 0, now, IDLE_OPTION)]
    segments = sorted(segment for segment, last in passes.items() if last is None)
    options = format_line(" ".join(f"--pass {each}" for each in segments), LABEL_LENGTH)
    return [LogFact("passed", segments[0], 0, now, options)] if segments else []


class LookBack:
    """Finds the newest records below a position, so that a restart knows which were passed over.

    It reads ranges back from the position, each twice as long, until it knows the newest record
    and, if that was passed over, the one before. After 1,000 tombstones, the record at the position
    counts as if passed over.
    """

    def __init__(self, begins: Mapping[int, int], position: Mapping[int, int]) -> None:
        self._begins, self._position = begins, position
        self._tops = dict(position)
        self._size = 1
        self._found: dict[int, dict[int, Verdict]] = {segment: {} for segment in position}
        self._read: Counter[int] = Counter()

    def next_ranges(self) -> dict[int, range]:
        self._size *= 2
        ranges = {}
        for segment, top in self._tops.items():
            begin = self._begins.get(segment, 0)
            if begin < top and not self._is_known(segment):
                ranges[segment] = range(max(begin, top - self._size), top)
        self._tops = {segment: each.start for segment, each in ranges.items()}
        return ranges

    def take(self, segment: int, offset: int, verdict: Verdict) -> None:
        self._read[segment] += 1
        if verdict != "empty":
            self._found[segment][offset] = verdict

    def give_up(self, segment: int) -> bool:
        """Return whether enough records were read to stop looking."""
        has_read_enough = self._read[segment] >= MOST_READ_BACK
        if has_read_enough:
            self._found[segment] = {self._position[segment] - 1: UNREADABLE}
        return has_read_enough

    def report(self, passed_over: PassedOver, *, now: int) -> None:
        for segment, found in self._found.items():
            for offset, verdict in sorted(found.items()):
                if isinstance(verdict, int):
                    passed_over.add(segment, offset, now=now, until=verdict)
                else:
                    passed_over.end(segment)

    def _is_known(self, segment: int) -> bool:
        found = self._found[segment]
        if found and (found[max(found)] == "read" or len(found) > 1):
            return True
        return not found and self.give_up(segment)
