"""Shares the streams among the controllers of a database, by buckets of hashed names.

A controller takes a turn once a second, or sooner while a bucket is free or an owner does not
answer. It stores its clocks, releases buckets beyond its share, and acquires free ones up to it.
Turns run between commits, so a bucket's next owner loads all acknowledged changes. Between turns, a
thread renews the leases.

A stopping controller *leaves*: it releases all buckets, and then only forwards requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from random import Random
from typing import Any, NamedTuple

import structlog
from msgspec.structs import replace

from controller.aggregation.draft import Moment
from controller.aggregation.owned_streams import OwnedStreams, bucket_of, load
from controller.aggregation.stream import StreamState
from controller.service.clocks import Clocks
from controller.service.lease_keeper import LeaseKeeper
from controller.service.polls import LongPollNotifier
from controller.store.port import LEASE_MS, Leases, Store
from controller.store.records import Change, ChangeSet
from noted_time import Mark, StreamCut
from noted_time.reading import MarkHistory

InThread = Callable[..., Coroutine[Any, Any, Any]]

log = structlog.get_logger()

TURN_MS = 1000
HURRY_MS = 100


class Share(NamedTuple):
    """The free buckets to acquire, or the owned ones to release."""

    acquire: frozenset[int] = frozenset()
    release: frozenset[int] = frozenset()


def find_share(leases: Leases, chance: Random) -> Share:
    """Return the buckets to acquire or release to reach this controller's share.

    The share is the number of buckets per controller, rounded up, so every bucket gets an owner.
    The choice is random, so two controllers rarely try the same bucket.

    >>> from controller.store.port import Leases
    >>> from random import Random
    >>> find_share(Leases(4, frozenset((0, 1, 2)), {}, replicas=2), Random(1))
    Share(acquire=frozenset(), release=frozenset({2}))
    >>> find_share(Leases(4, frozenset((0, 1)), {2: "http://b"}, replicas=2), Random(1))
    Share(acquire=frozenset(), release=frozenset())
    >>> find_share(Leases(4, frozenset(), {2: "http://b"}, replicas=2), Random(1))
    Share(acquire=frozenset({0, 3}), release=frozenset())
    """
    fair = -(-leases.buckets // leases.replicas)
    room = fair - len(leases.mine)
    if room < 0:
        return Share(release=frozenset(sorted(leases.mine)[room:]))
    free = sorted(leases.free)
    return Share(acquire=frozenset(chance.sample(free, min(room, len(free)))))


class Ownership:
    """The buckets of one controller, and the owners of the others."""

    def __init__(
        self, store: Store, clocks: Clocks, notifier: LongPollNotifier, in_thread: InThread
    ) -> None:
        self.leases = Leases()
        self._store = store
        self._clocks = clocks
        self._notifier = notifier
        self._in_thread = in_thread
        self._changed = asyncio.Event()
        self._turned_at = 0
        self._extended_at = -inf
        self._keeper = LeaseKeeper(store, clocks, self.extend_leases, self._lose_leases)
        self._has_free_buckets = self._is_urgent = True
        self._is_leaving = self._has_left = self._has_given_up = False
        self._last_marks: dict[str, dict[str, Mark]] = {}

    def is_due(self, now: Moment) -> bool:
        if self._store.local:
            return False
        if self._is_leaving and not self._has_left:
            return True
        every = HURRY_MS if self._is_urgent or self._has_free_buckets else TURN_MS
        return now.steady - self._turned_at >= every

    @property
    def is_sure(self) -> bool:
        if self._store.local:
            return True
        silent_ms = self._clocks.steady_ms() - self._extended_at
        return not self._has_given_up and silent_ms < LEASE_MS

    @property
    def sure_leases(self) -> Leases:
        """The leases, without buckets of this controller that others may have acquired."""
        return self.leases if self.is_sure else replace(self.leases, mine=frozenset())

    def extend_leases(self, steady_ms: int) -> None:
        """Extend the leases from a time of the monotonic clock, because a later renewal succeeded.

        Any thread may call it.
        """
        self._extended_at = max(self._extended_at, steady_ms)

    def give_up(self) -> None:
        """Stop renewing the leases, so other controllers take over."""
        self._has_given_up = True  # a renewal may be under way
        self._keeper.stop()

    async def close(self) -> None:
        self._keeper.stop()
        await self._keeper.wait_until_stopped()

    def _lose_leases(self) -> None:
        """Read nothing from memory, and let the next turn find out what is left."""
        self._extended_at = -inf
        self.refresh_soon()

    def refresh_soon(self) -> None:
        self._is_urgent = True

    def remember(self, streams: Iterable[StreamState]) -> None:
        for stream in streams:
            last_marks = {}
            for domain, history in stream.histories.items():
                if history.last is not None:
                    last_marks[domain] = _drop_cut(history.last)
            self._last_marks[stream.id] = last_marks

    def leave(self) -> None:
        """Release all buckets at the next turn, which is due now."""
        self._is_leaving = True

    @property
    def is_last(self) -> bool:
        """Whether this controller has left and no other is alive."""
        return self._has_left and self.leases.replicas == 0

    def owner_url(self, name: str) -> str | None:
        """Return the URL of another controller, if known."""
        leases = self.leases
        return leases.others.get(bucket_of(name, leases.buckets)) or None

    async def wait_for_change(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def turn(
        self, owned_streams: OwnedStreams, known_clocks: Mapping[int, int] | None = None
    ) -> list[StreamState]:
        """Reach this controller's share, and return the streams that were loaded.

        Service clocks in `known_clocks` are not read again. After `StoreUnavailable`,
        `owned_streams` must not be used.
        """
        now = self._clocks.read()
        self._turned_at = now.steady
        self._is_urgent = False
        if owned_streams.clocks and not self._store.local:
            clocks = owned_streams.clocks_at(now)
            await self._in_thread(self._store.commit, ChangeSet(*clocks))
            owned_streams.keep_stored(clocks)
        if self._is_leaving and not self._has_left:
            self._drop_outside(owned_streams, frozenset())
            await self._in_thread(self._store.leave)
            self._has_left = True
        leases, is_renewed = await self._in_thread(self._keeper.heartbeat)
        if is_renewed:
            self.extend_leases(now.steady)
        if not self._store.local:
            self._keeper.start()  # before it loads the streams
        owned_streams.buckets = leases.buckets
        todo = Share() if self._has_left else find_share(leases, self._clocks.chance)
        mine = leases.mine - todo.release
        self._drop_outside(owned_streams, mine)
        if todo.release:
            await self._in_thread(self._store.release, todo.release)
        if todo.acquire:
            mine |= await self._in_thread(self._store.acquire, todo.acquire)
        loaded_streams = await self._load(
            owned_streams, mine - owned_streams.clocks.keys(), known_clocks or {}
        )
        self._set_leases(Leases(leases.buckets, mine, leases.others, leases.replicas))
        return loaded_streams

    def _drop_outside(self, owned_streams: OwnedStreams, mine: frozenset[int]) -> None:
        dropped_buckets = owned_streams.clocks.keys() - mine
        streams = owned_streams.drop_outside(mine)
        self.remember(streams)
        for stream in streams:
            self._notifier.notify(stream.id)
        if dropped_buckets:
            log.info("buckets_released", count=len(dropped_buckets), left=len(mine))

    async def _load(
        self, owned_streams: OwnedStreams, buckets: frozenset[int], known_clocks: Mapping[int, int]
    ) -> list[StreamState]:
        if not buckets:
            return []
        streams: list[StreamState] = await self._in_thread(
            load, self._store, buckets, owned_streams.buckets
        )
        clocks = await self._in_thread(self._store.clocks)
        for stream in streams:
            # clocks are stored once a second, so a stream may be ahead
            bucket = bucket_of(stream.record.name, owned_streams.buckets)
            clocks[bucket] = max(clocks[bucket], stream.latest_ms)
        await self._report_lost_marks(streams)  # last, because it clears the remembered marks
        service = self._clocks.read().service
        ahead = {bucket: known_clocks.get(bucket, clocks[bucket] - service) for bucket in buckets}
        stored_clocks = {bucket: clocks[bucket] for bucket in buckets}
        owned_streams.add_buckets(ahead, stored_clocks, streams)
        if not self._store.local:
            log.info("buckets_acquired", count=len(buckets), streams=len(streams))
        return streams

    async def _report_lost_marks(self, streams: Sequence[StreamState]) -> None:
        """Report streams that have shown marks which the database has lost.

        The database is then a restored copy or a lagging standby, and the next marks reuse seqs
        that readers know.
        """
        now = self._clocks.read()
        changes = []
        for stream in streams:
            for domain, shown_mark in self._last_marks.get(stream.id, {}).items():
                stored_seq = self._find_last_stored(stream, domain, shown_mark)
                if stored_seq < shown_mark.seq:
                    changes.append(_count_lost(stream, domain, shown_mark.seq, stored_seq, now))
        if changes:
            await self._in_thread(self._store.commit, ChangeSet(*changes))
        for stream in streams:
            self._last_marks.pop(stream.id, None)

    @staticmethod
    def _find_last_stored(stream: StreamState, domain: str, mark: Mark) -> int:
        history = stream.histories.get(domain, MarkHistory())  # the domain may be lost
        if history.last_seq < mark.seq:
            return history.last_seq
        is_kept = mark.seq >= history.first_seq
        is_replaced = is_kept and _drop_cut(history.mark(mark.seq)) != mark
        return mark.seq - 1 if is_replaced else mark.seq

    def _set_leases(self, leases: Leases) -> None:
        if leases != self.leases:
            self.leases = leases
            self._has_free_buckets = bool(leases.free)
            self._changed.set()
            self._changed = asyncio.Event()


def _drop_cut(mark: Mark) -> Mark:
    return replace(mark, cut=StreamCut({}))


def _count_lost(
    stream: StreamState, domain: str, shown_seq: int, stored_seq: int, now: Moment
) -> Change:
    """Count and log the lost marks of a domain, and return the change to store."""
    stream.lost_marks += shown_seq - stored_seq
    log.error(
        "went_back", stream=stream.record.name, domain=domain, shown=shown_seq, found=stored_seq
    )
    return Change(
        stream.id,
        now.wall,
        stream.served_ms(now),
        "went_back",
        old_values={"domain": domain, "seq": shown_seq},
        new_values={"domain": domain, "seq": stored_seq},
    )
