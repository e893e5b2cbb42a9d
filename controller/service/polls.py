"""Long polls: for marks, a complete time or complete windows, which the next mark may answer."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from controller.aggregation.shares import NOBODY, Asker, Shares
from controller.aggregation.stream import StreamState
from controller.service.limits import Limits
from controller.service.metrics import Metrics
from noted_time import CompleteWindow, Mark
from noted_time.reading import Tiling, check_time, check_windows, complete_windows
from noted_time.values import NotCompleteYet


class LongPollNotifier:
    """Wakes the long polls of a stream when it has new marks, and all of them at shutdown."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._count = 0
        self._shut_down = False

    def __len__(self) -> int:
        return self._count

    async def wait(self, stream_id: str, seconds: float) -> bool:
        """Wait until the stream is notified; false when `seconds` passed or after the shutdown.

        No await lies between the caller's look at the marks and the entry in the list, so no
        notification is lost.
        """
        if self._shut_down:
            return False
        woken = asyncio.get_running_loop().create_future()
        self._waiting[stream_id].add(woken)
        self._count += 1
        try:
            async with asyncio.timeout(seconds):
                await woken
        except TimeoutError:
            return False
        finally:
            self._forget(stream_id, woken)
        return not self._shut_down

    def notify(self, stream_id: str) -> None:
        """Wake all that wait for the stream."""
        for woken in self._waiting.get(stream_id, ()):
            if not woken.done():
                woken.set_result(None)

    def notify_all(self) -> None:
        """Wake all, to read again."""
        for stream_id in self._waiting:
            self.notify(stream_id)

    def shutdown(self) -> None:
        """Wake all for the last time."""
        self._shut_down = True
        self.notify_all()

    def _forget(self, stream_id: str, woken: asyncio.Future[None]) -> None:
        waiting = self._waiting[stream_id]
        waiting.discard(woken)
        self._count -= 1
        if not waiting:
            del self._waiting[stream_id]


@dataclass(frozen=True, slots=True)
class NewMarks:
    """What a poll for marks found, and its stream; each mark is built when it is asked for.

    If `quiet`, the stream waits for no writer, and no mark follows until one is live again.
    """

    stream: StreamState
    marks: Iterator[Mark]
    quiet: bool


@dataclass(frozen=True, slots=True)
class CompleteWindows:
    """What a poll for complete windows found, and its stream."""

    stream: StreamState
    windows: Iterator[CompleteWindow]


class LongPolls:
    """Looks at a stream, and again at each of its marks, until there is an answer or time is up.

    All methods raise `UnknownStream` (also when the stream is removed meanwhile), `UnknownDomain`,
    `NotOwner`, `StoreUnavailable`, and `Overloaded` if too many wait already, or the asker has its
    share of them.
    """

    def __init__(
        self,
        stream: Callable[[str], StreamState],
        notifier: LongPollNotifier,
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self._stream = stream
        self._notifier = notifier
        self._shares = Shares(limits.long_polls)
        self._metrics = metrics

    def __len__(self) -> int:
        """How many wait."""
        return len(self._shares)

    async def marks(
        self, name: str, domain: str | None, *, after: int, wait_ms: int, asker: Asker = NOBODY
    ) -> NewMarks:
        """Return the marks after a seq, waiting up to `wait_ms` for the first.

        It does not wait after the last mark of a sealed stream.
        """
        deadline = _now() + wait_ms / 1000
        while True:
            stream = self._stream(name)
            history = stream.history(domain)
            is_over = history.last_seq > after or stream.final_cut is not None
            if is_over or not await self._notified(stream, deadline - _now(), asker):
                running = stream.aggregator.domains[stream.settings.domain_or_default(domain)]
                return NewMarks(stream, history.following(after), running.is_quiet)

    async def cut(
        self, name: str, domain: str | None, complete_to: int, wait_ms: int, asker: Asker = NOBODY
    ) -> Mark:
        """Return the first mark with lower >= `complete_to`, waiting up to `wait_ms` for it.

        Raises `NotCompleteYet` and `ImplausibleTime` too.
        """
        deadline = _now() + wait_ms / 1000
        while True:
            stream = self._stream(name)
            history = stream.history(domain)
            if stream.settings.are_unix_ms:
                check_time(complete_to, history.last_lower)
            try:
                return history.complete_to(complete_to)
            except NotCompleteYet:
                is_over = stream.final_cut is not None
                if is_over or not await self._notified(stream, deadline - _now(), asker):
                    raise

    async def windows(  # noqa: PLR0913 - what is asked, and how long to wait
        self,
        name: str,
        domain: str | None,
        tiling: Tiling,
        *,
        after: int | None,
        limit: int,
        wait_ms: int,
        asker: Asker = NOBODY,
    ) -> CompleteWindows:
        """Return the complete windows from `after` on, waiting up to `wait_ms` for the first.

        It does not wait on a sealed stream. Raises `ImplausibleTime` too.
        """
        deadline = _now() + wait_ms / 1000
        while True:
            stream = self._stream(name)
            history = stream.history(domain)
            if stream.settings.are_unix_ms:
                check_windows(after, tiling, history)
            missing = stream.missing_from(domain)
            found = complete_windows(history, tiling, after=after, limit=limit, missing=missing)
            first = [*islice(found, 1)]
            is_over = first or stream.final_cut is not None
            if is_over or not await self._notified(stream, deadline - _now(), asker):
                return CompleteWindows(stream, chain(first, found))

    async def _notified(self, stream: StreamState, seconds: float, asker: Asker) -> bool:
        """Wait until the stream has new marks; false when `seconds` passed or at the shutdown."""
        if seconds <= 0:
            return False
        if not self._shares.has_room(asker):
            raise self._metrics.overload(f"{len(self)} long polls wait already; try again")
        with self._shares.place(asker):
            return await self._notifier.wait(stream.id, seconds)


def _now() -> float:
    return asyncio.get_running_loop().time()
