"""The carriers at work: they write their flights into the file log as they land, and note time."""

from __future__ import annotations

import time
from bisect import bisect_left
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import pyarrow as pa

from examples.flights.data import DAY_MS, HOUR_MS
from examples.flights.schedule import steps
from noted_time.values import reaches
from writer_client import SegmentLogWriter, WriterClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from examples.flights.data import Flight, Flights
    from examples.flights.schedule import Step

STREAM = "flights"
EVENT_TIME = "departure"
SEGMENTS = 4
WRITER_TIMEOUT_MS = 10 * 60_000
YEAR_MS = 365 * DAY_MS
PATIENCE_S = 60.0

INSTANT = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    {
        EVENT_TIME: INSTANT,
        "landing": INSTANT,
        "carrier": pa.string(),
        "origin": pa.string(),
    }
)


@dataclass(slots=True)
class Replayed:
    """How far the log reached at each stop of the replay: clocks in Unix ms, rising, and cuts."""

    clocks: list[int] = field(default_factory=list)
    cuts: list[Mapping[int, int]] = field(default_factory=list)

    def clock_at(self, cut: Mapping[int, int]) -> int:
        """Return the clock of the first stop at which the log reached `cut`.

        >>> Replayed([10, 20], [{0: 5}, {0: 7, 1: 2}]).clock_at({0: 5, 1: 1})
        20
        """
        stop = bisect_left(self.cuts, x=True, key=lambda reached: reaches(reached, cut))
        return self.clocks[stop]


class Carrier:
    """One writer."""

    def __init__(self, root: Path, controller_url: str, stream: str, name: str) -> None:
        self.client = WriterClient(controller_url, stream, name)
        self._log = SegmentLogWriter(
            root,
            stream,
            segments=range(SEGMENTS),
            client=self.client,
            event_time=EVENT_TIME,
            schema=SCHEMA,
        )

    def write(self, flights: Sequence[Flight], segment: int) -> int:
        """Append the flights to a segment and return where that ends now."""
        return self._log.append(table(flights), segment=segment)

    def note(self, departure: int) -> None:
        """Note that all flights that departed before `departure` (Unix ms) are written."""
        self._log.note_time(departure)


def shortest(ends: Mapping[int, int]) -> int:
    """Return the segment with the fewest rows, so that all grow alike."""
    return min(ends, key=lambda segment: (ends[segment], segment))


def table(flights: Sequence[Flight]) -> pa.Table:
    """Return the flights as rows of the log."""
    landings, departures, carriers, origins = zip(*flights, strict=True)
    return pa.table([departures, landings, carriers, origins], schema=SCHEMA)


def create_stream(controller_url: str, stream: str) -> None:
    """Create a stream with a mark at every advance, which keeps its marks for a year."""
    settings = {
        "mark_interval_ms": 0,
        "writer_timeout_ms": WRITER_TIMEOUT_MS,
        "mark_retention_ms": YEAR_MS,
        "writer_retention_ms": YEAR_MS,
    }
    url = f"{controller_url}/v1/streams/{stream}"
    httpx.put(url, json=settings, trust_env=False).raise_for_status()


def replay(
    flights: Flights,
    root: Path,
    controller_url: str,
    *,
    hours_per_second: float = 0,
    on_step: Callable[[int], None] = lambda _: None,
) -> Replayed:
    """Write all flights in the order of their landing, each carrier noting at every stop.

    All carriers join before the first row, and finish after the last.
    `hours_per_second` holds the replay to a pace, 0 to none. `on_step` is called with the number of
    stops that are done.
    """
    replayed = Replayed()
    ends = dict.fromkeys(range(SEGMENTS), 0)
    pace = Pace(hours_per_second)
    with at_work(flights.carriers, root, controller_url) as carriers:
        for step in steps(flights):
            pace.wait(step.clock)
            take(step, carriers, ends)
            replayed.clocks.append(step.clock)
            replayed.cuts.append(dict(ends))
            on_step(len(replayed.clocks))
    return replayed


@contextmanager
def at_work(
    names: Iterable[str], root: Path, controller_url: str, stream: str = STREAM
) -> Iterator[Mapping[str, Carrier]]:
    """Create the stream and yield its carriers, which have all joined; at the end they finish."""
    create_stream(controller_url, stream)
    with ExitStack() as stack:
        carriers = {name: Carrier(root, controller_url, stream, name) for name in names}
        for carrier in carriers.values():
            stack.enter_context(carrier.client)
        _join(carriers)
        yield carriers
        for carrier in carriers.values():
            carrier.client.finish(timeout=PATIENCE_S)


def take(step: Step, carriers: Mapping[str, Carrier], ends: dict[int, int]) -> None:
    """Let every carrier write what landed, then note, and wait until the notes are durable.

    `ends`, where each segment ends, is kept up to date.
    """
    for name, carrier in carriers.items():
        if landed := step.landed.get(name):
            segment = shortest(ends)
            ends[segment] = carrier.write(landed, segment)
        carrier.note(step.notes[name])
    _flush(carriers)


def _join(carriers: Mapping[str, Carrier]) -> None:
    for carrier in carriers.values():
        carrier.client.join()
    _flush(carriers)


def _flush(carriers: Mapping[str, Carrier]) -> None:
    for carrier in carriers.values():
        carrier.client.flush(PATIENCE_S)


class Pace:
    """Holds the replay to a number of hours per second; 0 sets no limit."""

    def __init__(self, hours_per_second: float) -> None:
        self._ms_per_second = hours_per_second * HOUR_MS
        self._start: tuple[int, float] | None = None

    def wait(self, clock: int) -> None:
        """Sleep until `clock` is due."""
        if not self._ms_per_second:
            return
        if self._start is None:
            self._start = (clock, time.monotonic())
        first, began = self._start
        due = began + (clock - first) / self._ms_per_second
        time.sleep(max(0.0, due - time.monotonic()))
