"""Reads of streams that take long: in slices, or in a thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from time import perf_counter
from typing import TypeVar

import msgspec

from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.stream import StreamState
from controller.aggregation.views.overview import (
    Sort,
    StreamRow,
    build_stream_row,
    build_summary_row,
    rank_by_name,
    rank_stream,
)
from controller.aggregation.views.segments import SegmentRow, Segments, select_named
from controller.aggregation.views.vouching import Roster
from controller.service.clocks import Clocks
from controller.store.port import Change, LedgerEntry, Reading
from noted_time import Rejected
from noted_time.reading import Point
from noted_time.values import VouchedBy, format_time

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


class OverviewPage(msgspec.Struct):
    """A page of the streams that match; `next` is the `start` of the next page.

    `total` counts them, `unanswered` those of other controllers, and `conditions` the others by
    their state: `held` for ten seconds or more, `unmarked` (without a mark yet), `advancing`,
    `quiet`, `sealed`, or silent: `missing`, `silent` or `ended`, as the `silence` of their rows.
    """

    now: int
    total: int
    unanswered: int
    conditions: Mapping[str, int]
    streams: Sequence[StreamRow]
    next: int | None


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
            raise Rejected(f"`from` {format_time(start)} is not before `to` {format_time(end)}")
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
        async for _, position in iterate_in_slices(positions):
            segments.add(position)
        page = segments.page(start, limit)
        wanted = frozenset(page)
        async for writer, position in iterate_in_slices(positions):
            segments.count(writer, select_named(position, wanted))
        return [segments.row(segment) for segment in page]

    async def overview(
        self, is_shown: Callable[[str], bool], sort: Sort, *, start: int, limit: int
    ) -> OverviewPage:
        """Return a page of the streams with names that are shown, whoever owns them.

        Those of other controllers are shown as the database knows them. While there are any, all
        are sorted by name, so that each controller shows the same. Raises `StoreUnavailable`.
        """
        streams, now = self._streams(), self._clocks.read()
        others = await self._names_of_others(streams, is_shown)
        ranks, conditions = [rank_by_name(name) for name in others], Counter[str]()
        owned: dict[str, StreamState] = {}
        async for stream in iterate_in_slices([*streams]):
            if is_shown(name := stream.record.name):
                rank, condition = rank_stream(stream, now, "name" if others else sort)
                owned[name] = stream
                ranks.append(rank)
                conditions[condition] += 1
        names = [rank[-1] for rank in nsmallest(start + limit, ranks)[start:]]
        found = [
            build_stream_row(owned[name], now)
            async for name in iterate_in_slices(names)
            if name in owned
        ]
        if unknown := [name for name in names if name not in owned]:
            summaries = await asyncio.to_thread(self._reading.summaries, unknown)
            found += [build_summary_row(each, now.wall) for each in summaries]
        rows = {row.name: row for row in found}  # those that are gone meanwhile have none
        further = start + limit if len(ranks) > start + limit else None
        shown = [rows[name] for name in names if name in rows]
        return OverviewPage(now.wall, len(ranks), len(others), conditions, shown, further)

    async def _names_of_others(
        self, streams: OwnedStreams, is_shown: Callable[[str], bool]
    ) -> list[str]:
        """Return the names that are shown of streams of other controllers, or without an owner."""
        if len(streams.clocks) == streams.buckets:
            return []
        names = await asyncio.to_thread(self._reading.names)
        found = iterate_in_slices(names)
        return [name async for name in found if name not in streams and is_shown(name)]


async def tally_vouching(roster: Roster, marks: Sequence[tuple[int, int]]) -> list[VouchedBy]:
    """Return who vouches at each of several marks, given by seq and time in rising order."""
    results: list[VouchedBy] = []
    if marks:
        async for found in iterate_in_slices(roster.tally(marks)):
            results = found
    return results


async def iterate_in_slices(things: Iterable[T]) -> AsyncIterator[T]:
    """Yield the things, and let other tasks run after every `SLICE_S`."""
    begun = perf_counter()
    for thing in things:
        yield thing
        if perf_counter() - begun > SLICE_S:
            await asyncio.sleep(0)
            begun = perf_counter()
