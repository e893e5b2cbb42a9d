"""The controller as its callers see it: changes that are durable when answered, and reads."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog

from controller.aggregation.inspection import (
    DryRun,
    Explanation,
    WriterRow,
    explain,
    writer_row,
    writers,
)
from controller.aggregation.stream import StreamState
from controller.service.clocks import Clocks
from controller.service.committer import Committer
from controller.service.limits import Limits
from controller.service.maintenance import maintain
from controller.service.metrics import Exposition, Metrics
from controller.service.notifier import LongPollNotifier
from controller.service.polls import LongPolls
from controller.store.port import StoreUnavailable, StreamRecord
from noted_time import Accepted, StreamSettings
from noted_time.errors import LimitReached
from noted_time.settings import checked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controller.aggregation.draft import Draft
    from controller.aggregation.groups import GroupRow
    from controller.aggregation.owned_streams import OwnedStreams
    from controller.store.port import LedgerEntry, Store, StreamSummary
    from noted_time import ReaderGroup, Refused, ScaleEvent
    from noted_time.note import NoteLike

    Position = Mapping[int, int]

log = structlog.get_logger()

NOTHING_SUPPOSED = DryRun()

SEGMENTS_OF_A_NOTE = 32
"""So many segments of a reader's report take about as long as a note."""


