"""Queues of members ordered by time.

An entry stays when its member's time changes; at the front it is checked, and queued again if it
was too early.

It keeps invariant 5 of docs/explain/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

from noted_time.rules.member import BEFORE_ALL_TIME, Member, Track

Item = TypeVar("Item")

BATCH_SIZE = 5_000


class TimeQueue(Generic[Item]):
    """A heap of distinct times, with a list of items for each, as writers often note equal times.

    >>> queue = TimeQueue[str]()
    >>> for time, name in ((9, "DL"), (5, "UA"), (9, "AA")):
    ...     queue.push(time, name)
    >>> queue.least, queue.peek(), queue.pop()
    (5, ['UA'], ['UA'])
    >>> queue.pop(), queue.least
    (['DL', 'AA'], None)
    """

    __slots__ = ("_items", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        self._items: dict[int, list[Item]] = {}

    def push(self, time: int, item: Item) -> None:
        items = self._items.get(time)
        if items is None:
            self._items[time] = [item]
            heappush(self._times, time)
        else:
            items.append(item)

    @property
    def least(self) -> int | None:
        return self._times[0] if self._times else None

    def peek(self) -> list[Item]:
        """Return the items at the least time, whose end the caller may remove."""
        return self._items[self._times[0]]

    def pop(self) -> list[Item]:
        return self._items.pop(heappop(self._times))

    def take(self, upto: int, limit: int) -> list[Item]:
        taken_items: list[Item] = []
        while self._times and self._times[0] <= upto and len(taken_items) < limit:
            items = self.peek()
            remaining = len(items) + len(taken_items) - limit
            if remaining <= 0:
                taken_items += self.pop()
            else:
                taken_items += items[remaining:]
                del items[remaining:]
        return taken_items

    def discard(self, time: int, item: Item) -> None:
        self._items[time].remove(item)

    def iter_before(self, time: int) -> Iterator[Item]:
        for queued_time in self._times:
            if queued_time < time:
                yield from self._items[queued_time]

    def __bool__(self) -> bool:
        return bool(self._times)

    def has_before(self, before: int) -> bool:
        return bool(self._times) and self._times[0] < before


class Ahead(TimeQueue["Track"]):
    """The live members of a domain whose time is above the last lower.

    Times only rise, so a stale entry is too low.
    """

    __slots__ = ()

    def first_time(self) -> int | None:
        while not self.settle(BEFORE_ALL_TIME):
            pass
        return self.least

    def settle(self, lower: int) -> bool:
        """Return whether the first entry is current and no entry is at or below `lower`.

        Each call moves up to `BATCH_SIZE` stale entries.
        """
        for _ in range(BATCH_SIZE):
            if not self._times:
                return True
            time = self._times[0]
            tracks = self._items[self._times[0]]
            if time <= lower:
                return False
            if not tracks:
                self.pop()
                continue
            track = tracks[-1]
            if track.role == "ahead":
                if track.time == time:
                    return True
                self.push(track.time, track)
            else:
                track.in_ahead = False
            del tracks[-1]
        return False

    def skip_while(self, condition: Callable[[Track], bool]) -> tuple[list[Track], int | None]:
        """Return the members at times before the first failure of `condition`, and its time."""
        skipped_tracks: list[Track] = []
        while (first_time := self.first_time()) is not None and condition(self.peek()[-1]):
            skipped_tracks.append(self.peek().pop())
        for track in skipped_tracks:
            self.push(track.time, track)
        return [track for track in skipped_tracks if track.time != first_time], first_time


class Timeouts:
    """Members that are waited for, by the earliest moment when each may time out.

    A stale entry is too early.
    """

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: TimeQueue[Track] = TimeQueue()

    @property
    def next(self) -> int | None:
        return self._queue.least

    def add(self, track: Track, timeout_ms: int) -> None:
        if track.timeout_queued is None:
            track.timeout_queued = track.times_out_served_ms(timeout_ms)
            self._queue.push(track.timeout_queued, track)

    def pop_overdue(self, now: int, timeout_ms: int) -> Iterator[Member]:
        """Yield members that have timed out by `now`; repeat it until it yields nothing."""
        for track in self._queue.take(now, BATCH_SIZE):
            track.timeout_queued = None
            if not track.is_waited_for:
                continue
            if track.times_out_served_ms(timeout_ms) <= now:
                yield track.member
            else:
                self.add(track, timeout_ms)

    def requeue(self, track: Track, timeout_ms: int) -> None:
        if track.timeout_queued is not None:
            self._queue.discard(track.timeout_queued, track)
            track.timeout_queued = None
        if track.is_waited_for:
            self.add(track, timeout_ms)

    def requeue_all(self, waited_for: Iterable[Track], timeout_ms: int) -> None:
        while self._queue:
            for track in self._queue.pop():
                track.timeout_queued = None
        for track in waited_for:
            self.add(track, timeout_ms)


class Departures:
    """Members that finished or were excluded, by the start of their silence (service clock)."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: TimeQueue[Member] = TimeQueue()

    def add(self, member: Member) -> None:
        if not member.is_queued_as_departed:
            member.is_queued_as_departed = True
            self._queue.push(member.silent_served_ms, member)

    def pop_forgettable(
        self, before: int, can_forget: Callable[[Member], bool], limit: int
    ) -> list[Member]:
        departed_members: list[Member] = []
        kept_members: list[Member] = []
        while self._queue.has_before(before) and len(departed_members) < limit:
            member = self._queue.peek().pop()
            if not self._queue.peek():
                self._queue.pop()
            member.is_queued_as_departed = False
            if not member.has_left:
                continue
            if member.silent_served_ms < before and can_forget(member):
                departed_members.append(member)
            else:
                kept_members.append(member)
        for member in kept_members:
            self.add(member)
        return departed_members
