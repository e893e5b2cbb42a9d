"""The controller as its callers see it: changes that are durable when answered, and reads."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog

from controller.aggregation.answers import Explanation, WriterRow, explain, writers
from controller.aggregation.stream import StreamState
from controller.service import upkeep
from controller.service.bell import Bell
from controller.service.clocks import Clocks
from controller.service.committer import Committer
from controller.service.exposition import Exposition
from controller.service.following import Following
from controller.service.hearing import hear
from controller.service.limits import Limits, Overloaded
from controller.service.metrics import Metrics
from controller.store.port import StoreUnavailable, StreamRecord
from noted_time import Accepted, NotedTimeError, StreamSettings
from noted_time.errors import LimitReached, UnknownReader
from noted_time.settings import checked_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controller.aggregation.draft import Draft
    from controller.aggregation.world import World
    from controller.service.batches import Answering
    from controller.store.port import Store
    from noted_time import Mark, ReaderGroup, Refused, ScaleEvent
    from noted_time.note import NoteLike

log = structlog.get_logger()

TICK_S = 0.1
KEEP_CLOCK_EVERY_MS = 5_000
FORGET_EVERY_MS = 60_000


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
        self._clocks = clocks or Clocks()
        self._bell = Bell()
        self._limits = limits or Limits()
        self._committer = Committer(store, self._clocks, self._bell, self.metrics, self._limits)
        self._ownership = self._committer.ownership
        self._following = Following(store.reading, self._bell)
        self._store = store
        self._tasks: list[asyncio.Task[None]] = []

    def called_at(self, url: str) -> None:
        """Say where other controllers find this one; to be called before `start`."""
        self._store.register(url)

    async def start(self) -> None:
        """Load the streams and serve; raises `StoreUnavailable`."""
        await self._committer.start()
        self._tasks.append(asyncio.create_task(self._tick(), name="ticker"))
        if not self._store.local:
            hearing = hear(self._store, self._ownership, self._following)
            self._tasks.append(asyncio.create_task(hearing, name="listener"))
        log.info("started", streams=len(self._committer.world))

    def let_go(self) -> None:
        """Answer the long polls, and let other controllers have the streams; before `close`.

        What waits is committed first. What comes later is theirs, and can be passed on to them.
        """
        self._bell.silence()
        if self._store.local:
            return
        try:
            waited_for = self._committer.submit(lambda _world, _draft: None)
        except (StoreUnavailable, Overloaded):
            self._ownership.leave()
        else:
            waited_for.add_done_callback(self._leave)

    async def close(self) -> None:
        """Commit what is in flight and give the store back."""
        self.let_go()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._following.close()
        await self._committer.close()
        self._store.close()
        log.info("stopped")

    @property
    def world(self) -> World:
        """The streams of this controller."""
        return self._committer.world

    @property
    def limits(self) -> Limits:
        """What this controller takes on."""
        return self._limits

    # Which streams are here

    def has(self, name: str) -> bool:
        """Whether the stream, made or not yet, is this controller's to aggregate."""
        return name in self._committer.world

    def elsewhere(self, name: str) -> str | None:
        """Return where the controller is called that has the stream, `None` where none is known."""
        return self._ownership.elsewhere(name)

    async def change(self, seconds: float) -> None:
        """Wait until other controllers have other streams, at most so long."""
        await self._ownership.change(seconds)

    def is_last(self) -> bool:
        """Whether this controller gave its streams back and there is no other to have them."""
        return self._ownership.is_last

    def look_again(self) -> None:
        """Find out soon who has which streams: the one that had some is not reached."""
        self._ownership.hurry()

    def doubt(self, name: str, *, trimmed: bool = False) -> None:
        """Read a stream of another controller anew before it is shown: its caller changed it.

        Where the stream was `trimmed`, also where its marks begin.
        """
        self._following.doubt(name, trimmed=trimmed)

    def is_waking(self) -> bool:
        """Whether requests may be old, because this process was paused until a moment ago."""
        return self._clocks.is_waking()

    def check_serving(self) -> None:
        """Raise `StoreUnavailable` where this controller knows of no stream."""
        self._committer.check()

    def stream(self, name: str) -> StreamState:
        """Return a stream of this controller; raises `UnknownStream` and `NotHere`."""
        return self._committer.world.stream(name)

    async def stream_to_read(self, name: str) -> StreamState:
        """Return a stream for its settings and marks, whoever aggregates it.

        Raises `UnknownStream` and `StoreUnavailable`.
        """
        if self._store.local or self.has(name):
            self.check_serving()
            return self.stream(name)
        return await self._following.stream(name)

    async def glances(self, names: Sequence[str]) -> list[StreamState]:
        """Return those of the streams that are there, for their settings and last marks."""
        own = (name for name in names if self._store.local or self.has(name))
        here = {name: self.world.find(name) for name in own}
        there = await self._following.glances(name for name in names if name not in here)
        found = (here.get(name) or there.get(name) for name in names)
        return [stream for stream in found if stream is not None]

    async def names(self) -> list[str]:
        """Return the names of all streams in order; raises `StoreUnavailable`."""
        self.check_serving()
        return self.world.names() if self._store.local else await self._following.names()

    # Changes: durable when they return

    async def note(self, name: str, notes: Sequence[NoteLike]) -> list[Accepted | Refused]:
        """Take the notes, in order; raises `UnknownStream`, `StoreUnavailable`, `Overloaded`."""
        answer: asyncio.Future[list[Accepted | Refused]]
        answer = asyncio.get_running_loop().create_future()
        self.submit_notes(name, notes, answer)
        return await answer

    def submit_notes(self, name: str, notes: Sequence[NoteLike], answer: Answering) -> None:
        """Queue the notes; `answer` is told what `note` returns or raises."""
        most_writers = self._limits.writers
        self._committer.queue(
            lambda world, draft: world.stream(name).take_notes(notes, draft, most_writers),
            answer,
            notes=len(notes),
        )

    def count_notes(self, results: Iterable[tuple[Accepted | Refused, int]]) -> None:
        """Count what became of the notes of one request, and of how many."""
        answered = self.metrics.answered
        for result, count in results:
            answered["accepted" if isinstance(result, Accepted) else result.status] += count

    async def put_stream(self, name: str, changes: Mapping[str, Any]) -> tuple[StreamState, bool]:
        """Create the stream or change its settings; returns it and whether it is new.

        Raises `LimitReached` where there are as many streams as may be.
        """
        checked_name("stream", name)

        def put(world: World, draft: Draft) -> tuple[StreamState, bool]:
            known = world.find(name)
            if known is None:
                if len(world) >= self._limits.streams:
                    raise LimitReached("streams", self._limits.streams)
                stream = StreamState(StreamRecord(uuid4().hex, name, StreamSettings(**changes)))
                world.add(stream)
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

        def drop(world: World, draft: Draft) -> None:
            stream = world.stream(name)
            world.remove(stream)
            draft.drop(stream)

        await self._committer.submit(drop, last=True)
        log.info("stream_removed", stream=name)

    async def scale(self, name: str, event: ScaleEvent) -> StreamState:
        """Take a scale event; raises `InvalidScale`."""

        def scale(world: World, draft: Draft) -> StreamState:
            stream = world.stream(name)
            stream.scale(event, draft)
            return stream

        stream: StreamState = await self._committer.submit(scale)
        log.info("stream_scaled", stream=name, sealed=dict(event.sealed))
        return stream

    async def truncate(self, name: str, cut: Mapping[int, int]) -> StreamState:
        """Drop the marks that nobody needs who reads from `cut` on."""

        def truncate(world: World, draft: Draft) -> StreamState:
            stream = world.stream(name)
            stream.truncate(cut, draft)
            return stream

        stream: StreamState = await self._committer.submit(truncate)
        log.info("stream_truncated", stream=name)
        return stream

    async def report(
        self, name: str, group: str, reader: str, position: Mapping[int, int]
    ) -> StreamState:
        """Take in how far a reader of a group has read."""
        checked_name("reader group", group)
        checked_name("reader", reader)

        def report(world: World, draft: Draft) -> StreamState:
            stream = world.stream(name)
            stream.report(group, reader, position, draft)
            return stream

        stream: StreamState = await self._committer.submit(report)
        return stream

    async def offline(
        self, name: str, group: str, reader: str, position: Mapping[int, int]
    ) -> StreamState:
        """Put a reader's segments back to `position`; raises `UnknownReader`."""

        def offline(world: World, draft: Draft) -> StreamState:
            stream = world.stream(name)
            if reader not in self._group(stream, group).readers:
                raise UnknownReader(group, reader)
            stream.offline(group, reader, position, draft)
            return stream

        stream: StreamState = await self._committer.submit(offline)
        return stream

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
            stream = await self.stream_to_read(name)
            found = stream.history(key).after(after, limit)
            left = deadline - loop.time()
            if found or left <= 0:
                return NewMarks(stream, found)
            if len(self._bell) >= self._limits.long_polls:
                message = f"{len(self._bell)} long polls wait already; try again"
                raise self.metrics.overload(message)
            if not await self._bell.wait(stream.id, left):
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
        metrics, world, now = self.metrics, self._committer.world, self._clocks.read()
        metrics.count_notes()
        metrics.show_state(ready=self._committer.ready, leases=self._ownership.leases)
        metrics.streams.set(len(world))
        metrics.long_polls.set(len(self._bell))
        metrics.intake.set(self._committer.depth)
        metrics.service_clock.set(now.service / 1000)
        return Exposition(metrics.registry, world, now)

    # Other controllers, and time

    def _leave(self, waited_for: asyncio.Future[None]) -> None:
        """Give all streams back, whether what waited was written or not."""
        if not waited_for.cancelled():
            waited_for.exception()
        self._ownership.leave()
        self._committer.wake()

    async def _tick(self) -> None:
        kept_at = forgot_at = self._clocks.read().steady
        while True:
            await asyncio.sleep(TICK_S)
            now = self._clocks.read()
            self._committer.wake()
            if any(stream.is_silence_over(now) for stream in self._committer.world):
                await self._try(upkeep.leave_out_the_silent)
            # in a shared database the clocks are kept at every turn
            if self._store.local and now.steady - kept_at >= KEEP_CLOCK_EVERY_MS:
                kept_at = now.steady
                await self._try(upkeep.keep_clock)
            if now.steady - forgot_at >= FORGET_EVERY_MS:
                forgot_at = now.steady
                await self._try(upkeep.forget_old_marks)
                await self._try(upkeep.forget_departed)

    async def _try(self, work: Any) -> None:  # noqa: ANN401 - any work
        with contextlib.suppress(StoreUnavailable, NotedTimeError):  # the next tick tries again
            await self._committer.submit(work)

    @staticmethod
    def _group(stream: StreamState, group: str) -> ReaderGroup:
        try:
            return stream.groups[group]
        except KeyError:
            raise UnknownReader(group) from None
