"""Derives event time from rows whose writers do not note, by a clock for each segment.

It is the newest event time of the segment minus a delay. The time of the log is the minimum over
segments that are not idle (Hazelcast Jet's EventTimeMapper).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from noted_time.values import LEAST_TIME, check_least

Outcome = int | Literal["idle"]
"""A change: the time of the log in ms, or that no segment is active."""


@dataclass(slots=True)
class _Clock:
    active_at: int
    time: int | None = None


class SegmentClocks:
    """The clocks of a log's segments; `now` is in ms of a monotonic clock.

    Each step returns its changes. A segment becomes idle `idle_timeout_ms` after its last event or
    its addition; 0 means never. `delay_ms` is how far events of a segment may be out of order.

    >>> clocks = SegmentClocks(idle_timeout_ms=10, delay_ms=3)
    >>> clocks.add(0, now=0)
    >>> clocks.add(1, now=0)
    >>> clocks.events({0: 100}, now=1), clocks.events({1: 90}, now=2)
    ([], [87])
    >>> clocks.events({}, now=11), clocks.events({}, now=12)
    ([], [97, 'idle'])
    """

    def __init__(self, idle_timeout_ms: int, delay_ms: int) -> None:
        check_least("idle_timeout_ms", idle_timeout_ms, 0)
        check_least("delay_ms", delay_ms, 0)
        self._idle_timeout_ms = idle_timeout_ms
        self._delay_ms = delay_ms
        self._clocks: dict[int, _Clock] = {}
        self._highest: int | None = None
        self.time: int | None = None
        self.is_idle = False

    def find_without_time(self, *, now: int) -> list[int]:
        segments = []
        for segment, clock in self._clocks.items():
            if clock.time is None and not self._has_expired(clock, now):
                segments.append(segment)
        return sorted(segments)

    def add(self, segment: int, *, now: int) -> None:
        if segment not in self._clocks:
            self._clocks[segment] = _Clock(now)
            self.is_idle = False

    def events(self, newest: Mapping[int, int | None], *, now: int) -> list[Outcome]:
        """Record the newest time, `None` if unknown, of each segment that had events, in one step.

        These events are in the log already, so they do not limit its time.
        """
        for segment, time in newest.items():
            self.add(segment, now=now)
            clock = self._clocks[segment]
            clock.active_at = now
            if time is not None:
                new_time = max(time - self._delay_ms, LEAST_TIME)
                clock.time = new_time if clock.time is None else max(clock.time, new_time)
        active_clocks = [
            clock for clock in self._clocks.values() if not self._has_expired(clock, now)
        ]
        times = [clock.time for clock in active_clocks if clock.time is not None]
        times_so_far = times if self._highest is None else [self._highest, *times]
        self._highest = max(times_so_far, default=None)
        if active_clocks:
            self.is_idle = False
            have_all_times = len(times) == len(active_clocks)
            return self._advance(min(times) if have_all_times else None)
        if self.is_idle:
            return []
        self.is_idle = True
        return [*self._advance(self._highest), "idle"]

    def _has_expired(self, clock: _Clock, now: int) -> bool:
        return 0 < self._idle_timeout_ms <= now - clock.active_at

    def _advance(self, time: int | None) -> list[Outcome]:
        if time is None or (self.time is not None and time <= self.time):
            return []
        self.time = time
        return [time]
