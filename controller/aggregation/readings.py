"""What a stream says of itself at a scrape, at a cost that does not grow with its members."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.aggregation.stream import StreamState
    from noted_time import Mark

EXAMINED = 100
"""So many holders of a key are looked at.

Holders are kept in the order in which they began, so the longest are among them. Only between a
restart and the next mark may the order differ, and then only a key that more of them hold.
"""

NAMED = 5
"""So many holders of a key are named."""


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
