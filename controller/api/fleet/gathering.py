"""The overview of all streams: each controller reports its own.

The other controllers are asked once each, at the same time, by a marked request, which they answer
with only their own streams, up to the end of the page. Streams of those that do not answer in time,
and those without an owner at the moment, are shown as the database knows them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from controller.aggregation.owned_streams import bucket_of
from controller.aggregation.shown.overview import (
    Rank,
    Sort,
    StreamRow,
    rank_by_name,
    rank_of_row,
    row_of_summary,
)
from controller.aggregation.stream import StreamState
from controller.api.gate.access import OVERVIEW
from controller.api.gate.admitted import MARKED
from controller.api.wire.answer_shapes import OverviewPage
from controller.service.controller import Controller
from controller.service.long_reads import Owned, in_slices

if TYPE_CHECKING:
    import httpx

OVERVIEW_S = 0.8
"""How long to wait for the others."""

Place = tuple[Rank, StreamState | StreamRow | str]
"""The place of a stream, and the stream itself, or its name if no owner reports it."""


class OverviewQuery(NamedTuple):
    """Which streams to show: with a part of their names, `limit` from the `start`-th on."""

    search: str
    sort: Sort
    start: int
    limit: int

    @property
    def end(self) -> int:
        """How many streams come up to the end of the page."""
        return self.start + self.limit


class OwnStreams(msgspec.Struct, frozen=True):
    """What one controller reports: its buckets, how many streams match, and the first of these.

    `conditions` counts them by how they are; a controller of an older release does not.
    """

    buckets: frozenset[int]
    total: int
    streams: list[StreamRow]
    conditions: dict[str, int] = {}


class Gathering:
    """Makes the overview, from the database and what each controller reports."""

    def __init__(self, controller: Controller, http_client: httpx.AsyncClient | None) -> None:
        """Without a client no other controller is asked."""
        self._controller, self._ownership = controller, controller.ownership
        self._http_client = http_client

    async def own(self, question: OverviewQuery, may_read: Callable[[str], bool]) -> OwnStreams:
        """Return the streams of this controller, up to the end of the page."""
        owned = await self._ranked(question, may_read)
        first = nsmallest(question.end, owned.streams, key=itemgetter(0))
        rows = await self._controller.views.rows(each.stream for each in first)
        counts = Counter[str](each.condition for each in owned.streams)
        return OwnStreams(frozenset(owned.buckets), len(owned.streams), rows, dict(counts))

    async def overview(
        self, question: OverviewQuery, may_read: Callable[[str], bool], authorization: str | None
    ) -> OverviewPage:
        """Return the page of all streams; raises `StoreUnavailable`."""
        owned, parts = await asyncio.gather(
            self._ranked(question, may_read),
            self._others(question, authorization),
        )
        places: list[Place] = [(each.rank, each.stream) for each in owned.streams]
        covered, total = set(owned.buckets), len(places)
        counts = Counter[str](each.condition for each in owned.streams)
        for part in parts:
            places += self._places(part.streams, covered, question)
            covered |= part.buckets
            total += part.total
            counts.update(part.conditions)
        unanswered = await self._unanswered(question, may_read, covered)
        places += [(rank_by_name(name), name) for name in unanswered]
        page = nsmallest(question.end, places, key=itemgetter(0))[question.start :]
        rows = await self._rows([source for _, source in page])
        total += len(unanswered)
        further = question.end if total > question.end else None
        now, silent = self._controller.now_ms, len(unanswered)
        return OverviewPage(now, total, silent, dict(counts), rows, further)

    async def _others(self, question: OverviewQuery, authorization: str | None) -> list[OwnStreams]:
        """Return what the other controllers report in time; they are shown the caller's token."""
        client, urls = self._http_client, {*self._ownership.leases.others.values()} - {""}
        if client is None:
            return []
        shown = [] if authorization is None else [(b"authorization", authorization.encode())]

        async def ask(url: str) -> OwnStreams | None:
            try:
                async with asyncio.timeout(OVERVIEW_S):
                    reply = await client.get(
                        f"{url}{OVERVIEW}", params=question._asdict(), headers=[*shown, MARKED]
                    )
                return msgspec.json.decode(reply.raise_for_status().content, type=OwnStreams)
            except Exception:  # noqa: BLE001 - an advertised URL may be anything
                self._ownership.refresh_soon()
                return None

        found = await asyncio.gather(*map(ask, urls))
        return [part for part in found if part is not None]

    async def _ranked(self, question: OverviewQuery, may_read: Callable[[str], bool]) -> Owned:
        self._controller.check_serving()
        return await self._controller.views.ranked(
            lambda name: question.search in name and may_read(name), question.sort
        )

    def _places(
        self, rows: Iterable[StreamRow], covered: set[int], question: OverviewQuery
    ) -> Iterable[Place]:
        """Return the places of rows, without those in buckets already covered: they moved."""
        buckets = self._ownership.leases.buckets
        return [
            (rank_of_row(row, question.sort), row)
            for row in rows
            if bucket_of(row.name, buckets) not in covered
        ]

    async def _unanswered(
        self, question: OverviewQuery, may_read: Callable[[str], bool], covered: set[int]
    ) -> list[str]:
        """Return the matching names of streams in buckets that no controller reported."""
        buckets = self._ownership.leases.buckets
        if len(covered) >= buckets:
            return []
        names = await self._controller.names()
        return [
            name
            async for name in in_slices(names)
            if question.search in name
            and bucket_of(name, buckets) not in covered
            and may_read(name)
        ]

    async def _rows(self, sources: Sequence[StreamState | StreamRow | str]) -> list[StreamRow]:
        """Return the rows in that order, without those of streams that are gone meanwhile."""
        controller = self._controller
        streams = [each for each in sources if isinstance(each, StreamState)]
        rows = {row.name: row for row in await controller.views.rows(streams)}
        names = [each for each in sources if isinstance(each, str)]
        if names:
            now = controller.now_ms
            summaries = await controller.summaries(names)
            rows |= {each.record.name: row_of_summary(each, now) for each in summaries}
        rows |= {each.name: each for each in sources if isinstance(each, StreamRow)}
        return [row for each in sources if (row := rows.get(_name(each))) is not None]


def _name(source: StreamState | StreamRow | str) -> str:
    if isinstance(source, str):
        return source
    return source.record.name if isinstance(source, StreamState) else source.name
