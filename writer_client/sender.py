"""The thread that posts what an outbox holds, as long as it takes."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from noted_time.values import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from writer_client.answers import Answer
    from writer_client.outcome import Flushed
    from writer_client.posting import Posting
    from writer_client.waiting import Batch


class Sender:
    """Posts in the background; every access to what is posted holds the lock.

    The lock may be taken again by the same thread: a signal handler may flush and stop amid a call.
    So whoever waits does so on the condition, which lets go of the lock however often it was taken.
    """

    def __init__(
        self, posting: Posting, post: Callable[[Batch], Answer], lock: threading.RLock
    ) -> None:
        """Begin at rest; `start` starts the thread."""
        self._changed = threading.Condition(lock)
        self._posting = posting
        self._post = post
        self._stopping = False
        self._ended = False
        name = f"noted-time writer {posting.outbox.writer}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Tell of something new in the outbox; the lock is held."""
        self._changed.notify_all()

    def hurry(self) -> None:
        """Post what waits at once, unless the controller is away."""
        with self._changed:
            self._posting.hurry()
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> Flushed:
        """Wait until all that is in the outbox now is durable, and return what became of it.

        Raises what was refused, `Unreachable` when time is up, `ClientFailed` when the thread died.
        """
        self.check_thread()
        deadline = time.monotonic() + timeout_s
        try:
            with self._changed:
                ticket = self._posting.outbox.calls
                self.hurry()
                self._changed.wait_for(
                    lambda: self._posting.is_settled(ticket) or self._ended,
                    max(0.0, deadline - time.monotonic()),
                )
                return self._posting.outcome(ticket, timeout_s)
        finally:
            self._posting.notices.tell()

    def stop(self, timeout_s: float) -> None:
        """Stop the thread, waiting for a post on its way at most that long."""
        self.check_thread()
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: self._ended, timeout_s)
        if ended:
            self._thread.join()

    def check_thread(self) -> None:
        """Raise `Rejected` in the thread itself, which would wait for itself."""
        if threading.current_thread() is self._thread:
            raise Rejected("on_excluded runs where notes are sent: it cannot wait for the client")

    # The thread

    def _run(self) -> None:
        try:
            self._send_all()
        except BaseException as fault:  # noqa: BLE001 - every later call raises it
            with self._changed:
                self._posting.died(fault)
        self._posting.notices.tell()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _send_all(self) -> None:
        while not self._stopping:
            batch = self._next_batch()
            if batch:
                outcome = self._outcome(batch)
                with self._changed:
                    self._posting.settle(batch, outcome, time.monotonic())
                    self._changed.notify_all()
            self._posting.notices.tell()

    def _next_batch(self) -> Batch:
        """Return what to post next; nothing, where the thread is to stop or to tell something."""
        with self._changed:
            while not self._stopping:
                wait_s = self._posting.wait_s(time.monotonic())
                if wait_s == 0:
                    return self._posting.outbox.take()
                if self._posting.notices:
                    break
                self._changed.wait(wait_s)
            return ()

    def _outcome(self, batch: Batch) -> Answer | Exception:
        try:
            return self._posting.looked_up(self._post(batch))
        except Exception as error:  # noqa: BLE001 - the sender outlives whatever a transport does
            return error
