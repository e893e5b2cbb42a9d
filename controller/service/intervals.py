"""Schedules the marks of streams that wait for their mark interval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from controller.aggregation.draft import Draft, Moment
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.stream import StreamState


class Intervals:
    """The waiting streams, with one timer for all.

    A timer is never postponed, so `wake` may be called early.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._waiting: dict[str, StreamState] = {}
        self._due = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, streams: Iterable[StreamState]) -> None:
        for stream in streams:
            self._waiting[stream.id] = stream
            self._due = 0

    def clear(self) -> None:
        self._waiting = {}

    def are_over(self, now: Moment) -> bool:
        """If no interval is over, set the timer again."""
        if not self._waiting:
            return False
        if now.steady < self._due:
            self._wake_in((self._due - now.steady) / 1000)
            return False
        return True

    def advance(self, draft: Draft, owned_streams: OwnedStreams) -> None:
        changed_streams = owned_streams.find_by_ids(draft.stream_ids())
        streams = {stream.id: stream for stream in changed_streams} | self._waiting
        self._waiting = {}
        waits = []
        for stream in streams.values():
            if not owned_streams.is_owned(stream):
                continue
            wait = stream.advance_due(draft)
            if wait is not None:
                self._waiting[stream.id] = stream
                waits.append(wait)
        if waits:
            self._due = draft.moment.steady + min(waits)
            self._wake_in(min(waits) / 1000)

    def _wake_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._wake()
