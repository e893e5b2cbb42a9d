"""What must hold of a stream after any load and any crash, against the truth about its events."""

from collections.abc import Iterable, Mapping, Sequence

from noted_time.client import Json, position_from_wire
from noted_time.values import reaches
from tests.support.honest import Event
from tests.support.load import LoadedStream


def lost(stream: LoadedStream, rows: Mapping[str, Json]) -> list[str]:
    """Return the writers with something acknowledged but not stored, or stored but never sent."""
    found = []
    for writer in stream.writers:
        row = rows.get(writer.name, {"times": {}, "position": {}})
        times, position = row["times"], position_from_wire(row["position"])
        kept = all(times.get(domain, -1) >= noted for domain, noted in writer.acknowledged.items())
        sent = all(noted <= writer.promised.get(domain, -1) for domain, noted in times.items())
        kept = kept and reaches(position, writer.acknowledged_position)
        if not (kept and sent and reaches(writer.position, position)):
            found.append(f"{writer.name}: {row} {writer}")
    return found


def ends_below(
    lowers: Iterable[int], events: Iterable[Event], domain: str
) -> dict[int, dict[int, int]]:
    """Return for each lower where the events below it end, per segment."""
    waiting = sorted(events, key=lambda event: event.times[domain])
    ends: dict[int, int] = {}
    found, index = {}, 0
    for lower in sorted(lowers):
        while index < len(waiting) and waiting[index].times[domain] < lower:
            event = waiting[index]
            ends[event.segment] = max(ends.get(event.segment, 0), event.offset + 1)
            index += 1
        found[lower] = dict(ends)
    return found


def unsound(marks: Sequence[Json], events: Iterable[Event], domain: str) -> list[str]:
    """Return the marks with an event below the lower that does not lie below the cut."""
    ends = ends_below({mark["lower"] for mark in marks}, events, domain)
    return [
        f"{mark} leaves out events below {ends[mark['lower']]}"
        for mark in marks
        if not reaches(position_from_wire(mark["cut"]), ends[mark["lower"]])
    ]


def over_the_upper(marks: Iterable[Json], events: Iterable[Event], domain: str) -> list[str]:
    """Return the marks with an event below the cut that is later than the upper."""
    by_segment: dict[int, list[int]] = {}
    for event in events:  # in the order of their offsets
        largest = by_segment.setdefault(event.segment, [])
        event_time = event.times[domain]
        largest.append(max(event_time, largest[-1]) if largest else event_time)
    return [
        f"{mark} has an event at {by_segment[segment][end - 1]} in segment {segment}"
        for mark in marks
        for segment, end in position_from_wire(mark["cut"]).items()
        if end and by_segment[segment][end - 1] > mark["upper"]
    ]
