"""Tracks records that an observer passed over because it could not use their times.

Such a record is unreadable, has null as its time, or is ahead of the clock. Its segment may be
behind, so it is not idle while the record is its newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec.structs import replace

from noted_time.values import (
    IDLE_OPTION,
    LABEL_LENGTH,
    LARGEST_TIME,
    MOST_LOG_FACTS,
    NULL_OPTION,
    LogFact,
    format_line,
)

Nulls = Literal["hold", "pass"]
"""Whether a segment waits while the time of its newest record is null."""

Passes = Mapping[int, int | None] | Literal["all"]
"""The last offset that an operator passes in a segment; with `None`, or `all`, also later ones."""


class PassedOver:
    """The records that were passed over since the last readable one of each segment.

    `now` is in Unix ms. A record that is ahead of the clock holds back its segment `until` its
    time. A record that the operator passes holds back nothing.

    >>> records = PassedOver(now=0)
    >>> records.add(3, 17, now=1000)
    >>> records.find_active(now=9000), records.list_facts(now=9000)
    ({3}, [LogFact(kind='unreadable', segment=3, offset=17, time=1000, by=None, count=1)])
    >>> records.end(3)
    >>> records.find_active(now=9000)
    set()
    >>> records = PassedOver({5: None, 6: 2}, now=0)
    >>> for segment, offset in [(3, 17), (5, 0), (6, 2), (6, 3)]:
    ...     records.add(segment, offset, now=1000)
    >>> records.find_waiting(now=9000)
    [3, 6]
    """

    def __init__(self, passes: Passes | None = None, *, now: int) -> None:
        self._passes: Passes = passes or {}
        self._options = _describe_passes(self._passes, now)
        self._facts: dict[int, LogFact] = {}
        self._newest: dict[int, tuple[int, int]] = {}
        self._new: set[int] = set()

    def add(
        self,
        segment: int,
        offset: int,
        *,
        now: int,
        until: int = LARGEST_TIME,
        is_null: bool = False,
    ) -> None:
        """Add a record. The fact of a segment names nulls if no other record was passed over.

        >>> records = PassedOver(now=0)
        >>> records.add(3, 17, now=1000, is_null=True)
        >>> records.list_facts(now=9000)
        [LogFact(kind='unreadable', segment=3, offset=17, time=1000, by='--null pass', count=1)]
        >>> records.add(3, 18, now=1000)
        >>> records.list_facts(now=9000)
        [LogFact(kind='unreadable', segment=3, offset=17, time=1000, by=None, count=2)]
        """
        option = NULL_OPTION if is_null else None
        fact = self._facts.get(segment, LogFact("unreadable", segment, offset, now, option))
        if fact.by != option:
            option = None
        self._facts[segment] = replace(fact, by=option, count=(fact.count or 0) + 1)
        self._newest[segment] = offset, until
        if not self._is_passed(segment, offset):
            self._new.add(segment)

    def end(self, segment: int) -> None:
        """Record that a later record was read."""
        self._facts.pop(segment, None)

    def drop_below(self, begins: Mapping[int, int]) -> None:
        """Forget records that the log no longer has.

        >>> records = PassedOver(now=0)
        >>> records.add(3, 17, now=1000)
        >>> records.drop_below({3: 17})
        >>> records.find_waiting(now=9000)
        [3]
        >>> records.drop_below({3: 18})
        >>> records.find_waiting(now=9000)
        []
        """
        for segment in [*self._facts]:
            if self._newest[segment][0] < begins.get(segment, 0):
                self.end(segment)

    def find_waiting(self, *, now: int) -> list[int]:
        waiting_segments = []
        for segment in sorted(self._facts):
            offset, until = self._newest[segment]
            if now < until and not self._is_passed(segment, offset):
                waiting_segments.append(segment)
        return waiting_segments

    def find_active(self, *, now: int) -> set[int]:
        """Return the segments that are not idle. Call it once per poll."""
        new_segments = self._new
        self._new = set()
        return new_segments.union(self.find_waiting(now=now))

    def list_facts(self, *, now: int) -> list[LogFact]:
        """Return facts for `explain`. If not all segments fit, one option ends the wait for them.

        >>> records = PassedOver({5: None, 6: 2, 7: None}, now=0)
        >>> for segment in range(3):
        ...     records.add(segment, 0, now=1000)
        >>> [(fact.kind, fact.segment, fact.by) for fact in records.list_facts(now=9000)][:2]
        [('passed', 5, '--pass 5 --pass 7'), ('unreadable', 0, None)]
        >>> records.add(3, 0, now=1000)
        >>> {fact.by for fact in records.list_facts(now=9000)[1:]}
        {'--unreadable idle'}
        """
        waiting_facts = [self._facts[segment] for segment in self.find_waiting(now=now)]
        if len(self._options) + len(waiting_facts) > MOST_LOG_FACTS:
            waiting_facts = [replace(fact, by=IDLE_OPTION) for fact in waiting_facts]
        return [*self._options, *waiting_facts]

    def _is_passed(self, segment: int, offset: int) -> bool:
        last_offset = None if self._passes == "all" else self._passes.get(segment, -1)
        return last_offset is None or offset <= last_offset


def _describe_passes(passes: Passes, now: int) -> list[LogFact]:
    """Return a fact if records are passed over without an end, of all segments or of some."""
    if passes == "all":
        return [LogFact("passed", 0, 0, now, IDLE_OPTION)]
    segments = sorted(segment for segment, last_offset in passes.items() if last_offset is None)
    if not segments:
        return []
    options = format_line(" ".join(f"--pass {segment}" for segment in segments), LABEL_LENGTH)
    return [LogFact("passed", segments[0], 0, now, options)]
