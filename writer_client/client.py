"""A writer's side of noted time: it notes, and never waits for the network."""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import time as clocks
from operator import index
from typing import TYPE_CHECKING, Self

from noted_time.backoff import Backoff
from noted_time.errors import NotedTimeError, Rejected
from noted_time.settings import checked_name
from writer_client.connection import Connection
from writer_client.outbox import Outbox
from writer_client.sender import Pace, Sender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    import httpx

    from noted_time.note import State

EXIT_WAIT_S = 2.0
NOWHERE: Mapping[int, int] = {}


def unix_ms() -> int:
    """Return the wall clock in Unix milliseconds."""
    return clocks.time_ns() // 1_000_000


class WriterClient:
    """Notes the time of one writer of one stream.

    `note_time`, `join`, `idle` and `wrote` return at once: notes coalesce (the latest of each key
    wins), and one daemon thread posts them. A controller that is away is tried again with backoff
    for as long as the client lives; what was noted is kept, in memory bounded by the number of keys
    times that of segments. `flush` waits for durability and raises what was refused.

    Positions map segments to exclusive offsets and accumulate: a segment that a call does not name
    keeps its last offset. Times are int64 of the application's clock, Unix ms by convention.

    *Leaving.* `close()` (or the end of a ``with`` block) notes that the writer left. A block that
    ends in an exception only flushes: the writer did not leave in order, so time waits for it to
    come back or time out. At interpreter exit, clients that are still open flush for at most two
    seconds and do not leave.

    *Lifetime.* An open client is kept alive by its thread, also when nothing else refers to it.

    *Processes.* A client belongs to the process that made it. A forked child must make its own,
    under a writer name of its own; calls on the parent's raise `Rejected` there.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        url: str,
        stream: str,
        writer: str,
        *,
        token: str | None = None,
        automatically_note_time: bool = False,
        note_period_ms: int = 1000,
        linger_ms: int = 0,
        timeout_ms: int = 10_000,
        backoff: Backoff | None = None,
        clock: Callable[[], int] = unix_ms,
        chance: Callable[[], float] = random.random,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Begin to note for `writer`; raises `InvalidName`.

        `url` may be several with commas between: one is asked as long as it answers.
        `token` is shown to the controller, by default that of the variable NOTED_TIME_TOKEN.
        `automatically_note_time` notes `clock()` every `note_period_ms` while the writer is live;
        see `writing` for what that promises. `linger_ms` is the least time between two posts: more
        notes coalesce, and marks come that much later. `timeout_ms` is how long one post may take.
        """
        checked_name("stream", stream)
        self._outbox = Outbox(writer)
        self._connection = Connection(
            url, stream, timeout_s=timeout_ms / 1000, transport=transport, token=token
        )
        self._clock = clock
        self._notes_clock = automatically_note_time
        self._open_blocks: dict[object, int] = {}
        self._pid = os.getpid()
        self._closed = False
        self._sender = Sender(
            self._outbox,
            self._connection.post,
            Pace(backoff or Backoff(), chance, linger_ms / 1000, note_period_ms / 1000),
            beat=self._note_clock if automatically_note_time else None,
        )
        if automatically_note_time:
            self._outbox.join({})
        self._sender.start()
        _open_clients.add(self)

    def note_time(
        self,
        time: int,
        position: Mapping[int, int],
        *,
        key: str | None = None,
        max_time: int | None = None,
    ) -> None:
        """Note that all my events with a time of `key` below `time` lie below `position`.

        `max_time` is the largest event time written; what `wrote` was told counts as well. Raises
        `InvalidNote` at once where time or position goes back behind an earlier call, `Rejected`
        for numbers outside int64 and where the client notes the clock by itself; refusals by the
        controller are raised by `flush`.
        """
        if self._notes_clock:
            message = (
                f"the client of writer {self._outbox.writer!r} notes the clock by itself: tell it "
                "positions by wrote(), or make it without automatically_note_time"
            )
            raise Rejected(message)
        largest = None if max_time is None else index(max_time)
        with self._noting():
            self._outbox.note(index(time), position, key=key, max_time=largest)

    def join(self, position: Mapping[int, int] = NOWHERE) -> None:
        """Say that the writer is there: time waits for it until it notes, idles or leaves.

        Join, and `flush`, before the first write: what is written before the controller knows of
        the writer may be late already.
        """
        with self._noting():
            self._outbox.join(position)

    def idle(self, position: Mapping[int, int] = NOWHERE) -> None:
        """Say that time need not wait for the writer until it notes, writes or joins again."""
        with self._noting():
            self._outbox.idle(position)

    def wrote(
        self,
        event_time: int | None = None,
        *,
        key: str | None = None,
        position: Mapping[int, int] = NOWHERE,
    ) -> None:
        """Remember an event that was written, so that the next note tells of it.

        The largest event time of each key travels as `max_time`, which makes the upper of marks a
        true bound. A writer that is not live joins by it.
        """
        time = None if event_time is None else index(event_time)
        with self._noting():
            self._outbox.wrote(time, key, position)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold automatic notes back while events are made and written.

        An automatic note of T promises that no event with a time below T is still to be written.
        That is true of events that are stamped with the same clock *inside* such a block, and whose
        position is told (`wrote`) before it ends: until then, the clock noted is that of its begin.
        """
        block = object()
        with self._sender.lock:
            self._open_blocks[block] = self._clock()
        try:
            yield
        finally:
            with self._sender.lock:
                del self._open_blocks[block]

    def flush(self, timeout: float = 10.0) -> None:
        """Wait until all noted so far is durable, at most `timeout` seconds.

        Raises the oldest refusal not yet raised (`InvalidNote` with the stored value;
        `UnknownStream`, `NotAllowed` and `SharedName`, whose notes are kept and tried again;
        `Rejected`), or `Unreachable` when time is up; the notes are kept and tried on then.
        """
        self._check_open()
        self._sender.flush(timeout)

    def close(self, timeout: float = 10.0, *, leave: bool = True) -> None:
        """Leave, flush for at most `timeout` seconds, and give everything back.

        Raises what `flush` raises; the client is closed all the same. With `leave=False` the writer
        is expected back: time waits for it until the writer timeout. A second call does nothing.
        """
        if self._closed or self._pid != os.getpid():
            return
        try:
            if leave:
                with self._noting():
                    self._outbox.left(NOWHERE)
            self._sender.flush(timeout)
        finally:
            self._closed = True
            _open_clients.discard(self)
            self._sender.stop(timeout)
            self._connection.close()

    def lower(self, key: str | None = None) -> int | None:
        """Return the lower of the last mark as of the last answer: what I write below is late.

        `key` as it was named when noting; `None` before the first mark or answer.
        """
        return self._outbox.lower(key)

    @property
    def position(self) -> dict[int, int]:
        """The whole position told so far: segment → exclusive offset."""
        return self._outbox.position

    @property
    def state(self) -> State:
        """`live`, `idle`, or `left` (also before the first call)."""
        return self._outbox.state

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        with contextlib.suppress(NotedTimeError):  # the block's own error matters more
            self.close(leave=False)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        self._check_open()
        with self._sender.lock:
            yield
            self._sender.wake()

    def _check_open(self) -> None:
        if self._closed:
            message = f"the client of writer {self._outbox.writer!r} is closed"
            raise Rejected(message)
        if self._pid != os.getpid():
            message = f"the client of writer {self._outbox.writer!r} belongs to another process"
            raise Rejected(message)

    def _note_clock(self) -> None:
        outbox = self._outbox
        last = outbox.time(None)
        time = min((self._clock(), *self._open_blocks.values()))
        if outbox.state == "live" and (last is None or time >= last):
            outbox.note(time, NOWHERE)


_open_clients: set[WriterClient] = set()


def _flush_at_exit() -> None:
    clients = list(_open_clients)
    for client in clients:
        with contextlib.suppress(NotedTimeError):
            client.close(EXIT_WAIT_S / len(clients), leave=False)


atexit.register(_flush_at_exit)
