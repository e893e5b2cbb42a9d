"""The controller as its callers see it: changes that are durable when answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from uuid import uuid4

import structlog

from controller.aggregation import by_hand
from controller.aggregation.by_hand import NOBODYS
from controller.aggregation.shares import NOBODY
from controller.service.alignments import AlignmentService
from controller.service.backlogs import Backlogs
from controller.service.clocks import Clocks
from controller.service.committer import Committer
from controller.service.limits import Limits
from controller.service.maintenance import maintain
from controller.service.metrics import Exposition, Metrics
from controller.service.notifier import LongPollNotifier
from controller.service.polls import LongPolls
from controller.service.reads import Reads
from controller.service.views import Views
from controller.store.port import StoreUnavailable
from noted_time import Refused
from noted_time.values import checked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controller.aggregation.by_hand import Corrected, Order, Truncation
    from controller.aggregation.draft import Draft
    from controller.aggregation.groups import OwnBacklog
    from controller.aggregation.inspection import WriterRow
    from controller.aggregation.owned_streams import OwnedStreams
    from controller.aggregation.shares import Asker
    from controller.aggregation.stream import StreamState
    from controller.store.port import Store, StreamSummary
    from noted_time import Accepted, ReaderGroup, ScaleEvent, Seal, SealRequest
    from noted_time.rules import CorrectionRequest
    from noted_time.values import NoteLike

    Position = Mapping[int, int]

log = structlog.get_logger()

Told = ParamSpec("Told")
Outcome = TypeVar("Outcome")

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
        self.alignments = AlignmentService(self._committer, self._clocks, store.reading)
        self.reads = Reads(self.stream, self._clocks, store.reading)
        self.polls = LongPolls(self.stream, self._notifier, self.limits, self.metrics)
        self.views = Views(lambda: self._committer.streams, self.stream, self._clocks)
        self.backlogs = Backlogs(self._committer, self._clocks, self.limits)
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

    @property
    def now_ms(self) -> int:
        """The wall clock of this controller, in Unix ms."""
        return self._clocks.read().wall

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

    def count_notes(self, results: Iterable[tuple[Accepted | Refused, int]]) -> int:
        """Count what became of the notes of one request, and of how many.

        Returns how many were refused.
        """
        refused = 0
        for result, count in results:
            status = "accepted"
            if isinstance(result, Refused):
                status, refused = result.status, refused + count
            self.metrics.notes.labels(status).inc(count)
        return refused

    async def put_stream(
        self, name: str, changes: Mapping[str, Any], order: Order = NOBODYS
    ) -> tuple[StreamState, bool]:
        """Create the stream or change its settings; returns it and whether it is new.

        Raises `LimitReached` where there are as many streams as may be.
        """
        checked_name("stream", name)
        new_id, most = uuid4().hex, self.limits.streams

        def put(streams: OwnedStreams, draft: Draft) -> tuple[StreamState, bool]:
            return by_hand.put(
                streams, draft, order, name, changes, new_id=new_id, most_streams=most
            )

        stream: StreamState
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

    async def scale(self, name: str, event: ScaleEvent, order: Order = NOBODYS) -> StreamState:
        """Take a scale event; raises `InvalidScale`."""
        stream, _ = await self._change(name, by_hand.scale, order, event)
        log.info("stream_scaled", stream=name, sealed=dict(event.sealed))
        return stream

    async def seal(
        self, name: str, request: SealRequest, order: Order = NOBODYS
    ) -> tuple[StreamState, Seal]:
        """End a stream; returns it and how. Raises as `by_hand.seal`."""
        sealed = await self._change(name, by_hand.seal, order, request)
        log.warning("stream_sealed", stream=name, by=order.by)
        return sealed

    async def truncate(
        self, name: str, cut: Position, order: Order = NOBODYS
    ) -> tuple[StreamState, Truncation]:
        """Drop the marks that readers from `cut` on do not need; returns what that did, too."""
        truncated = await self._change(name, by_hand.truncate, order, cut)
        log.info("stream_truncated", stream=name)
        return truncated

    async def remove_writer(
        self, name: str, writer: str, order: Order = NOBODYS, unless_since: int | None = None
    ) -> WriterRow:
        """Exclude a writer by hand; raises `UnknownWriter`.

        Raises `NotedMeanwhile` where it noted after `unless_since`, in Unix ms.
        """
        await self._change(name, by_hand.remove, order, writer, unless_since)
        log.warning("writer_removed", stream=name, writer=writer, by=order.by)
        return self.reads.writer(name, writer)

    async def correct_position(
        self, name: str, writer: str, request: CorrectionRequest, order: Order = NOBODYS
    ) -> tuple[StreamState, Corrected]:
        """Put a writer's position right by hand; raises as `by_hand.planned_correction`."""
        corrected = await self._change(name, by_hand.correct, order, writer, request)
        log.warning("position_corrected", stream=name, writer=writer, by=order.by)
        return corrected

    async def hold_writer(
        self, name: str, writer: str, for_ms: int | None, order: Order = NOBODYS
    ) -> WriterRow:
        """Suspend the writer's timeout for `for_ms`; `None` ends the hold.

        Raises `UnknownWriter`.
        """
        await self._change(name, by_hand.hold, order, writer, for_ms)
        log.info("writer_held", stream=name, writer=writer, for_ms=for_ms)
        return self.reads.writer(name, writer)

    async def report(  # noqa: PLR0913 - who reports what
        self,
        name: str,
        group: str,
        reader: str,
        position: Position,
        *,
        own: OwnBacklog | None = None,
        asker: Asker = NOBODY,
    ) -> tuple[StreamState, ReaderGroup]:
        """Take in how far a reader has read, and its own backlog; raises `LimitReached`."""
        checked_name("reader group", group)
        checked_name("reader", reader)

        def report(streams: OwnedStreams, draft: Draft) -> tuple[StreamState, ReaderGroup]:
            stream = streams.stream(name)
            now = stream.service_ms(draft.moment)
            stream.groups.check_room(group, reader, position, self.limits.readers, asker)
            groups = stream.groups
            return stream, groups.report(
                group, reader, position, draft, now=now, own=own, by=asker.token
            )

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

    async def _change(
        self,
        name: str,
        change: Callable[Concatenate[StreamState, Draft, Told], Outcome],
        *told: Told.args,
        **named: Told.kwargs,
    ) -> tuple[StreamState, Outcome]:
        """Change a stream; returns it and the outcome when durable. Raises `UnknownStream`."""

        def work(streams: OwnedStreams, draft: Draft) -> tuple[StreamState, Outcome]:
            stream = streams.stream(name)
            return stream, change(stream, draft, *told, **named)

        changed: tuple[StreamState, Outcome] = await self._committer.submit(work)
        return changed

    # How it is

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
