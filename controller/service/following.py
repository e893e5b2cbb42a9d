"""The streams that another controller aggregates, as this one reads them and waits for their marks.

A stream that is asked for is read whole once, and followed while anybody asks: a *look* reads what
came since. Looks are made beside the loop, one at a time for each stream however many ask. What a
look found is shown in the loop, where others search the same `StreamState` meanwhile.

What is shown is *fresh* for a second after the look that confirmed it began, unless a notice said
that there is more. So a notice that is lost costs at most one poll. Turns count the notices: what
is fresh was read in the turn of the last notice about it, or later.

A long poll misses nothing: where it waits at the bell no await lies between its look at the marks
and the wait, and the bell rings after new marks are shown.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from controller.aggregation.stream import StreamState
from controller.store.port import StoreUnavailable
from noted_time import Conflict
from noted_time.errors import UnknownStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from controller.service.bell import Bell
    from controller.store.port import AppendedMark, Reading

FRESH_S = 1.0
"""For how long what was read counts as what is there, in seconds, while no notice comes."""

FORGET_S = 60.0
"""After how long a stream that nobody asked for is followed no more; longer than any poll."""

TRIM_S = 60.0
"""How often it is read which old marks are gone where no notice says so, in seconds."""

PATIENCE_S = 5.0
"""How long a caller waits for the database before it is told that it does not answer."""

MOST = 1000
"""How many streams are followed; the one that was asked for the longest ago makes room."""

THREADS = 2
"""So many looks at once: one long first reading leaves the other streams a thread."""

AT_ONCE = 1000
"""So many marks are shown before the loop gets its turn, some 2 ms."""


@dataclass(frozen=True, slots=True)
class News:
    """What came to a stream, and the first seq that is kept of each key where that was asked."""

    marks: list[AppendedMark]
    first_seqs: dict[str, int]


@dataclass(slots=True, eq=False)
class Followed:
    """A stream as it is shown (`None` before the first look ends) and how old that is.

    `read_at` and `turn` are those in which the look began that read it, `changed` is the turn of
    the last notice about it. `trimmed_at` is when the look began that read last where its history
    begins, or minus infinity where that is to be read again.
    """

    name: str
    stream: StreamState | None = None
    asked_at: float = -inf
    read_at: float = -inf
    trimmed_at: float = -inf
    turn: int = -1
    changed: int = 0
    look: asyncio.Task[None] | None = None
    look_began_at: float = -inf

    def changes(self, turn: int, *, trimmed: bool) -> None:
        """Have it read in that turn or later, with where its history begins if it was `trimmed`."""
        self.changed = turn
        if trimmed:
            self.trimmed_at = -inf

    def shown(self, changed: int, since: float) -> StreamState | None:
        """Return the stream if it was read in the turn `changed` or later, and after `since`."""
        return self.stream if self.turn >= changed and self.read_at >= since else None


class Following:
    """The streams of a database that anybody may read, while others write to it.

    Every call is the loop's; `now` gives seconds that only grow.
    """

    def __init__(
        self, reading: Reading, bell: Bell, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing followed; `reading` is asked by several threads and not closed."""
        self._reading = reading
        self._bell = bell
        self._now = now
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="following")
        self._followed: OrderedDict[str, Followed] = OrderedDict()  # the last asked for is last
        self._by_id: dict[str, Followed] = {}
        self._turn = 0
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._followed)

    async def stream(self, name: str) -> StreamState:
        """Return the stream, which is followed from now on; raises `UnknownStream`.

        Raises `StoreUnavailable` where it is not fresh and the database does not answer. The object
        goes on showing new marks, until the stream has other settings, scales or is made again:
        ask for it again after every wait.
        """
        asked_at = self._now()
        followed = self._asked_for(name, asked_at)
        stream = followed.shown(followed.changed, asked_at - FRESH_S)
        return stream or await self._looked_at(followed, asked_at)

    async def glances(self, names: Iterable[str]) -> dict[str, StreamState]:
        """Return those of these streams that are there, with the last marks at least.

        They are not followed for that. Those that are not shown as it is are read together, as each
        query costs a turn with the server. Raises `StoreUnavailable`.
        """
        known = {name: self._fresh(name) for name in names}
        found = {name: stream for name, stream in known.items() if stream is not None}
        if len(found) < len(known):
            async with _patience():
                others = [name for name in known if name not in found]
                found |= await self._in_thread(_glances, self._reading, others)
        return found

    async def names(self) -> list[str]:
        """Return the names of all streams in order; raises `StoreUnavailable`."""
        async with _patience():
            names: list[str] = await self._in_thread(self._reading.names)
            return names

    def noticed(self, stream_ids: Iterable[str], *, trimmed: bool = False) -> None:
        """Look at those of these streams that are followed, and ring where there are new marks.

        Where they were `trimmed`, it is read too which of their old marks are gone.
        """
        self._turn += 1
        for stream_id in stream_ids:
            followed = self._by_id.get(stream_id)
            if followed is not None:
                followed.changes(self._turn, trimmed=trimmed)
                if followed.look is None:
                    self._begin_look(followed)

    def doubt(self, name: str, *, trimmed: bool = False) -> None:
        """Look before the stream is shown again, as this controller's caller changed it."""
        followed = self._followed.get(name)
        if followed is not None:
            self._turn += 1
            followed.changes(self._turn, trimmed=trimmed)

    def lost(self) -> None:
        """Let nothing count as fresh, as notices may have been missed.

        Whoever waits for a stream is woken, and so looks.
        """
        self._turn += 1
        for followed in self._followed.values():
            followed.changes(self._turn, trimmed=True)
            self._ring(followed)

    def drop(self, name: str) -> None:
        """Follow the stream no more, say because this controller owns it now; wakes who waits."""
        followed = self._followed.get(name)
        if followed is not None:
            self._let_go(followed)
            self._ring(followed)

    def clear(self) -> None:
        """Follow nothing any more; wakes everybody who waits."""
        for name in list(self._followed):
            self.drop(name)

    async def close(self) -> None:
        """Follow nothing, and wait for the reading that is under way; any call raises after it."""
        self._closed = True
        self.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    # What is followed

    def _fresh(self, name: str) -> StreamState | None:
        """Return the stream where it is followed and fresh."""
        followed = self._followed.get(name)
        if followed is None:
            return None
        return followed.shown(followed.changed, self._now() - FRESH_S)

    def _asked_for(self, name: str, now: float) -> Followed:
        followed = self._followed.get(name)
        if followed is None:
            self._check_open()
            followed = self._followed[name] = Followed(name)
            self._make_room()
        else:
            self._followed.move_to_end(name)
        followed.asked_at = now
        return followed

    def _make_room(self) -> None:
        """Let the stream go that was asked for the longest ago, where there are too many.

        Who waits for it is not woken: as many as are too many would push each other out for ever.
        """
        if len(self._followed) > MOST:
            self._let_go(next(iter(self._followed.values())))
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(FORGET_S / 2, self._sweep)

    def _sweep(self) -> None:
        """Let go what nobody asked for in a while, and come again while anything is followed."""
        forgotten = self._now() - FORGET_S
        for followed in list(self._followed.values()):
            if followed.asked_at >= forgotten:
                break
            self._let_go(followed)
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(FORGET_S / 2, self._sweep) if self._followed else None

    def _let_go(self, followed: Followed) -> None:
        if self._is_followed(followed):
            del self._followed[followed.name]
            if followed.stream is not None:
                del self._by_id[followed.stream.id]
        if followed.look is not None:
            followed.look.cancel()

    def _is_followed(self, followed: Followed) -> bool:
        return self._followed.get(followed.name) is followed

    def _ring(self, followed: Followed) -> None:
        if followed.stream is not None:
            self._bell.ring(followed.stream.id)

    # Looks

    async def _looked_at(self, followed: Followed, asked_at: float) -> StreamState:
        """Return the stream as soon as it is shown as it was asked for.

        Later notices are not waited for, or one that gets many would never be answered.
        """
        changed, since = followed.changed, asked_at - FRESH_S
        async with _patience():
            while True:
                await self._next_look(followed, asked_at)
                stream = followed.shown(changed, since)
                if stream is not None and self._is_followed(followed):
                    return stream
                followed = self._asked_for(followed.name, asked_at)

    async def _next_look(self, followed: Followed, asked_at: float) -> None:
        """Wait until a look ends; raises what it raised unless it began before it was asked for."""
        look = followed.look or self._begin_look(followed)
        counts = followed.look_began_at >= asked_at
        await asyncio.wait([look])
        if counts and not look.cancelled():
            look.result()

    def _begin_look(self, followed: Followed) -> asyncio.Task[None]:
        followed.look_began_at = self._now()
        look = asyncio.create_task(self._look(followed, self._turn), name=f"look {followed.name}")
        followed.look = look
        look.add_done_callback(partial(self._end_look, followed))
        return look

    async def _look(self, followed: Followed, turn: int) -> None:
        """Read what is new of the stream, show it, and ring where that is anything."""
        began_at, known = followed.look_began_at, followed.stream
        trims = began_at - followed.trimmed_at >= TRIM_S
        if trims:  # said before it is read: a notice that comes meanwhile is not passed over
            followed.trimmed_at = began_at
        try:
            found = await self._in_thread(_read, self._reading, followed.name, known, trims=trims)
        except BaseException:
            followed.trimmed_at = -inf
            raise
        if known is not None and isinstance(found, News):
            await _show(found, known)
        else:
            self._replace(followed, found, turn)
        followed.turn, followed.read_at = turn, began_at
        if isinstance(found, StreamState) or found.marks:
            self._ring(followed)

    def _replace(self, followed: Followed, stream: StreamState, turn: int) -> None:
        known = followed.stream
        is_new = known is None or known.id != stream.id
        if is_new and self._turn > turn:
            # a notice that came since `turn` may have been about this id, which nobody knew
            followed.changes(self._turn, trimmed=True)
        if known is not None:
            del self._by_id[known.id]
            self._bell.ring(known.id)
        followed.stream = stream
        self._by_id[stream.id] = followed

    def _end_look(self, followed: Followed, look: asyncio.Task[None]) -> None:
        """Look again where a notice came meanwhile; after a failure whoever waits finds out."""
        followed.look = None
        if look.cancelled():
            return
        failure = look.exception()
        if failure is None:
            if followed.turn < followed.changed and self._is_followed(followed):
                self._begin_look(followed)
            return
        if isinstance(failure, UnknownStream):
            self._let_go(followed)
        self._ring(followed)

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - passes on what it is given
        self._check_open()
        work = partial(call, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the controller is stopping")


@asynccontextmanager
async def _patience() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except TimeoutError as error:
        message = f"the database did not answer within {PATIENCE_S:g} s"
        raise StoreUnavailable(message) from error


def _read(
    reading: Reading, name: str, known: StreamState | None, *, trims: bool
) -> StreamState | News:
    """Return what came to a known stream, or the whole of it where it does not just go on.

    Raises `UnknownStream`. Scale events are read after the marks for the reason `to_read` gives.
    """
    if known is not None and known.record == reading.stream(name):
        with suppress(Conflict):
            marks = known.catch_up(reading)
            if reading.scales(known.id) == known.scale_events:
                return News(marks, _first_seqs(reading, known) if trims else {})
    return _read_whole(reading, name)


def _read_whole(reading: Reading, name: str) -> StreamState:
    """Return the stream; one that is removed meanwhile would seem to have lost its marks."""
    while True:
        record = reading.stream(name)
        if record is None:
            raise UnknownStream(name)
        stream = StreamState.to_read(record, reading)
        if reading.stream(name) == record:
            return stream


def _first_seqs(reading: Reading, stream: StreamState) -> dict[str, int]:
    firsts = {key: next(reading.marks(stream.id, key), None) for key in stream.histories}
    return {key: first.mark.seq for key, first in firsts.items() if first is not None}


def _glances(reading: Reading, names: Sequence[str]) -> dict[str, StreamState]:
    return {each.record.name: StreamState.from_summary(each) for each in reading.summaries(names)}


async def _show(news: News, stream: StreamState) -> None:
    for begin in range(0, len(news.marks), AT_ONCE):
        if begin:
            await asyncio.sleep(0)
        for appended in news.marks[begin : begin + AT_ONCE]:
            stream.publish(appended)
    for key, first_seq in news.first_seqs.items():
        stream.histories[key].forget_through(first_seq - 1)
