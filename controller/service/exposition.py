"""What one scrape shows, and what is left out so that it stays small."""

from __future__ import annotations

from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from controller.aggregation.readings import read_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client import CollectorRegistry, Metric

    from controller.aggregation.draft import Moment
    from controller.aggregation.readings import KeyReading, StreamReading
    from controller.aggregation.world import World

STREAMS_SHOWN = 1000

NAMES_SHOWN = 1000
"""So many holders are named in all streams together, the longest first."""

NAMED_AFTER_MS = 5000
"""Who holds for less is not named.

At each mark some writers hold until their next note, and a name seen once is a series for ever.
"""

UNIX_MS = range(10**11, 10**13)
"""1973 to 2286: a lower elsewhere is no Unix time in ms, and nothing lags behind the wall clock."""

Family = GaugeMetricFamily | CounterMetricFamily


class Held(NamedTuple):
    """A holder that may be named."""

    ms: int
    stream: str
    key: str
    writer: str


class Exposition(Collector):
    """What one scrape shows, once it is read: to be made into text by any thread.

    The streams shown are the first of those there are, in the order in which they were read or
    made.
    """

    def __init__(self, registry: CollectorRegistry, world: World, now: Moment) -> None:
        """Read the streams, in the event loop: a thousand that many hold take 20 ms."""
        self._registry = registry
        self._now = now
        self._streams = [
            read_stream(each, each.service_ms(now)) for each in islice(world, STREAMS_SHOWN)
        ]
        self._not_shown = len(world) - len(self._streams)

    def collect(self) -> Iterator[Metric]:
        """Yield the families of the process and of the streams."""
        yield from self._registry.collect()
        yield _family("streams_not_shown", "Streams that are not shown", [([], self._not_shown)])
        yield from self._of_streams()
        yield from self._of_keys()
        yield from self._of_holders()

    def _of_streams(self) -> Iterator[Metric]:
        members = (
            ([stream.name, state], count)
            for stream in self._streams
            for state, count in stream.members.items()
        )
        yield _family("members", "Members by state", members, ["stream", "state"])
        left_out = CounterMetricFamily(
            "noted_time_left_out", "Writers left out by timeout", labels=["stream"]
        )
        for stream in self._streams:
            left_out.add_metric([stream.name], stream.left_out)
        yield left_out

    def _of_keys(self) -> Iterator[Metric]:
        # The last seq is the number of marks ever appended, over all restarts and owners.
        marks = CounterMetricFamily(
            "noted_time_marks", "Marks appended since the stream was made", labels=["stream", "key"]
        )
        for stream, key in _keys(self._streams):
            marks.add_metric([stream, key.key], key.last.seq if key.last else 0)
        yield marks
        yield self._of_each("lower", "Lower of the last mark", _lower)
        yield self._of_each(
            "watermark_lag_seconds", "Wall clock less lower, where that is Unix time", self._lag_s
        )
        yield self._of_each("mark_age_seconds", "Since the last mark", self._age_s)
        yield self._of_each("holders", "Members that hold time back", lambda key: key.holders)
        yield self._of_each(
            "longest_holding_seconds",
            "How long the longest holder holds, on the service clock",
            lambda key: key.longest[0].ms / 1000 if key.longest else 0,
        )

    def _of_each(
        self, name: str, sentence: str, read: Callable[[KeyReading], float | None]
    ) -> Metric:
        rows = (
            ([stream, key.key], value)
            for stream, key in _keys(self._streams)
            if (value := read(key)) is not None
        )
        return _family(name, sentence, rows, ["stream", "key"])

    def _of_holders(self) -> Iterator[Metric]:
        held = (
            Held(holding.ms, stream, key.key, holding.writer)
            for stream, key in _keys(self._streams)
            for holding in key.longest
            if holding.ms >= NAMED_AFTER_MS
        )
        named = nlargest(NAMES_SHOWN, held)
        rows = (([each.stream, each.key, each.writer], each.ms / 1000) for each in named)
        sentence = "How long a writer holds time back, on the service clock"
        yield _family("holder_seconds", sentence, rows, ["stream", "key", "writer"])
        holders = sum(key.holders for _, key in _keys(self._streams))
        sentence = "Holders of the streams shown that are not named"
        yield _family("holders_not_named", sentence, [([], holders - len(named))])

    def _lag_s(self, key: KeyReading) -> float | None:
        if key.last is None or key.last.lower not in UNIX_MS:
            return None
        return (self._now.wall - key.last.lower) / 1000

    def _age_s(self, key: KeyReading) -> float | None:
        return None if key.last is None else max(0, self._now.wall - key.last.written_at) / 1000


def _lower(key: KeyReading) -> float | None:
    return None if key.last is None else key.last.lower


def _keys(streams: Sequence[StreamReading]) -> Iterator[tuple[str, KeyReading]]:
    return ((stream.name, key) for stream in streams for key in stream.keys)


def _family(
    name: str,
    sentence: str,
    rows: Iterable[tuple[Sequence[str], float]],
    labels: Sequence[str] = (),
) -> Metric:
    family = GaugeMetricFamily(f"noted_time_{name}", sentence, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family
