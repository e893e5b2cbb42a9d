"""Reads of streams that take long: in slices, or in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from time import perf_counter
from typing import NamedTuple, TypeVar

import msgspec

from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.shown.overview import (
    Condition,
    Rank,
    Sort,
    StreamRow,
    row_of_stream,
    standing_of,
)
from controller.aggregation.shown.segments import SegmentRow, Segments, named_by
from controller.aggregation.stream import StreamState
from controller.service.clocks import Clocks
from controller.store.port import Change, LedgerEntry, Reading
from noted_time import Rejected
from noted_time.reading import Point
from noted_time.values import shown_time

T = TypeVar("T")

SLICE_S = 0.002
"""How long a slice may block the event loop."""


class Period(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """How the watermark moved: one point for each slot with a mark; moments in Unix ms.

    `first_at` is when the first mark that is kept was written, `before` the lower of the last mark
    written before `from`.
    """

    now: int
    start: int
    end: int
    first_at: int | None
    before: int | None
    points: Sequence[Point]


class Ranked(NamedTuple):
    """A stream of this controller, its place among the others, and how it is."""

    rank: Rank
    condition: Condition
    stream: StreamState


class Owned(NamedTuple):
    """The streams of this controller that were asked for, and its buckets."""

    streams: list[Ranked]
    buckets: Collection[int]


class Views:
    """What is shown of the streams of one controller."""

    def __init__(
        self,
        streams: Callable[[], OwnedStreams],
        stream: Callable[[str], StreamState],
        clocks: Clocks,
        reading: Reading,
    ) -> None:
        """`streams` returns all streams of now, `stream` one by its name."""
        self._streams = streams
        self._stream = stream
        self._clocks = clocks
        self._reading = reading

    async def history(
        self, name: str, domain: str | None, start: int | None, end: int | None, *, points: int
    ) -> Period:
        """Return how the watermark moved, in at most `points` points.

        By default from the first mark that is kept until now. Raises `Rejected` if `start` is not
        before `end`, `UnknownDomain`, and what `Controller.stream` raises.
        """
        now, trend = self._clocks.read().wall, self._stream(name).history(domain).trend()
        end = now if end is None else end
        if start is None:
            start = end if trend.first_at is None else min(trend.first_at, end)
        elif start >= end:
            raise Rejected(f"`from` {shown_time(start)} is not before `to` {shown_time(end)}")
        found = await asyncio.to_thread(trend.points, start, end, points)
        return Period(now, start, end, trend.first_at, trend.lower_before(start), found)

    async def ledger(
        self, name: str, domain: str | None, *, after: int, limit: int, newest_first: bool
    ) -> list[LedgerEntry]:
        """Return the entries of the ledger after a seq; raises as `history`."""
        stream, ledger = self._stream(name), self._reading.ledger
        stream.history(domain)
        chain = stream.id, stream.settings.domain_or_default(domain)
        return await asyncio.to_thread(
            ledger, *chain, after=after, limit=limit, newest_first=newest_first
        )

    async def changes(
        self, name: str, *, before: int | None, limit: int
    ) -> list[tuple[int, Change]]:
        """Return the changes of a stream below a number, each with its own, newest first."""
        stream, changes = self._stream(name), self._reading.changes
        return await asyncio.to_thread(changes, stream.id, before=before, limit=limit)

    async def segments(
        self, name: str, domain: str | None, *, start: int, limit: int
    ) -> list[SegmentRow]:
        """Return at most `limit` segments of a stream from the `start`-th on, by their numbers.

        At most 10,000 members are examined for who wrote in which segment. Raises as `history`.
        """
        segments = Segments(self._stream(name), domain)
        positions = segments.positions()
        async for _, position in in_slices(positions):
            segments.add(position)
        page = segments.page(start, limit)
        wanted = frozenset(page)
        async for writer, position in in_slices(positions):
            segments.count(writer, named_by(position, wanted))
        return [segments.row(segment) for segment in page]

    async def ranked(self, is_shown: Callable[[str], bool], sort: Sort) -> Owned:
        """Return this controller's streams with names that are shown, each with its place."""
        streams, now = self._streams(), self._clocks.read()
        buckets = frozenset(streams.clocks)
        found = [
            Ranked(*standing_of(stream, now, sort), stream)
            async for stream in in_slices([*streams])
            if is_shown(stream.record.name)
        ]
        return Owned(found, buckets)

    async def rows(self, streams: Iterable[StreamState]) -> list[StreamRow]:
        """Return the rows of streams of this controller."""
        now = self._clocks.read()
        return [row_of_stream(stream, now) async for stream in in_slices([*streams])]


async def in_slices(things: Iterable[T]) -> AsyncIterator[T]:
    """Yield the things, and let other tasks run after every `SLICE_S`."""
    begun = perf_counter()
    for thing in things:
        yield thing
        if perf_counter() - begun > SLICE_S:
            await asyncio.sleep(0)
            begun = perf_counter()
