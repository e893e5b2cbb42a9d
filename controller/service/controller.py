"""The controller as its callers see it: changes that are durable when answered, and reads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog

from controller.aggregation.inspection import Explanation, WriterRow, explain, writers
from controller.aggregation.stream import StreamState
from controller.service.clocks import Clocks
from controller.service.committer import Committer
from controller.service.limits import Limits
from controller.service.maintenance import maintain
from controller.service.metrics import Exposition, Metrics
from controller.service.notifier import LongPollNotifier
from controller.store.port import StoreUnavailable, StreamRecord
from noted_time import Accepted, StreamSettings
from noted_time.errors import LimitReached, UnknownReader
from noted_time.settings import checked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controller.aggregation.draft import Draft
    from controller.aggregation.owned_streams import OwnedStreams
    from controller.store.port import Store, StreamSummary
    from noted_time import Mark, ReaderGroup, Refused, ScaleEvent
    from noted_time.note import NoteLike

    Position = Mapping[int, int]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class NewMarks:
    """What a poll for marks found, and of which stream."""

    stream: StreamState
    marks: Sequence[Mark]


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
                    raise LimitReached("streams", self.limits.streams)
                stream = StreamState(StreamRecord(uuid4().hex, name, StreamSettings(**changes)))
                streams.add(stream)
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
        """Drop the marks that nobody needs who reads from `cut` on."""
        stream = await self._change(name, lambda stream, draft: stream.truncate(cut, draft))
        log.info("stream_truncated", stream=name)
        return stream

    async def report(self, name: str, group: str, reader: str, position: Position) -> StreamState:
        """Take in how far a reader of a group has read."""
        checked_name("reader group", group)
        checked_name("reader", reader)
        return await self._change(
            name, lambda stream, draft: stream.report(group, reader, position, draft)
        )

    async def offline(self, name: str, group: str, reader: str, position: Position) -> StreamState:
        """Put a reader's segments back to `position`; raises `UnknownReader`."""

        def offline(stream: StreamState, draft: Draft) -> None:
            if reader not in self._group(stream, group).readers:
                raise UnknownReader(group, reader)
            stream.offline(group, reader, position, draft)

        return await self._change(name, offline)

    async def _change(self, name: str, change: Callable[[StreamState, Draft], None]) -> StreamState:
        """Change a stream; returns it when that is durable. Raises `UnknownStream`."""

        def work(streams: OwnedStreams, draft: Draft) -> StreamState:
            stream = streams.stream(name)
            change(stream, draft)
            return stream

        changed: StreamState = await self._committer.submit(work)
        return changed

    # Reads

    async def marks(
        self, name: str, key: str | None, *, after: int, limit: int, wait_ms: int
    ) -> NewMarks:
        """Return the marks after a seq, waiting up to `wait_ms` while there is none.

        Raises `UnknownStream` (also when the stream is removed meanwhile), `UnknownKey`, and
        `Overloaded` where as many wait already as may.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        while True:
            stream = self.stream(name)
            found = stream.history(key).after(after, limit)
            left = deadline - loop.time()
            if found or left <= 0:
                return NewMarks(stream, found)
            if len(self._notifier) >= self.limits.long_polls:
                message = f"{len(self._notifier)} long polls wait already; try again"
                raise self.metrics.overload(message)
            if not await self._notifier.wait(stream.id, left):
                return NewMarks(stream, found)

    def explain(self, name: str, key: str | None) -> Explanation:
        """Return the decision of a key now, and what it would be without each holder."""
        stream = self.stream(name)
        return explain(stream, key, stream.service_ms(self._clocks.read()))

    def writers(self, name: str, *, start: int, limit: int) -> list[WriterRow]:
        """Return a page of the stream's members, the longest holder first."""
        now, stream = self._clocks.read(), self.stream(name)
        service_ms = stream.service_ms(now)
        return writers(stream, start=start, limit=limit, service_ms=service_ms, wall_ms=now.wall)

    def group(self, name: str, group: str) -> tuple[StreamState, ReaderGroup]:
        """Return a reader group; raises `UnknownReader` where nobody has reported."""
        stream = self.stream(name)
        return stream, self._group(stream, group)

    def check_alive(self) -> None:
        """Raise `StoreUnavailable` where nothing but a new start of the process helps."""
        if self._committer.failed:
            raise StoreUnavailable("the controller failed, as its log tells; start it again")

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

    @staticmethod
    def _group(stream: StreamState, group: str) -> ReaderGroup:
        try:
            return stream.groups[group]
        except KeyError:
            raise UnknownReader(group) from None
