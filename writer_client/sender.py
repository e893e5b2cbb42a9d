"""The thread that posts what an outbox holds, as long as it takes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from noted_time.errors import (
    NotAllowed,
    NotedTimeError,
    Rejected,
    SharedName,
    UnknownStream,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from noted_time.backoff import Backoff
    from noted_time.note import Note
    from writer_client.outbox import Batch, Outbox


MENDABLE = (UnknownStream, NotAllowed, SharedName)
"""What somebody may mend while the writer goes on.

A stream is made, a token becomes known, the other process of the same name is ended.

Its notes wait for that.
"""


class Post(Protocol):
    """How notes travel; see `Connection.post`."""

    def __call__(self, notes: Sequence[Note]) -> Sequence[dict[str, object]]:
        """Return a result for each note, or raise `NotedTimeError`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When to post: after failures, between successes, and the period of the beat."""

    backoff: Backoff
    chance: Callable[[], float]
    linger_s: float = 0.0
    period_s: float = 1.0


class Sender:
    """Posts an outbox in the background; every access to the outbox holds `lock`.

    `beat` is called each period, with the lock held, before what is noted then is posted.
    """

    def __init__(
        self,
        outbox: Outbox,
        post: Post,
        pace: Pace,
        *,
        beat: Callable[[], None] | None = None,
    ) -> None:
        """Begin at rest; `start` starts the thread."""
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._outbox = outbox
        self._post = post
        self._pace = pace
        self._beat = beat
        self._next_beat = time.monotonic() + pace.period_s
        self._stopping = False
        self._failures = 0
        self._not_before = 0.0
        self._failed: NotedTimeError | None = None
        name = f"noted-time writer {outbox.writer}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Tell of something new in the outbox; the lock is held."""
        self._changed.notify_all()

    def flush(self, timeout_s: float) -> None:
        """Wait until all that is in the outbox now is durable.

        Raises what was refused, or `Unreachable` when time is up.
        """
        deadline = time.monotonic() + timeout_s
        with self.lock:
            ticket = self._outbox.calls
            self._hurry()
            self._changed.wait_for(
                lambda: self._outbox.durable_through >= ticket or self._may_be_mended,
                max(0.0, deadline - time.monotonic()),
            )
            self._raise_refused()
            if self._outbox.durable_through < ticket:
                message = f"not durable within {timeout_s:g} s: {self._failed or 'no answer'}"
                raise Unreachable(message) from self._failed

    def stop(self, timeout_s: float) -> None:
        """Stop the thread, waiting for a post on its way at most that long."""
        with self.lock:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    # Flushing, with the lock held

    def _hurry(self) -> None:
        """Post at once, unless the controller is away.

        One that knows no such stream is there: asking again is polite, and the answer fresh.
        """
        if not isinstance(self._failed, Unreachable):
            self._failed = None
            self._not_before = 0.0
        self._changed.notify_all()

    @property
    def _may_be_mended(self) -> bool:
        return isinstance(self._failed, MENDABLE)

    def _raise_refused(self) -> None:
        refused = self._outbox.pop_refused()
        if refused is not None:
            raise refused
        if isinstance(self._failed, MENDABLE):
            raise self._failed

    # The thread

    def _run(self) -> None:
        while True:
            with self.lock:
                self._wait_for_work()
                if self._stopping:
                    return
                batch = self._outbox.take()
            self._settle(batch)

    def _wait_for_work(self) -> None:
        while not self._stopping:
            now = time.monotonic()
            self._beat_if_due(now)
            wait_s = self._idle_s(now)
            if wait_s is not None and wait_s <= 0:
                return
            self._changed.wait(wait_s)

    def _idle_s(self, now: float) -> float | None:
        """Return how long there is nothing to do, `None` for until something is noted."""
        beat_s = self._next_beat - now if self._beat is not None else None
        if not self._outbox:
            return beat_s
        ready_s = self._not_before - now
        return ready_s if beat_s is None or ready_s <= 0 else min(ready_s, max(beat_s, 0.001))

    def _beat_if_due(self, now: float) -> None:
        if self._beat is not None and now >= self._next_beat:
            self._next_beat = now + self._pace.period_s
            try:
                self._beat()
            except Exception as error:  # noqa: BLE001 - the sender outlives a clock of the caller's
                self._outbox.complain(Rejected(f"the clock could not be noted: {error}"))

    def _settle(self, batch: Batch) -> None:
        try:
            results = self._post([pending.note for pending in batch])
        except NotedTimeError as error:
            self._fail(batch, error)
        except Exception as error:  # noqa: BLE001 - the sender outlives whatever a transport does
            self._fail(batch, Unreachable(f"{type(error).__name__}: {error}"))
        else:
            self._succeed(batch, results)

    def _succeed(self, batch: Batch, results: Sequence[dict[str, object]]) -> None:
        with self.lock:
            self._outbox.answered(batch, results)
            self._failures = 0
            self._failed = None
            self._not_before = time.monotonic() + self._pace.linger_s
            self._changed.notify_all()

    def _fail(self, batch: Batch, error: NotedTimeError) -> None:
        with self.lock:
            if isinstance(error, Rejected) and not isinstance(error, MENDABLE):
                self._outbox.dropped(error)
            else:
                self._outbox.put_back(batch)
            self._failures += 1
            self._failed = error
            asked = error.retry_after_s if isinstance(error, Unreachable) else None
            chance = self._pace.chance()
            delay = self._pace.backoff.delay_s(self._failures, chance=chance, retry_after_s=asked)
            self._not_before = time.monotonic() + delay
            self._changed.notify_all()
