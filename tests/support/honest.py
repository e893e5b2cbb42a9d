"""Honest writers, their rows and their promises."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Event:
    """A row of a log; it is not late in the domains of `vouched`."""

    segment: int
    offset: int
    times: Mapping[str, int]
    writer: str = ""
    vouched: set[str] = field(default_factory=set)


@dataclass(kw_only=True)
class Log:
    """All rows in the order of writing, and the end of each segment."""

    events: list[Event] = field(default_factory=list)
    ends: Counter[int] = field(default_factory=Counter)

    def append(self, segment: int, times: Mapping[str, int], writer: str = "") -> Event:
        event = Event(segment, self.ends[segment], times, writer)
        self.events.append(event)
        self.ends[segment] += 1
        return event


@dataclass(kw_only=True)
class HonestWriter:
    """A writer that writes no row below the last time that it `promised` for a domain.

    `position` is the end of its rows, and `largest` its largest time in each domain.
    """

    name: str
    promised: dict[str, int] = field(default_factory=dict)
    position: dict[int, int] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)

    def write(self, log: Log, segment: int, times: Mapping[str, int]) -> Event:
        assert all(
            times[domain] >= promised_time for domain, promised_time in self.promised.items()
        )
        event = log.append(segment, times, self.name)
        self.position[segment] = log.ends[segment]
        for domain, time in times.items():
            self.largest[domain] = max(time, self.largest.get(domain, time))
        return event


def is_below(event: Event, position: Mapping[int, int]) -> bool:
    return event.offset < position.get(event.segment, 0)


def find_left_out(
    events: Iterable[Event], domain: str, lower: int, position: Mapping[int, int]
) -> list[Event]:
    """Return the events with time < lower that are not below the position."""
    return [
        event for event in events if event.times[domain] < lower and not is_below(event, position)
    ]
