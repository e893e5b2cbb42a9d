"""Long polls for marks, a complete time or complete windows."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count, islice
from math import ceil
from time import monotonic
from typing import Literal, NamedTuple, TypeAlias

from controller.aggregation.draft import Moment
from controller.aggregation.stream import StreamState
from controller.aggregation.views.view import View
from controller.aggregation.views.vouching import Vouching
from controller.service.limits import Limits
from controller.service.telemetry.metrics import Metrics
from noted_time import CompleteWindow, Mark
from noted_time.reading import MarkHistory, Tiling, check_windows, find_complete_windows
from noted_time.verdict import Requirement, check, judge_time

# the awaited value, a unique number, and a future: true for a mark, false at a timeout
_Poll: TypeAlias = tuple[int, int, asyncio.Future[bool]]

NO_POLLS: Mapping[tuple[str, str], list[_Poll]] = {}

WOKEN_AT_A_TIME = 16  # at 0.2 ms each

TOGETHER_S = 0.01  # polls that end within this time share one timer


class AwaitedMark(NamedTuple):
    """A mark whose `field` is at least `least`."""

    stream_id: str
    domain: str
    field: Literal["seq", "lower"]
    least: int


class LongPollNotifier:
    """Wakes long polls that a new mark answers, and all at shutdown."""

    def __init__(self) -> None:
        self._waiting: dict[str, defaultdict[tuple[str, str], list[_Poll]]] = {}
        self._due: deque[_Poll] = deque()
        self._endings: dict[int, set[asyncio.Future[bool]]] = {}
        self._numbers = count()
        self._count = 0
        self._shut_down = False

    def __len__(self) -> int:
        return self._count

    async def wait(self, awaited_mark: AwaitedMark, seconds: float) -> bool:
        """Wait for a mark, or return false after `seconds` or at shutdown.

        The caller must not await between reading the marks and this call, or it may miss a mark.
        """
        if self._shut_down:
            return False
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        ending = self._find_ending(loop, seconds)
        ending.add(future)
        poll = awaited_mark.least, next(self._numbers), future
        queues = self._waiting.setdefault(awaited_mark.stream_id, defaultdict(list))
        insort(queues[awaited_mark.domain, awaited_mark.field], poll)
        self._count += 1
        try:
            return await future and not self._shut_down
        finally:
            ending.discard(future)
            self._forget(awaited_mark, poll)

    def notify_mark(self, stream_id: str, domain: str, mark: Mark) -> None:
        queues = self._waiting.get(stream_id, NO_POLLS)
        for field, value in (("seq", mark.seq), ("lower", mark.lower)):
            if queue := queues.get((domain, field)):
                count = bisect_left(queue, (value + 1,))
                self._wake(queue[:count])
                del queue[:count]

    def notify(self, stream_id: str) -> None:
        for queue in self._waiting.pop(stream_id, {}).values():
            self._wake(queue)

    def notify_all(self) -> None:
        for stream_id in [*self._waiting]:
            self.notify(stream_id)

    def shutdown(self) -> None:
        self._shut_down = True
        self.notify_all()

    def _find_ending(
        self, loop: asyncio.AbstractEventLoop, seconds: float
    ) -> set[asyncio.Future[bool]]:
        """Return the polls that time out together."""
        slot = ceil((loop.time() + seconds) / TOGETHER_S)
        if slot not in self._endings:  # a timer for each would take 5 % of the time
            self._endings[slot] = set()
            loop.call_at(slot * TOGETHER_S, self._end, slot)
        return self._endings[slot]

    def _end(self, slot: int) -> None:
        for future in self._endings.pop(slot):
            _resolve(future, came=False)

    def _wake(self, polls: Iterable[_Poll]) -> None:
        is_waking = bool(self._due)
        self._due.extend(polls)
        if not is_waking:
            self._wake_some()

    def _wake_some(self) -> None:
        for _ in range(min(WOKEN_AT_A_TIME, len(self._due))):
            *_, future = self._due.popleft()
            _resolve(future, came=True)
        if self._due:
            asyncio.get_running_loop().call_soon(self._wake_some)

    def _forget(self, awaited_mark: AwaitedMark, poll: _Poll) -> None:
        self._count -= 1
        queues = self._waiting.get(awaited_mark.stream_id, NO_POLLS)
        queue = queues.get((awaited_mark.domain, awaited_mark.field), [])
        index = bisect_left(queue, poll)
        if queue[index : index + 1] == [poll]:
            del queue[index]
        if not any(queues.values()):
            self._waiting.pop(awaited_mark.stream_id, None)


@dataclass(frozen=True, slots=True)
class NewMarks:
    """The result of a poll for marks; while `quiet`, no mark follows."""

    stream: StreamState
    history: MarkHistory
    quiet: bool


class LongPolls:
    """Waits until a new mark answers a request, or until the timeout.

    Raises `UnknownStream`, `UnknownDomain`, `NotOwner`, `StoreUnavailable`, and `Overloaded` if too
    many polls wait, except for admins.
    """

    def __init__(
        self,
        stream: Callable[[str], StreamState],
        now: Callable[[], Moment],
        notifier: LongPollNotifier,
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self._stream = stream
        self._now = now
        self._notifier = notifier
        self._most = limits.long_polls
        self._waiting = 0
        self._metrics = metrics

    def __len__(self) -> int:
        return self._waiting

    async def marks(
        self, name: str, domain: str | None, *, after: int, wait_ms: int, is_admin: bool = False
    ) -> NewMarks:
        """Return the marks after a seq, waiting up to `wait_ms` for the first.

        If `after` is above the last seq, return at once.
        """
        deadline = monotonic() + wait_ms / 1000
        while True:
            stream = self._stream(name)
            history = stream.history(domain)
            is_over = history.last_seq != after or stream.final_cut is not None
            awaited_mark = _build_awaited(stream, domain, "seq", after + 1)
            if is_over or not await self._wait_for_mark(awaited_mark, deadline, is_admin=is_admin):
                running_domain = stream.aggregator.domains[awaited_mark.domain]
                return NewMarks(stream, history, running_domain.is_quiet)

    async def wait_for_verdict(
        self, name: str, requirement: Requirement, time: int, *, is_admin: bool = False
    ) -> None:
        """Wait up to `wait_ms` while new marks may change the verdict on `time`.

        Also raises `ImplausibleTime`.
        """
        deadline = monotonic() + requirement.wait_ms / 1000
        while True:
            stream = self._stream(name)
            vouching = Vouching(View.of(stream, self._now(), requirement.domain))
            check(vouching, requirement)
            verdict = judge_time(vouching, requirement, time)
            next_seq = vouching.history.last_seq + 1
            awaited_mark = _build_awaited(stream, requirement.domain, "seq", next_seq)
            if verdict.mark is None:
                awaited_mark = _build_awaited(stream, requirement.domain, "lower", time)
            is_over = not verdict.awaits_mark or stream.final_cut is not None
            if is_over or not await self._wait_for_mark(awaited_mark, deadline, is_admin=is_admin):
                return

    async def windows(  # noqa: PLR0913 - the parts of a request
        self,
        name: str,
        domain: str | None,
        tiling: Tiling,
        *,
        after: int | None,
        limit: int,
        wait_ms: int,
        is_admin: bool = False,
    ) -> tuple[StreamState, Iterator[CompleteWindow]]:
        """Return the complete windows from `after` on, waiting up to `wait_ms` for the first.

        The stream comes first. Also raises `ImplausibleTime`.
        """
        deadline = monotonic() + wait_ms / 1000
        while True:
            stream = self._stream(name)
            history = stream.history(domain)
            if stream.settings.are_unix_ms:
                check_windows(after, tiling, history)
            coverage = stream.coverage(domain)
            complete_windows = find_complete_windows(
                history, tiling, after=after, limit=limit, coverage=coverage
            )
            first_windows = [*islice(complete_windows, 1)]
            is_over = first_windows or stream.final_cut is not None
            if after is None:
                awaited_mark = _build_awaited(stream, domain, "seq", history.last_seq + 1)
            else:
                awaited_mark = _build_awaited(
                    stream, domain, "lower", tiling.end_of(tiling.first_start(after))
                )
            if is_over or not await self._wait_for_mark(awaited_mark, deadline, is_admin=is_admin):
                return stream, chain(first_windows, complete_windows)

    async def _wait_for_mark(
        self, awaited_mark: AwaitedMark, deadline: float, *, is_admin: bool
    ) -> bool:
        seconds = deadline - monotonic()
        if seconds <= 0:
            return False
        if self._waiting >= self._most and not is_admin:
            raise self._metrics.overload(f"{self._waiting} long polls wait already; try again")
        self._waiting += 1
        try:
            return await self._notifier.wait(awaited_mark, seconds)
        finally:
            self._waiting -= 1


def _build_awaited(
    stream: StreamState, domain: str | None, field: Literal["seq", "lower"], min_value: int
) -> AwaitedMark:
    return AwaitedMark(stream.id, stream.settings.domain_or_default(domain), field, min_value)


def _resolve(future: asyncio.Future[bool], *, came: bool) -> None:
    if not future.done():
        future.set_result(came)
