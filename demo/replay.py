"""The carriers write their flights to the file log as they land, and note time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyarrow as pa

from demo.data import DAY_MS, Flight
from demo.schedule import Step
from noted_time import NotedTimeError
from noted_time.values import reaches
from noted_time_extensions.files import SegmentLogWriter
from writer_client import KafkaNotedProducer, WriterClient

Take = Callable[[Step], Mapping[int, int]]

STREAM = "flights"
DOMAIN = "default"
EVENT_TIME = "departure"
SEGMENTS = 4
WRITER_TIMEOUT_MS = 10 * 60_000
YEAR_MS = 365 * DAY_MS
PATIENCE_S = 60.0
CLOSE_PATIENCE_S = 1.0

INSTANT = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    {EVENT_TIME: INSTANT, "landing": INSTANT, "carrier": pa.string(), "origin": pa.string()}
)


@dataclass(slots=True)
class Replayed:
    """The clock (Unix ms) and the ends of the log at each stop of the replay."""

    clocks: list[int] = field(default_factory=list)
    cuts: list[Mapping[int, int]] = field(default_factory=list)

    def clock_at(self, cut: Mapping[int, int]) -> int:
        """Return the clock of the first stop where the log reached a cut.

        >>> replayed = Replayed([10, 20], [{0: 5}, {0: 7, 1: 2}])
        >>> replayed.clock_at({0: 5}), replayed.clock_at({0: 5, 1: 1})
        (10, 20)
        """

        def reaches_cut(ends: Mapping[int, int]) -> bool:
            return reaches(ends, cut)

        return self.clocks[bisect_left(self.cuts, x=True, key=reaches_cut)]


class Carriers:
    """The carriers of one stream, each a writer of the file log."""

    def __init__(self, root: str | Path, clients: Mapping[str, WriterClient]) -> None:
        """Join all carriers; `clients` are by name."""
        self._ends = dict.fromkeys(range(SEGMENTS), 0)
        self._clients = clients
        self._logs: dict[str, SegmentLogWriter] = {}
        for name, client in clients.items():
            self._logs[name] = SegmentLogWriter(
                root,
                STREAM,
                segments=range(SEGMENTS),
                client=client,
                event_time=EVENT_TIME,
                schema=SCHEMA,
            )
        self._flush()

    def take(self, step: Step) -> Mapping[int, int]:
        """Let every carrier write its landed flights and note; return the ends of segments.

        A carrier writes to the first of the shortest segments, so all grow alike. The notes are
        durable.
        """
        for name, log in self._logs.items():
            landed_flights = step.landed.get(name)
            if landed_flights:
                segment = min(self._ends, key=self._ends.__getitem__)
                self._ends[segment] = log.append(table(landed_flights), segment=segment)
            log.note_time(step.notes[name])
        self._flush()
        return dict(self._ends)

    def _flush(self) -> None:
        for client in self._clients.values():
            client.flush(PATIENCE_S)


def table(flights: Sequence[Flight]) -> pa.Table:
    landings, departures, carriers, origins = zip(*flights, strict=True)
    return pa.table([departures, landings, carriers, origins], schema=SCHEMA)


def create_stream(
    controller_url: str, domains: Sequence[str] = (DOMAIN,), *, expected: Sequence[str]
) -> None:
    """Create the stream, without a mark interval, which keeps its marks for a year.

    It waits for the expected writers.
    """
    settings = {
        "expected_writers": list(expected),
        "domains": list(domains),
        "mark_interval_ms": 0,
        "writer_timeout_ms": WRITER_TIMEOUT_MS,
        "mark_retention_ms": YEAR_MS,
        "writer_retention_ms": YEAR_MS,
    }
    url = f"{controller_url}/v1/streams/{STREAM}"
    httpx.put(url, json=settings, trust_env=False).raise_for_status()


@contextmanager
def start_carriers(
    names: Sequence[str], root: str | Path, controller_url: str
) -> Iterator[Carriers]:
    """Create the stream and yield its joined carriers, which finish at the end."""
    create_stream(controller_url, expected=names)
    with ExitStack() as stack:
        clients = {name: WriterClient(STREAM, name, controller=controller_url) for name in names}
        for client in clients.values():
            stack.callback(close_soon, client)
        yield Carriers(root, clients)
        for client in clients.values():
            client.finish(timeout=PATIENCE_S)


def close_soon(writer: WriterClient | KafkaNotedProducer) -> None:
    """Close a writer that has finished, or one of many after an error, which is not hidden."""
    with suppress(NotedTimeError):
        writer.close(CLOSE_PATIENCE_S)


def replay(
    steps: Iterable[Step], take: Take, *, on_step: Callable[[int], None] | None = None
) -> Replayed:
    """Take each step in turn.

    `take` returns the ends of segments, `on_step` gets the number of done steps.
    """
    replay_result = Replayed()
    for step in steps:
        replay_result.cuts.append(take(step))
        replay_result.clocks.append(step.clock)
        if on_step is not None:
            on_step(len(replay_result.clocks))
    return replay_result
