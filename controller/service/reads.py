"""What callers ask of one stream of this controller: as it is in memory, or as it was recorded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controller.aggregation.inspection import (
    DryRun,
    Explanation,
    WriterQuery,
    WriterRow,
    WritersPage,
    explain,
    writer_row,
    writers,
)
from noted_time.rules import HOLDERS_NAMED

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.aggregation.groups import GroupRow
    from controller.aggregation.stream import StreamState
    from controller.service.clocks import Clocks
    from controller.store.port import Change, LedgerEntry, Reading
    from noted_time import ReaderGroup

NOTHING_SUPPOSED = DryRun()


class Reads:
    """Answers of one stream; all raise `UnknownStream`, `NotOwner` and `StoreUnavailable`."""

    def __init__(
        self, stream: Callable[[str], StreamState], clocks: Clocks, reading: Reading
    ) -> None:
        """Begin; `stream` finds a stream by its name."""
        self._stream = stream
        self._clocks = clocks
        self._reading = reading

    def explain(
        self,
        name: str,
        domain: str | None,
        dry_run: DryRun = NOTHING_SUPPOSED,
        limit: int = HOLDERS_NAMED,
    ) -> Explanation:
        """Return the decision of a domain now, what it would be without each holder, a dry run."""
        return explain(self._stream(name), domain, self._clocks.read(), dry_run, limit)

    async def ledger(
        self, name: str, domain: str | None, *, after: int, limit: int, newest_first: bool
    ) -> list[LedgerEntry]:
        """Return the marks after a seq that went on without a writer; raises `UnknownDomain`."""
        stream, ledger = self._stream(name), self._reading.ledger
        stream.history(domain)
        chain = stream.id, stream.settings.domain_or_default(domain)
        return await asyncio.to_thread(
            ledger, *chain, after=after, limit=limit, newest_first=newest_first
        )

    async def changes(
        self, name: str, *, before: int | None, limit: int
    ) -> list[tuple[int, Change]]:
        """Return the changes made by hand below a number, each with its own, newest first."""
        stream, reading = self._stream(name), self._reading
        return await asyncio.to_thread(reading.changes, stream.id, before=before, limit=limit)

    def writer(self, name: str, writer: str) -> WriterRow:
        """Return one member; raises `UnknownWriter`."""
        return writer_row(self._stream(name), writer, None, self._clocks.read())

    def writers(self, name: str, query: WriterQuery) -> WritersPage:
        """Return a page of the stream's members, the longest holder first."""
        return writers(self._stream(name), query, self._clocks.read())

    def group(self, name: str, group: str) -> tuple[StreamState, ReaderGroup]:
        """Return a reader group; raises `UnknownReader` where nobody has reported."""
        stream = self._stream(name)
        return stream, stream.groups[group]

    def groups(
        self, name: str, *, after: str | None, limit: int
    ) -> tuple[StreamState, list[GroupRow]]:
        """Return a stream with a page of its reader groups by name, reported at in Unix ms."""
        now, stream = self._clocks.read(), self._stream(name)
        shift = stream.unix_shift(now)
        rows = stream.groups.page(after, limit)
        return stream, [row.dated(shift) for row in rows]
