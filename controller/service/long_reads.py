"""Slow views, which run in slices or in a thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from heapq import nsmallest
from time import perf_counter
from typing import TypeVar

from controller.aggregation.missing import merge_parts
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.stream import StreamState
from controller.aggregation.views.overview import (
    Sort,
    build_stream_row,
    build_summary_row,
    rank_by_name,
    rank_stream,
)
from controller.aggregation.views.segments import Segments, select_named
from controller.aggregation.views.vouching import Vouching
from controller.service.clocks import Clocks
from controller.store.port import Reading
from controller.store.records import Change
from noted_time import Rejected
from noted_time.answers import EntryAnswer, OverviewPage, Period, SegmentRow, StreamRow
from noted_time.values import VouchedBy, format_time

T = TypeVar("T")

SLICE_S = 0.002  # blocks the event loop

WRITERS_A_PAGE = 10_000  # an entry of the ledger that names more is a page of its own


class Views:
    """The views of one controller's streams."""

    def __init__(
        self,
        get_owned: Callable[[], OwnedStreams],
        get_stream: Callable[[str], StreamState],
        clocks: Clocks,
        reading: Reading,
    ) -> None:
        self._get_owned = get_owned
        self._get_stream = get_stream
        self._clocks = clocks
        self._reading = reading

    async def history(
        self, name: str, domain: str | None, start: int | None, end: int | None, *, points: int
    ) -> Period:
        """Return how the watermark moved, by default since the first kept mark.

        Raises `Rejected` for an empty period.
        """
        now = self._clocks.read().wall
        trend = self._get_stream(name).history(domain).trend()
        if end is None:
            end = now
        if start is None:
            start = end
            if trend.first_at is not None:
                start = min(trend.first_at, end)
        elif start >= end:
            raise Rejected(f"`from` {format_time(start)} is not before `to` {format_time(end)}")
        slots = await asyncio.to_thread(trend.points, start, end, points)
        return Period(now, start, end, trend.first_at, trend.lower_before(start), slots)

    async def ledger(
        self, name: str, domain: str | None, *, after: int, limit: int, newest_first: bool
    ) -> tuple[list[EntryAnswer], int | None]:
        """Return a page of the ledger, and the `after` of the next page."""
        stream = self._get_stream(name)
        stream.history(domain)  # raises `UnknownDomain`
        domain = stream.settings.domain_or_default(domain)
        return await asyncio.to_thread(
            self._read_ledger, stream.id, domain, after, limit, newest_first=newest_first
        )

    def _read_ledger(
        self, stream_id: str, domain: str, after: int, limit: int, *, newest_first: bool
    ) -> tuple[list[EntryAnswer], int | None]:
        entries = self._reading.ledger(
            stream_id, domain, after=after, limit=limit + 1, newest_first=newest_first
        )
        page: list[EntryAnswer] = []
        writer_count = 0
        for entry in entries[:limit]:
            answer, count = merge_parts(entry, self._reading)
            page.append(answer)
            writer_count += count
            if writer_count >= WRITERS_A_PAGE:
                break
        has_more = len(page) < len(entries)
        return page, page[-1].seq if has_more else None

    async def changes(self, name: str, *, before: int | None, limit: int) -> list[Change]:
        """Return changes below the number `before`, newest first."""
        stream = self._get_stream(name)
        changes = self._reading.changes
        return await asyncio.to_thread(changes, stream.id, before=before, limit=limit)

    async def segments(
        self, name: str, domain: str | None, *, start: int, limit: int
    ) -> list[SegmentRow]:
        segments = Segments(self._get_stream(name), domain)
        positions = segments.positions()
        async for _, position in iterate_in_slices(positions):
            segments.add(position)
        page = segments.page(start, limit)
        wanted_segments = frozenset(page)
        async for writer, position in iterate_in_slices(positions):
            segments.count(writer, select_named(position, wanted_segments))
        return [segments.row(segment) for segment in page]

    async def overview(
        self, is_shown: Callable[[str], bool], sort: Sort, *, start: int, limit: int
    ) -> OverviewPage:
        """Return a page of the streams that `is_shown` accepts by name.

        If other controllers own streams, all are sorted by name, so all controllers return the same
        order.
        """
        streams = self._get_owned()
        now = self._clocks.read()
        unowned_names = await self._list_unowned(streams, is_shown)
        ranks = [rank_by_name(name) for name in unowned_names]
        conditions = Counter[str]()
        owned_streams: dict[str, StreamState] = {}
        async for stream in iterate_in_slices([*streams]):
            if is_shown(name := stream.record.name):
                rank, condition = rank_stream(stream, now, "name" if unowned_names else sort)
                owned_streams[name] = stream
                ranks.append(rank)
                conditions[condition] += 1
        names = [rank.name for rank in nsmallest(start + limit, ranks)[start:]]
        rows: dict[str, StreamRow] = {}
        async for name in iterate_in_slices(names):
            if name in owned_streams:
                rows[name] = build_stream_row(owned_streams[name], now)
        names_to_read = [name for name in names if name not in owned_streams]
        if names_to_read:
            summaries = await asyncio.to_thread(self._reading.summaries, names_to_read)
            for summary in summaries:
                rows[summary.record.name] = build_summary_row(summary, now.wall)
        next_start = start + limit if len(ranks) > start + limit else None
        shown_rows = [rows[name] for name in names if name in rows]  # others were just removed
        return OverviewPage(
            now.wall, len(ranks), len(unowned_names), conditions, shown_rows, next_start
        )

    async def _list_unowned(
        self, streams: OwnedStreams, is_shown: Callable[[str], bool]
    ) -> list[str]:
        if len(streams.clocks) == streams.buckets:
            return []
        names = await asyncio.to_thread(self._reading.names)
        slices = iterate_in_slices(names)
        return [name async for name in slices if name not in streams and is_shown(name)]


async def tally_vouching(vouching: Vouching, marks: Sequence[tuple[int, int]]) -> list[VouchedBy]:
    """Return who vouches at each of several marks, sorted by seq and time."""
    results: list[VouchedBy] = []
    if marks:
        async for tally in iterate_in_slices(vouching.tally(marks)):
            results = tally
    return results


async def iterate_in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Let other tasks run after every `SLICE_S`."""
    started_at = perf_counter()
    for item in items:
        yield item
        if perf_counter() - started_at > SLICE_S:
            await asyncio.sleep(0)
            started_at = perf_counter()