class Controller:
    """One controller over one store."""

    def __init__(
        self, store: Store, clocks: Clocks | None = None, limits: Limits | None = None
    ) -> None:
        """Begin; `start` loads the streams."""
        self.metrics = Metrics()
        self.limits = limits or Limits()
        self.stopping = asyncio.Event()
        self._clocks = clocks or Clocks()
        self._notifier = LongPollNotifier()
        self._committer = Committer(store, self._clocks, self._notifier, self.metrics, self.limits)
        self.ownership = self._committer.ownership
        self.polls = LongPolls(self.stream, self._notifier, self.limits, self.metrics)
        self._store = store
        self._maintenance: asyncio.Task[None] | None = None

    def called_at(self, url: str) -> None:
        """Say where other controllers find this one; to be called before `start`."""
        self._store.register(url)

    async def start(self) -> None:
        """Load the streams and serve; raises `StoreUnavailable`."""
        await self._committer.start()
        maintenance = maintain(self._committer, self._store, self._clocks)
        self._maintenance = asyncio.create_task(maintenance, name="maintenance")
        log.info("started", streams=len(self._committer.streams))

    def prepare_to_stop(self) -> None:
        """Answer the long polls, and release the streams to other controllers; before `close`.

        What waits is committed first. What comes later is forwarded to the new owners.
        """
        self.stopping.set()
        self._notifier.shutdown()
        if self._store.local:
            return
        try:
            waited_for = self._committer.submit(lambda _streams, _draft: None)
        except StoreUnavailable:
            self.ownership.leave()
        else:
            waited_for.add_done_callback(self._leave)

    async def close(self) -> None:
        """Commit what is in flight and close the store."""
        self.prepare_to_stop()
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.wait([self._maintenance])
        await self._committer.close()
        self._store.close()
        log.info("stopped")

    # Which streams are here

    def owns(self, name: str) -> bool:
        """Whether this controller aggregates the stream of that name, be there one or not."""
        return name in self._committer.streams

    def check_serving(self) -> None:
        """Raise `StoreUnavailable` where this controller knows of no stream."""
        self._committer.check()

    def stream(self, name: str) -> StreamState:
        """Return a stream; raises `UnknownStream`, `NotOwner` and `StoreUnavailable`."""
        self._committer.check()
        return self._committer.streams.stream(name)

    async def names(self) -> list[str]:
        """Return the names of all streams in order; raises `StoreUnavailable`."""
        self._committer.check()
        return await asyncio.to_thread(self._store.reading.names)

    async def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        """Return what lists show of these streams, whoever owns them; raises as `names`."""
        return await asyncio.to_thread(self._store.reading.summaries, names)

    # Changes: durable when they return

    def note(
        self, name: str, notes: Sequence[NoteLike]
    ) -> asyncio.Future[list[Accepted | Refused]]:
        """Take the notes, in order; the future has what became of each, durable by then.

        Raises `StoreUnavailable` and `Overloaded`; the future raises `UnknownStream`, `NotOwner`
        and `StoreUnavailable`.
        """
        most_writers = self.limits.writers
        return self._committer.submit(
            lambda streams, draft: streams.stream(name).take_notes(notes, draft, most_writers),
            notes=len(notes),
        )

    def count_notes(self, results: Iterable[tuple[Accepted | Refused, int]]) -> None:
        """Count what became of the notes of one request, and of how many."""
        for result, count in results:
            status = "accepted" if isinstance(result, Accepted) else result.status
            self.metrics.notes.labels(status).inc(count)

    async def put_stream(self, name: str, changes: Mapping[str, Any]) -> tuple[StreamState, bool]:
        """Create the stream or change its settings; returns it and whether it is new.

        Raises `LimitReached` where there are as many streams as may be.
        """
        checked_name("stream", name)

        def put(streams: OwnedStreams, draft: Draft) -> tuple[StreamState, bool]:
            known = streams.find(name)
            if known is None:
                if len(streams) >= self.limits.streams:
                    most, remedy = self.limits.streams, "remove one, or raise --max-streams"
                    raise LimitReached("streams", most, remedy)
                stream = StreamState(StreamRecord(uuid4().hex, name, StreamSettings(**changes)))
                streams.add(stream)
                stream.expect(stream.settings.expected_writers, draft)
            else:
                stream = known
                stream.reconfigure(replace(stream.settings, **changes), draft)
            draft.touched(stream)
            draft.batch.streams.append(stream.record)
            return stream, known is None

        stream, created = await self._committer.submit(put)
        log.info("stream_created" if created else "stream_updated", stream=name)
        return stream, created

    async def drop_stream(self, name: str) -> None:
        """Remove the stream with its marks, notes and readers; raises `UnknownStream`."""

        def drop(streams: OwnedStreams, draft: Draft) -> None:
            stream = streams.stream(name)
            streams.remove(stream)
            draft.drop(stream)

        await self._committer.submit(drop)
        log.info("stream_removed", stream=name)

    async def scale(self, name: str, event: ScaleEvent) -> StreamState:
        """Take a scale event; raises `InvalidScale`."""
        stream = await self._change(name, lambda stream, draft: stream.scale(event, draft))
        log.info("stream_scaled", stream=name, sealed=dict(event.sealed))
        return stream

    async def truncate(self, name: str, cut: Position) -> StreamState:
        """Drop the marks that readers from `cut` on do not need."""
        stream = await self._change(name, lambda stream, draft: stream.truncate(cut, draft))
        log.info("stream_truncated", stream=name)
        return stream

    async def remove_writer(self, name: str, writer: str, by: str | None) -> WriterRow:
        """Exclude a writer by hand, as `by` decided; raises `UnknownWriter`."""
        await self._change(name, lambda stream, draft: stream.remove(writer, by, draft))
        log.warning("writer_removed", stream=name, writer=writer, by=by)
        return self.writer(name, writer)

    async def hold_writer(self, name: str, writer: str, for_ms: int | None) -> WriterRow:
        """Let no timeout exclude a writer for so long, `None`: as usual; raises `UnknownWriter`."""
        await self._change(name, lambda stream, draft: stream.hold(writer, for_ms, draft))
        log.info("writer_held", stream=name, writer=writer, for_ms=for_ms)
        return self.writer(name, writer)

    async def report(
        self, name: str, group: str, reader: str, position: Position
    ) -> tuple[StreamState, ReaderGroup]:
        """Take in how far a reader of a group has read; raises `LimitReached`."""
        checked_name("reader group", group)
        checked_name("reader", reader)

        def report(streams: OwnedStreams, draft: Draft) -> tuple[StreamState, ReaderGroup]:
            stream = streams.stream(name)
            now = stream.service_ms(draft.moment)
            stream.groups.check_room(group, reader, position, self.limits.readers)
            return stream, stream.groups.report(group, reader, position, draft, now=now)

        weight = 1 + len(position) // SEGMENTS_OF_A_NOTE
        reported: tuple[StreamState, ReaderGroup]
        reported = await self._committer.submit(report, notes=weight)
        return reported

    async def offline(
        self, name: str, group: str, reader: str, position: Position
    ) -> tuple[StreamState, ReaderGroup]:
        """Put a reader's segments back to `position`; raises `UnknownReader`."""

        def offline(streams: OwnedStreams, draft: Draft) -> tuple[StreamState, ReaderGroup]:
            stream = streams.stream(name)
            now = stream.service_ms(draft.moment)
            return stream, stream.groups.offline(group, reader, position, draft, now=now)

        left: tuple[StreamState, ReaderGroup] = await self._committer.submit(offline)
        return left

    async def remove_group(self, name: str, group: str) -> None:
        """Remove a reader group with its position; raises `UnknownReader`."""
        await self._change(name, lambda stream, draft: stream.groups.remove(group, draft))
        log.info("reader_group_removed", stream=name, group=group)

    async def _change(self, name: str, change: Callable[[StreamState, Draft], None]) -> StreamState:
        """Change a stream; returns it when that is durable. Raises `UnknownStream`."""

        def work(streams: OwnedStreams, draft: Draft) -> StreamState:
            stream = streams.stream(name)
            change(stream, draft)
            return stream

        changed: StreamState = await self._committer.submit(work)
        return changed

    # Reads

    def explain(
        self, name: str, domain: str | None, dry_run: DryRun = NOTHING_SUPPOSED
    ) -> Explanation:
        """Return the decision of a domain now, what it would be without each holder, a dry run."""
        stream = self.stream(name)
        return explain(stream, domain, stream.service_ms(self._clocks.read()), dry_run)

    async def ledger(
        self, name: str, domain: str | None, *, after: int, limit: int
    ) -> list[LedgerEntry]:
        """Return the marks after a seq that went on without a writer; raises `UnknownDomain`."""
        stream = self.stream(name)
        stream.history(domain)
        chain = stream.id, stream.settings.domain_or_default(domain)
        reading = self._store.reading
        return await asyncio.to_thread(reading.ledger, *chain, after=after, limit=limit)

    def writer(self, name: str, writer: str) -> WriterRow:
        """Return one member; raises `UnknownWriter`."""
        now, stream = self._clocks.read(), self.stream(name)
        return writer_row(stream, writer, stream.unix_shift(now))

    def writers(self, name: str, *, start: int, limit: int) -> list[WriterRow]:
        """Return a page of the stream's members, the longest holder first."""
        now, stream = self._clocks.read(), self.stream(name)
        return writers(stream, start=start, limit=limit, now=now)

    def group(self, name: str, group: str) -> tuple[StreamState, ReaderGroup]:
        """Return a reader group; raises `UnknownReader` where nobody has reported."""
        stream = self.stream(name)
        return stream, stream.groups[group]

    def groups(self, name: str, *, after: str | None, limit: int) -> list[GroupRow]:
        """Return a page of the stream's reader groups by name, reported at in Unix ms."""
        now, stream = self._clocks.read(), self.stream(name)
        shift = stream.unix_shift(now)
        rows = stream.groups.page(after, limit)
        return [row._replace(reported_at=row.reported_at + shift) for row in rows]

    def check_alive(self) -> None:
        """Raise `StoreUnavailable` where nothing but a new start of the process helps."""
        self._committer.check_alive()

    async def check_ready(self) -> None:
        """Raise `StoreUnavailable` where the controller cannot serve."""
        self._committer.check()
        await self._committer.ping()

    def measure(self) -> Exposition:
        """Return what the metrics show now; it may be made into text by any thread."""
        metrics, streams, now = self.metrics, self._committer.streams, self._clocks.read()
        metrics.show_state(ready=self._committer.ready, leases=self.ownership.leases)
        metrics.streams.set(len(streams))
        metrics.long_polls.set(len(self._notifier))
        metrics.intake.set(self._committer.depth)
        metrics.service_clock.set(now.service / 1000)
        return Exposition(metrics.registry, streams, now)

    # Other controllers, and time

    def _leave(self, waited_for: asyncio.Future[None]) -> None:
        """Release all streams, whether what waited was written or not."""
        if not waited_for.cancelled():
            waited_for.exception()
        self.ownership.leave()
        self._committer.wake()
