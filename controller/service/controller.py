"""The controller's interface; changes are durable when they are answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import uuid4

import structlog
from msgspec import UNSET, UnsetType

from controller.aggregation import group_backlog, operations
from controller.aggregation.draft import Draft, Moment
from controller.aggregation.group_backlog import GroupBacklog
from controller.aggregation.operations import ANONYMOUS_ORDER, Order
from controller.aggregation.owned_streams import NotOwner, OwnedStreams
from controller.aggregation.stream import StreamState
from controller.service.clocks import Clocks
from controller.service.committer import Committer
from controller.service.limits import Limits
from controller.service.long_reads import Views
from controller.service.maintenance import maintain
from controller.service.polls import LongPollNotifier, LongPolls
from controller.service.telemetry.metrics import Exposition, Metrics
from controller.store.port import Store, StoreShared, StoreUnavailable, StreamSummary
from controller.store.schema import SCHEMA_REVISION
from noted_time import __version__
from noted_time.answers import Replica
from noted_time.reading import ReaderGroup
from noted_time.rules import Seal, SealRequest
from noted_time.values import Accepted, Note, Refused, find_zone_release, validate_name

Position = Mapping[int, int]

log = structlog.get_logger()

Given = ParamSpec("Given")
Outcome = TypeVar("Outcome")

SEGMENTS_PER_NOTE = 32  # they take as long as one note


class Controller:
    """One controller with its store; methods that need it raise `StoreUnavailable`."""

    def __init__(
        self, store: Store, clocks: Clocks | None = None, limits: Limits | None = None
    ) -> None:
        self.metrics = Metrics()
        self.limits = limits or Limits()
        self.stopping = asyncio.Event()
        self._clocks = clocks or Clocks()
        self._notifier = LongPollNotifier()
        self._committer = Committer(store, self._clocks, self._notifier, self.metrics, self.limits)
        self.ownership = self._committer.ownership
        self.polls = LongPolls(
            self.stream, self._clocks.read, self._notifier, self.limits, self.metrics
        )
        self.views = Views(
            lambda: self._committer.streams, self.stream, self._clocks, store.reading
        )
        self._store = store
        self._url = ""
        self._maintenance: asyncio.Task[None] | None = None

    def register_url(self, url: str) -> None:
        """Register this controller's URL, before `start`."""
        self._store.register(url)
        self._url = url

    async def start(self) -> None:
        await self._committer.start()
        if self.shared is not None:
            return
        try:
            if risk := await asyncio.to_thread(self._read_database):
                log.warning("commits_may_be_lost", risk=risk)
        except StoreUnavailable as error:  # the streams were loaded
            log.warning("store_unavailable", error=str(error))
        maintenance = maintain(self._committer, self._store, self._clocks, self.metrics)
        self._maintenance = asyncio.create_task(maintenance, name="maintenance")
        log.info("started", streams=len(self._committer.streams))

    def _read_database(self) -> str | None:
        """Show which database this is, and return why acknowledged changes may be lost."""
        self.metrics.show_database(self._store.reading.replicas_secret())
        return self._store.reading.risk()

    @property
    def shared(self) -> StoreShared | None:
        """The error after which the process must end, if any."""
        return self._committer.shared

    def prepare_to_stop(self) -> None:
        """Answer the long polls and release the streams, before `close`.

        Waiting work is committed first; later requests are forwarded to the new owners.
        """
        self.stopping.set()
        self._notifier.shutdown()
        if self._store.local:
            return
        try:
            # an empty change, done after all earlier ones
            last_change = self._committer.submit(lambda _streams, _draft: None)
        except StoreUnavailable:
            self.ownership.leave()
        else:
            last_change.add_done_callback(self._leave)

    async def close(self) -> None:
        self.prepare_to_stop()
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.wait([self._maintenance])
        await self._committer.close()
        self._store.close()
        log.info("stopped")

    def owns(self, name: str) -> bool:
        return name in self._committer.streams

    def stored_ms(self, stream: StreamState) -> int:
        """Return a stream's service clock as last stored: a restart continues from there."""
        return self._committer.streams.stored_ms(stream)

    def check_serving(self) -> None:
        self._committer.check()

    def stream(self, name: str) -> StreamState:
        """Return a stream for reading, or raise `UnknownStream` or `NotOwner`.

        Also raises `NotOwner` if the leases may have expired.
        """
        self._committer.check()
        if not self.ownership.is_sure:
            raise NotOwner(name)
        return self._committer.streams.stream(name)

    async def names(self) -> list[str]:
        self._committer.check()
        return await asyncio.to_thread(self._store.reading.names)

    async def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        return await asyncio.to_thread(self._store.reading.summaries, names)

    async def replicas_secret(self) -> bytes:
        return await asyncio.to_thread(self._store.reading.replicas_secret)

    async def replicas(self) -> list[tuple[Replica, int]]:
        """Return each with its number of buckets."""
        records = await asyncio.to_thread(self._store.reading.replicas)
        alone = [Replica(self._url, __version__, SCHEMA_REVISION, None, find_zone_release())]
        leases = self.ownership.leases
        bucket_counts = Counter(leases.others.values()) + Counter({self._url: len(leases.mine)})
        return [(replica, bucket_counts[replica.url]) for replica in records or alone]

    async def risk(self, *, check: bool = False) -> str | None:
        """Return why acknowledged changes may be lost. If `check`, also look for damage."""
        reading = self._store.reading
        damage = await asyncio.to_thread(reading.damage) if check else None
        return damage or await asyncio.to_thread(reading.risk)

    @property
    def now(self) -> Moment:
        return self._clocks.read()

    @property
    def now_ms(self) -> int:
        return self.now.wall

    def note(self, name: str, notes: Sequence[Note]) -> asyncio.Future[list[Accepted | Refused]]:
        """Take notes in order; the future has their outcomes once they are durable.

        Raises `Overloaded`; the future raises `UnknownStream` and `NotOwner`.
        """
        most_writers = self.limits.writers
        return self._committer.submit(
            lambda streams, draft: streams.open(name).take_notes(notes, draft, most_writers),
            notes=len(notes),
        )

    def count_notes(self, results: Iterable[tuple[Accepted | Refused, int]]) -> int:
        """Return how many were refused."""
        refused_count = 0
        for result, count in results:
            status = "accepted"
            if isinstance(result, Refused):
                status = result.status
                refused_count += count
            self.metrics.notes(status).inc(count)
        return refused_count

    async def put_stream(
        self,
        name: str,
        changes: Mapping[str, Any],
        order: Order = ANONYMOUS_ORDER,
        *,
        log: str | None = None,
    ) -> tuple[StreamState, bool]:
        """Return the stream and whether it is new; raises `LimitReached`."""
        validate_name("stream", name)
        new_id = uuid4().hex
        max_streams = self.limits.streams

        def put(streams: OwnedStreams, draft: Draft) -> tuple[StreamState, bool]:
            return operations.put(
                streams,
                draft,
                order,
                name,
                changes,
                new_id=new_id,
                most_streams=max_streams,
                log=log,
            )

        return await self._committer.submit(put)

    async def drop_stream(self, name: str) -> None:
        def drop(streams: OwnedStreams, draft: Draft) -> None:
            stream = streams.open(name)
            streams.remove(stream)
            draft.drop(stream)

        await self._committer.submit(drop)
        log.info("stream_removed", stream=name)

    async def change(
        self,
        name: str,
        work: Callable[Concatenate[StreamState, Draft, Given], Outcome],
        *arguments: Given.args,
        **keywords: Given.kwargs,
    ) -> tuple[StreamState, Outcome]:
        """Change a stream by `work`, such as a function of `aggregation/operations.py`.

        Return the stream and the outcome once they are durable. Raises `UnknownStream`, `NotOwner`
        and the errors of `work`, which must change nothing then.
        """

        def change(streams: OwnedStreams, draft: Draft) -> tuple[StreamState, Outcome]:
            stream = streams.open(name)
            return stream, work(stream, draft, *arguments, **keywords)

        return await self._committer.submit(change)

    async def seal(self, name: str, order: Order, request: SealRequest) -> tuple[StreamState, Seal]:
        """Raises the same as `change` and `operations.seal`."""
        final_seal: Seal = await self._committer.submit(
            lambda streams, draft: operations.seal(streams.open(name), draft, order, request)
        )
        return self._committer.streams.stream(name), final_seal

    async def report(  # noqa: PLR0913 - the fields of a report
        self,
        name: str,
        group: str,
        reader: str,
        position: Position,
        *,
        has_backlog: bool | UnsetType | None = UNSET,
        is_admin: bool = False,
    ) -> tuple[StreamState, ReaderGroup]:
        """Raises `LimitReached`."""
        validate_name("reader group", group)
        validate_name("reader", reader)

        def report(streams: OwnedStreams, draft: Draft) -> tuple[StreamState, ReaderGroup]:
            stream = streams.open(name)
            now = stream.served_ms(draft.moment)
            groups = stream.groups
            groups.check_room(group, reader, position, self.limits.readers, is_admin=is_admin)
            return stream, groups.report(
                group, reader, position, draft, now=now, has_backlog=has_backlog
            )

        weight = 1 + len(position) // SEGMENTS_PER_NOTE
        return await self._committer.submit(report, notes=weight)

    async def remove_group(self, name: str, group: str) -> None:
        await self.change(name, lambda stream, draft: stream.groups.remove(group, draft))
        log.info("reader_group_removed", stream=name, group=group)

    async def backlog(self, name: str, group: str) -> GroupBacklog:
        """Store a changed result first, so it survives a restart; raises `UnknownReader`."""
        stream = self.stream(name)
        backlog = group_backlog.assess(stream, group, self.now)
        if backlog.record != stream.groups.backlog(group):
            _, backlog = await self.change(name, group_backlog.keep, group)
        return backlog

    def check_alive(self) -> None:
        self._committer.check_alive()

    async def check_ready(self) -> None:
        self._committer.check()
        await self._committer.ping()

    def measure(self) -> Exposition:
        """Any thread may format the metrics."""
        metrics = self.metrics
        streams = self._committer.streams
        now = self._clocks.read()
        metrics.call_age.set(self._committer.call_age_s)
        metrics.show_state(ready=self._committer.is_serving, leases=self.ownership.sure_leases)
        metrics.streams.set(len(streams))
        metrics.long_polls.set(len(self._notifier))
        metrics.intake.set(self._committer.depth)
        metrics.service_clock.set(now.service / 1000)
        return Exposition(metrics.registry, streams, now)

    def _leave(self, waited_for: asyncio.Future[None]) -> None:
        if not waited_for.cancelled():
            waited_for.exception()  # or asyncio logs that it was never retrieved
        self.ownership.leave()
        self._committer.wake()
