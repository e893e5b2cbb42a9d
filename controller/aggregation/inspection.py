"""What the streams in memory tell of themselves: their holders, their members, and to scrapes."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from noted_time import Hold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.aggregation.stream import StreamState
    from noted_time import Decision, Mark


EXAMINED = 100
"""So many holders of a key are looked at.

Holders are kept in the order in which they began, so the longest are among them. Only between a
restart and the next mark may the order differ, and then only a key that more of them hold.
"""

NAMED = 5
"""So many holders of a key are named."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision of one key now; `without` maps each holder to the lower time would go on to."""

    decision: Decision
    lower: int | None
    without: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class WriterRow:
    """One writer as the admin sees it; `noted_at` and `holding_since` in Unix ms.

    Both are reckoned back from now by the service clock, so time without a controller is left out.
    """

    writer: str
    state: str
    times: Mapping[str, int]
    position: Mapping[int, int]
    noted_at: int
    holding_since: int | None


def explain(stream: StreamState, key: str | None, service_ms: int) -> Explanation:
    """Explain the decision of `key`; raises `UnknownKey`."""
    name = stream.settings.key_or_default(key)
    aggregator = stream.aggregator
    last = stream.history(name).last
    decision = aggregator.decide(name, service_ms)
    holders: tuple[str, ...] = ()
    if isinstance(decision, Hold):
        holders = tuple(waiting.writer for waiting in decision.waiting_for)
    without = {writer: aggregator.without(name, writer) for writer in holders}
    return Explanation(decision, last.lower if last else None, without)


def writers(
    stream: StreamState, *, start: int, limit: int, service_ms: int, wall_ms: int
) -> list[WriterRow]:
    """Return `limit` members from the `start`-th on, the longest holders of time first."""
    shift = wall_ms - service_ms
    return [
        _row(stream, writer, shift)
        for writer in islice(_holders_first(stream, start + limit), start, start + limit)
    ]


def _holders_first(stream: StreamState, count: int) -> Iterator[str]:
    """Yield at least `count` members, if there are as many."""
    aggregator = stream.aggregator
    holding = {
        writer: since
        for writer in aggregator.holders()
        if (since := aggregator.holding_since(writer)) is not None
    }
    yield from nsmallest(count, holding, key=lambda writer: (holding[writer], writer))
    yield from (writer for writer in aggregator.writers() if writer not in holding)


def _row(stream: StreamState, writer: str, shift: int) -> WriterRow:
    record = stream.aggregator.record(writer)
    since = stream.aggregator.holding_since(writer)
    return WriterRow(
        writer=writer,
        state="left_out" if record.left_out else record.state,
        times=record.times,
        position=record.position,
        noted_at=record.noted_at + shift,
        holding_since=None if since is None else since + shift,
    )


class Holding(NamedTuple):
    """A writer that holds time back, and for how many ms on the service clock."""

    writer: str
    ms: int


class KeyReading(NamedTuple):
    """One key: its last durable mark, how many hold it, and who longest, at most `NAMED`."""

    key: str
    last: Mark | None
    holders: int
    longest: tuple[Holding, ...]


class StreamReading(NamedTuple):
    """One stream: its members by state, how often one was left out, and its keys."""

    name: str
    members: Mapping[str, int]
    left_out: int
    keys: tuple[KeyReading, ...]


def read_stream(stream: StreamState, service_ms: int) -> StreamReading:
    """Read what there is to show; later changes of the stream do not change it."""
    return StreamReading(
        stream.record.name,
        dict(stream.aggregator.census.members),
        stream.left_out,
        tuple(_read_key(stream, key, service_ms) for key in stream.histories),
    )


def _read_key(stream: StreamState, key: str, service_ms: int) -> KeyReading:
    # `decide` looks at all holders: 20 ms where 100,000 writers note in step
    holders = stream.aggregator.holding(key)
    first = [(track.began, writer) for writer, track in islice(holders.items(), EXAMINED)]
    longest = tuple(
        Holding(writer, service_ms - began) for began, writer in nsmallest(NAMED, first)
    )
    return KeyReading(key, stream.histories[key].last, len(holders), longest)
