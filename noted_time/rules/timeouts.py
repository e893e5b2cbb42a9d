"""When the members that a domain waits for time out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.rules.time_queue import TimeQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from noted_time.rules.member import Member, Track


class Timeouts:
    """The members that hold or are late, by a moment before which none of them times out.

    An entry may be too early, as every note puts the timeout off; it is queued again in its turn.
    """

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        """Begin with nobody."""
        self._queue: TimeQueue[Track] = TimeQueue()

    @property
    def next(self) -> int | None:
        """A moment before which nobody times out, `None` if nobody may."""
        return self._queue.least

    def add(self, track: Track, timeout_ms: int) -> None:
        """Watch a member, unless it is watched already."""
        if track.timeout_queued is None:
            track.timeout_queued = track.times_out_at(timeout_ms)
            self._queue.push(track.timeout_queued, track)

    def overdue(self, now: int, timeout_ms: int) -> Iterator[Member]:
        """Yield the members that were silent for their timeout at `now`."""
        while self._queue.due(now + 1):
            for track in self._queue.pop():
                track.timeout_queued = None
                if not track.is_waited_for:
                    continue
                if track.times_out_at(timeout_ms) <= now:
                    yield track.member
                else:
                    self.add(track, timeout_ms)

    def change_one(self, track: Track, timeout_ms: int) -> None:
        """Take the changed terms of one member into account."""
        if track.timeout_queued is not None:
            self._queue.discard(track.timeout_queued, track)
            track.timeout_queued = None
        if track.is_waited_for:
            self.add(track, timeout_ms)

    def change_all(self, waited_for: Iterable[Track], timeout_ms: int) -> None:
        """Take a changed writer timeout of the stream into account."""
        while self._queue:
            for track in self._queue.pop():
                track.timeout_queued = None
        for track in waited_for:
            self.add(track, timeout_ms)
