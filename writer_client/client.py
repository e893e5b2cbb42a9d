"""The writers' client: it notes, and never waits for the network."""

from __future__ import annotations

import contextlib
import os
import threading
import time as clocks
from collections.abc import Mapping

import httpx

from noted_time.client.closing import Closing
from noted_time.client.transport import Transport
from noted_time.values import NotedTimeError, Rejected
from writer_client.at_exit import open_clients
from writer_client.sending.answers import NotesAnswer
from writer_client.sending.exchange import Exchange
from writer_client.sending.outcome import Flushed
from writer_client.sending.pending_notes import Batch
from writer_client.sending.vouched import EMPTY_POSITION
from writer_client.sending.writer import LAST_WAIT_S, Writer


class WriterClient(Closing, Writer[httpx.BaseTransport]):
    """Notes the time of one writer of one stream.

    `note_time`, `join`, `idle` and `wrote` return at once: notes coalesce (the latest of each
    domain wins), and one daemon thread posts them. While the controller is unreachable, it retries
    with backoff for as long as the client lives; what was noted is kept, in memory bounded by the
    number of domains times that of segments. `flush` waits for durability, raises the refusals, and
    returns the outcome of the rest.

    Positions map segments to exclusive offsets and accumulate: a segment that a call does not name
    keeps its last offset. Times are int64 of the application's clock, Unix ms by convention, or
    aware `datetime`s.

    *Leaving* is explicit: only `finish()` reports that the writer is finished. `close()`, the end
    of a ``with`` block (also by an exception) and the end of the process flush and keep the writer
    a member: the watermark waits for it until its timeout (`timeout_ms`). A warning names what
    could not be sent by then; at the end of the process all clients together take at most two
    seconds.

    *Logging* is under ``noted_time.writer``: outages of the controller and their ends, refusals,
    exclusions of the writer, late rows.

    *Lifetime.* An open client is kept alive by its thread, even if nothing else refers to it.

    *Processes.* A client belongs to the process that created it. A forked child must create its
    own, under a writer name of its own; there, calls on the parent's client raise `Rejected`.

    If the thread fails, every later call raises `ClientFailed`.
    """

    def _open(
        self, url: str, network: httpx.BaseTransport | None, *, timeout_s: float, token: str | None
    ) -> None:
        self._transport = Transport(url, token=token, timeout_s=timeout_s, transport=network)
        self._exchange = Exchange(self._transport.controllers, self.stream)
        # A signal handler may flush and close during a call of the same thread. So every wait is on
        # the condition, which releases the lock however often it was taken. It is taken by itself:
        # a handler that raises inside the condition's `with` would leave it taken.
        self._changed = threading.Condition(self._lock)
        self._ended = False
        name = f"noted-time writer {self.writer}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        open_clients.add(self)

    def _wake(self) -> None:
        self._changed.notify_all()

    def flush(self, timeout: float = 10.0) -> Flushed:
        """Wait until all noted so far is durable, at most `timeout` seconds.

        Returns the lower, whether the watermark advances without the writer, and the number of late
        rows.

        Raises the oldest refusal not yet raised (`InvalidNote` with the stored value;
        `UnknownStream`, `NotAllowed` and `SharedName`, whose notes are kept and retried;
        `Rejected`), or `Unreachable` when time is up; then the notes are kept and retried as well.
        """
        self.check()
        return self._flush(timeout)

    def finish(
        self, position: Mapping[int, int] = EMPTY_POSITION, *, timeout: float = 10.0
    ) -> Flushed:
        """Report that the writer is finished and its position is final, and flush.

        The watermark no longer waits for it. Raises what `flush` raises. The client stays open: a
        later note brings the writer back.
        """
        with self._lock_for_note():
            self._outbox.finish(position)
        return self._flush(timeout)

    def seal(self) -> bool:
        """End the stream for good, unless it has other members; returns whether it is sealed.

        This is for the only writer of a stream, once it has finished, with a token of the scope
        `admin`. Repeating it changes nothing. Raises `NotAllowed`, or `Unreachable` if the outcome
        is unknown.
        """
        self.check()
        return self._transport.run(self._exchange.seal(self.writer))

    def close(self, timeout: float = 10.0) -> None:
        """Flush for at most `timeout` seconds in all, and release all resources.

        The writer stays a member: the watermark waits for it until its timeout, unless it went idle
        or finished before. Raises what `flush` raises; even then the client is closed, and a
        warning names what was not sent. A second call does nothing.
        """
        self._close(timeout, LAST_WAIT_S)

    def end_soon(self) -> None:
        """Post what waits at once; the process is about to end."""
        if self._pid == os.getpid():
            self._hurry()

    def end(self, timeout_s: float) -> None:
        """Close without raising: the process ends, and what was not sent is logged."""
        with contextlib.suppress(NotedTimeError):
            self._close(timeout_s, 0.0)

    def _close(self, timeout_s: float, last_wait_s: float) -> None:
        if self._closed or self._pid != os.getpid():
            return
        self._check_thread()
        deadline = clocks.monotonic() + timeout_s
        try:
            self._flush(timeout_s)
        finally:
            self._end(max(last_wait_s, deadline - clocks.monotonic()))

    def _end(self, wait_s: float) -> None:
        if self._closed:  # by a signal handler during the flush
            return
        self._closed = True
        open_clients.discard(self)
        with self._lock:
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: self._ended, wait_s)
            self._posting.report_unsent()
        if ended:
            self._thread.join()
        self._notices.emit()
        self._transport.close()

    def _flush(self, timeout_s: float) -> Flushed:
        self._check_thread()
        deadline = clocks.monotonic() + timeout_s
        try:
            with self._lock:
                ticket = self._outbox.calls
                self._hurry()
                self._changed.wait_for(
                    lambda: self._posting.is_settled(ticket) or self._ended,
                    max(0.0, deadline - clocks.monotonic()),
                )
                return self._posting.get_outcome(ticket, timeout_s)
        finally:
            self._notices.emit()

    def _hurry(self) -> None:
        with self._lock:
            self._posting.hurry()
            self._changed.notify_all()

    def _check_thread(self) -> None:
        """Raise `Rejected` in the sender's own thread, which would wait for itself."""
        if threading.current_thread() is self._thread:
            raise Rejected("on_excluded runs where notes are sent: it cannot wait for the client")

    # The thread

    def _run(self) -> None:
        try:
            while not self._closed:
                self._send(self._next_batch())
        except BaseException as fault:  # noqa: BLE001 - every later call raises it
            with self._lock:
                self._posting.record_fault(fault)
        self._notices.emit()
        with self._lock:
            self._ended = True
            self._changed.notify_all()

    def _next_batch(self) -> Batch:
        """Return what to post next; empty if the thread has to stop or to log something."""
        with self._lock:
            while not self._closed:
                wait_s = self._posting.wait_s(clocks.monotonic())
                if wait_s == 0:
                    return self._outbox.take()
                if self._notices:
                    break
                self._changed.wait(wait_s)
            return ()

    def _send(self, batch: Batch) -> None:
        if batch:
            outcome: NotesAnswer | Exception
            try:
                answer = self._transport.run(self._exchange.post(batch))
                outcome = self._posting.look_up_ends(answer)
            except Exception as error:  # noqa: BLE001 - it outlives whatever a transport does
                outcome = error
            with self._lock:
                self._posting.settle(batch, outcome, clocks.monotonic())
                self._changed.notify_all()
        self._notices.emit()
