"""The client that notes the time of a writer, from a background thread."""

from __future__ import annotations

import contextlib
import os
import threading
import time as clocks
from collections.abc import Mapping

import httpx

from noted_time.answers import WritersPage
from noted_time.client import Question, stream_path
from noted_time.client.closing import Closing
from noted_time.client.transport import Transport
from noted_time.values import NotedTimeError, Rejected
from writer_client.at_exit import OpenClient, open_clients
from writer_client.sending.answers import NotesReply
from writer_client.sending.exchange import Exchange
from writer_client.sending.pending_notes import Batch
from writer_client.sending.posting import Flushed
from writer_client.sending.stream_questions import StreamQuestions
from writer_client.sending.vouched import EMPTY_POSITION
from writer_client.sending.writer import LAST_WAIT_S, Writer


class WriterClient(Closing, Writer[httpx.BaseTransport]):
    """Notes the time of one writer of one stream.

    `note_time`, `join`, `idle` and `wrote` return at once. A daemon thread posts the latest note of
    each domain. If the controller is unreachable, it keeps the notes and retries with backoff. If
    the thread fails, every later call raises `ClientFailed`.

    A position maps segments to exclusive offsets. Segments that a call does not name keep their
    last offset. A time is an int64 of the application's clock, by convention Unix ms, or an aware
    `datetime`.

    *Leaving.* Only `finish()` reports that the writer is finished. After `close()`, a ``with``
    block or the end of the process, the watermark waits for the writer until its timeout
    (`timeout_ms`). All three flush first and warn if notes could not be sent.

    *Logging.* Outages, refusals, exclusions and late rows are logged under ``noted_time.writer``.

    *Processes.* In a forked child, calls raise `Rejected`: create a new client under a different
    writer name.
    """

    def _open(
        self, url: str, network: httpx.BaseTransport | None, *, timeout_s: float, token: str | None
    ) -> None:
        self._transport = Transport(url, token=token, timeout_s=timeout_s, transport=network)
        self._questions = StreamQuestions(self._transport, self.stream)
        self._exchange = Exchange(self._transport.controllers, self.stream)
        # A signal handler may flush while its thread holds the lock: the condition releases all
        # levels of the RLock. Never use `with self._changed`: a handler that raises leaves it
        # locked.
        self._changed = threading.Condition(self._lock)
        self._ended = False
        name = f"noted-time writer {self.writer}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        open_clients[self] = OpenClient(self._end_with_process, self._end_soon)

    def _wake(self) -> None:
        self._changed.notify_all()

    def flush(self, timeout: float = 10.0) -> Flushed:
        """Wait at most `timeout` seconds until everything noted so far is durable.

        Raises the oldest refusal that was not raised yet, or `Unreachable` if the time is up. After
        `Unreachable`, `UnknownStream`, `NotAllowed` and `SharedName` the notes are kept and
        retried.
        """
        self.check()
        return self._flush(timeout)

    def finish(
        self, position: Mapping[int, int] = EMPTY_POSITION, *, timeout: float = 10.0
    ) -> Flushed:
        """Report that the writer is finished, and flush. A later note makes it live again."""
        with self._lock_for_note():
            self._outbox.change_state("finished", position)
        return self._flush(timeout)

    def seal(self) -> bool:
        """End the stream for good unless it has other members. Return whether it is sealed.

        Call it after `finish`, with a token of the scope `admin`. Raises `NotAllowed`, or
        `Unreachable` if the outcome is unknown.
        """
        self.check()
        path = stream_path(self.stream, "writers")
        page = self._transport.ask(Question("GET", path, {"limit": 2}, answer=WritersPage))
        if any(member.writer != self.writer for member in page.writers):
            return False
        body = {"comment": f"{self.writer}, its only writer, has finished"}
        self._transport.ask(Question("POST", stream_path(self.stream, "seal"), body, {}))
        return True

    def close(self, timeout: float = 10.0) -> None:
        """Flush, and close the client, in at most `timeout` seconds; the writer stays a member."""
        self._close(timeout, LAST_WAIT_S)

    def _end_soon(self) -> None:
        if self._pid == os.getpid():
            self._hurry()

    def _end_with_process(self, timeout_s: float) -> None:
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
        if self._closed:  # a signal handler closed it during the flush
            return
        self._closed = True
        open_clients.pop(self, None)
        with self._lock:
            self._changed.notify_all()
            has_ended = self._changed.wait_for(lambda: self._ended, wait_s)
            self._posting.report_unsent()
        if has_ended:
            self._thread.join()
        self._notices.emit()
        self._transport.close()

    def _flush(self, timeout_s: float) -> Flushed:
        self._check_thread()
        deadline = clocks.monotonic() + timeout_s
        try:
            with self._lock:
                ticket = self._outbox.last_ticket
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
        if threading.current_thread() is self._thread:
            raise Rejected(
                "on_excluded must not wait for the client: it runs in the thread that sends notes"
            )

    def _run(self) -> None:
        try:
            while not self._closed:
                self._send(self._next_batch())
        except BaseException as fault:  # noqa: BLE001 - raised by every later call
            with self._lock:
                self._posting.record_fault(fault)
        self._notices.emit()
        with self._lock:
            self._ended = True
            self._changed.notify_all()

    def _next_batch(self) -> Batch:
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
            outcome: NotesReply | Exception
            try:
                answer = self._transport.run(self._exchange.post(batch))
                outcome = self._posting.look_up_ends(answer)
            except Exception as error:  # noqa: BLE001 - the thread survives any error of a transport
                outcome = error
            with self._lock:
                self._posting.settle(batch, outcome, clocks.monotonic())
                self._changed.notify_all()
        self._notices.emit()


def get_stream_questions(client: WriterClient) -> StreamQuestions:
    """Return what observers and producers ask about the stream of a client."""
    return client._questions  # noqa: SLF001 - no other function returns them
