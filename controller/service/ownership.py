"""Which buckets this controller has: how it comes to its share, and where the others are.

Once a second, and whenever another controller says that leases changed, it takes a turn: it keeps
the service clocks of its buckets, looks who has what, gives what is beyond its share, takes what is
free up to it, and reads the streams of what it took. Turns are taken between commits, by the same
task, so a bucket goes with nothing under way: its next owner reads all that was acknowledged.

A controller that stops *leaves*: it gives all and takes none, and its further turns only look who
has what, for as long as it has requests to pass on.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import structlog

from controller.aggregation.buckets import bucket_of
from controller.aggregation.world import load
from controller.service.sharing import Share, share
from controller.store.port import Batch, Leases

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from controller.aggregation.draft import Moment
    from controller.aggregation.stream import StreamState
    from controller.aggregation.world import World
    from controller.service.bell import Bell
    from controller.service.clocks import Clocks
    from controller.store.port import Store

    InThread = Callable[..., Coroutine[Any, Any, Any]]

log = structlog.get_logger()

TURN_MS = 1000
"""How long after one turn comes the next."""

HURRY_MS = 100
"""The same, while a bucket is nobody's or somebody said that leases changed."""


class Ownership:
    """The buckets of one controller, and where those of the others are."""

    def __init__(self, store: Store, clocks: Clocks, bell: Bell, in_thread: InThread) -> None:
        """Begin with nothing."""
        self.leases = Leases(1, frozenset())
        self._some_are_free = True
        self._store = store
        self._clocks = clocks
        self._bell = bell
        self._in_thread = in_thread
        self._chance = Random()  # noqa: S311 - nothing is guessed by it
        self._changed = asyncio.Event()
        self._turned_at = 0
        self._hurries = False
        self._leaves = self._left = False

    def is_due(self, now: Moment) -> bool:
        """Whether to take a turn; never again where the database is this process's own."""
        if self._store.local:
            return False
        if self._leaves and not self._left:
            return True
        every = HURRY_MS if self._hurries or self._some_are_free else TURN_MS
        return now.steady - self._turned_at >= every

    def hurry(self) -> None:
        """Take the next turn soon: something may have changed."""
        self._hurries = True

    def leave(self) -> None:
        """Give all buckets back at the next turn, which is due now, and take none again."""
        self._leaves = True

    @property
    def is_last(self) -> bool:
        """Whether what nobody has stays nobody's: this controller left, and no other lives."""
        return self._left and self.leases.replicas == 0

    def elsewhere(self, name: str) -> str | None:
        """Return where the controller is called that has the stream, `None` where nobody is known.

        That is not this controller, which the caller knows.
        """
        leases = self.leases
        return leases.others.get(bucket_of(name, leases.buckets)) or None

    async def change(self, seconds: float) -> None:
        """Wait until the leases are another, at most so long."""
        changed = self._changed
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return

    async def turn(self, world: World, known: Mapping[int, int] | None = None) -> list[StreamState]:
        """Come to this controller's share; returns the streams that were taken in.

        `known` has clocks that are not to be read anew. Raises `StoreUnavailable`, and what the
        world holds then means nothing.
        """
        self._turned_at, self._hurries = self._clocks.read().steady, False
        if world.clocks and not self._store.local:
            clocks = world.clocks_at(self._clocks.read())
            await self._in_thread(self._store.commit, Batch(clocks))
        if self._leaves and not self._left:
            await self._leave(world)
        leases = await self._in_thread(self._store.heartbeat)
        world.buckets = leases.buckets
        self._let_go(world, leases.mine)
        todo = Share() if self._left else share(leases, self._chance)
        mine = leases.mine - todo.give
        if todo.give:
            self._let_go(world, mine)
            await self._in_thread(self._store.release, todo.give)
        if todo.take:
            mine |= await self._in_thread(self._store.acquire, todo.take)
        taken = await self._take_in(world, mine - world.clocks.keys(), known or {})
        self._tell(Leases(leases.buckets, mine, leases.others, leases.replicas))
        return taken

    async def _leave(self, world: World) -> None:
        self._let_go(world, frozenset())
        await self._in_thread(self._store.leave)
        self._left = True

    def _let_go(self, world: World, mine: frozenset[int]) -> None:
        gone = world.clocks.keys() - mine
        for stream in world.keep(mine):
            self._bell.ring(stream.id)
        if gone:
            log.info("buckets_given", count=len(gone), left=len(mine))

    async def _take_in(
        self, world: World, buckets: frozenset[int], known: Mapping[int, int]
    ) -> list[StreamState]:
        if not buckets:
            return []
        streams = await self._in_thread(load, self._store, buckets, world.buckets)
        kept = await self._in_thread(self._store.clocks)
        for stream in streams:  # what was stored with it may be later than the clock, which is kept
            bucket = bucket_of(stream.record.name, world.buckets)  # once a second only
            kept[bucket] = max(kept[bucket], stream.latest_ms)
        service = self._clocks.read().service
        ahead = {bucket: known.get(bucket, kept[bucket] - service) for bucket in buckets}
        world.enter(ahead, streams)
        if not self._store.local:
            log.info("buckets_taken", count=len(buckets), streams=len(streams))
        return list(streams)

    def _tell(self, leases: Leases) -> None:
        if leases == self.leases:
            return
        self.leases, self._some_are_free = leases, bool(leases.free)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
