"""The methods of a writer client, shared by the threaded and the asyncio client."""

from __future__ import annotations

import contextlib
import os
import threading
import time as clocks
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from noted_time.client.arguments import refuse_url
from noted_time.values import (
    REASON_LENGTH,
    Exclusion,
    LateRows,
    Rejected,
    State,
    Time,
    check_least,
    format_line,
    is_reversed,
    unix_ms_of,
    validate_contact,
    validate_name,
)
from writer_client.sending.clock import unix_ms
from writer_client.sending.inner import InnerWriter
from writer_client.sending.notices import Notices
from writer_client.sending.outbox import LookUp, Outbox
from writer_client.sending.posting import Pace, Posting
from writer_client.sending.vouched import EMPTY_POSITION, Process, validate_domains

Network = TypeVar("Network")

LAST_WAIT_S = 0.05


class Writer(ABC, Generic[Network]):
    """One writer of one stream; its methods are thread-safe and never wait."""

    @refuse_url("stream, writer, controller=URL")
    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        stream: str,
        writer: str,
        *,
        controller: str,
        token: str | None = None,
        timeout_ms: int | None = None,
        domains: Sequence[str] | None = None,
        contact: str | None = None,
        idle_after_ms: int | None = None,
        on_excluded: Callable[[Exclusion], object] | None = None,
        automatically_note_time: bool = False,
        clock: Callable[[], Time] = unix_ms,
        pace: Pace | None = None,
        transport: Network | None = None,
    ) -> None:
        """Start a client that notes for `writer`.

        * `controller` is the controller's URL, or several, separated by commas.
        * `token` is by default the environment variable `NOTED_TIME_TOKEN`.
        * `timeout_ms` is how long the watermark waits for the silent writer, for example 90 minutes
          for an hourly job. By default it is unchanged, and for a new writer the stream's
          `writer_timeout_ms`.
        * `domains` are the time domains that the writer vouches for. By default they are unchanged,
          and for a new writer all domains of the stream.
        * `contact` is whom people ask about the writer: one line of at most 200 characters. By
          default it is unchanged, and an empty text clears it.
        * `idle_after_ms` makes the writer idle after this time without a note, a join or a reported
          write.
        * `on_excluded` is called once for each `Exclusion`. It runs in the thread or task that
          sends notes, so it must not wait for the client.
        * `automatically_note_time` notes `clock()` periodically while the writer is live; see
          `writing`.
        """
        validate_name("stream", stream)
        check_least("timeout_ms", timeout_ms, 1)
        check_least("idle_after_ms", idle_after_ms, 1)
        self.stream = stream
        self.timeout_ms = timeout_ms
        names = validate_domains(domains)
        self._only_domain = names[0] if names and len(names) == 1 else None
        contact_line = None if contact is None else validate_contact(contact)
        self._outbox = Outbox(writer, names, timeout_ms, Process.own(), contact_line)
        self._notices = Notices(stream, writer, controller, on_excluded)
        self._clock = clock
        self._writes: dict[object, int] = {}  # under way, with the times of their begin
        self._notes_clock = automatically_note_time
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.RLock()
        pace = pace or Pace()
        self._posting = Posting(
            self._outbox,
            pace,
            self._notices,
            now=clocks.monotonic(),
            idle_after_ms=idle_after_ms,
            beat=self._note_clock if automatically_note_time else None,
            is_busy=lambda: bool(self._writes),
            on_fenced=self._set_fenced,
        )
        self._inner = InnerWriter(
            self._outbox,
            self._posting,
            self._notices,
            lock=self._lock,
            lock_for_note=self._lock_for_note,
            resolve_domain=self._resolve_domain,
            timeout_ms=timeout_ms,
        )
        if automatically_note_time:
            self._outbox.change_state("live", {})
        self._open(controller, transport, timeout_s=pace.request_timeout_ms / 1000, token=token)

    @abstractmethod
    def _open(
        self, url: str, network: Network | None, *, timeout_s: float, token: str | None
    ) -> None: ...

    @abstractmethod
    def _wake(self) -> None: ...

    def note_time(
        self,
        time: Time,
        position: Mapping[int, int] = EMPTY_POSITION,
        *,
        domain: str | None = None,
        max_time: Time | None = None,
    ) -> None:
        """Note that all my events with a time of `domain` below `time` lie below `position`.

        `max_time` is the largest event time written; times given to `wrote` count as well. Omit
        `position` for a destination without offsets, such as a table.

        Raises `InvalidNote` if the time or the position goes back, and `Rejected` for numbers
        outside int64 or a `datetime` without a zone.
        """
        if self._notes_clock:
            message = (
                f"the client of writer {self._outbox.writer!r} notes the clock automatically: "
                "report positions with wrote(), or create it without automatically_note_time"
            )
            raise Rejected(message)
        max_time_ms = None if max_time is None else unix_ms_of(max_time, up=True)
        time_ms = unix_ms_of(time)
        name = self._resolve_domain(domain)
        with self._lock_for_note():
            self._outbox.note(time_ms, position, domain=name, max_time=max_time_ms)
            self._notices.warn_of_seconds(time_ms)

    def join(
        self,
        position: Mapping[int, int] = EMPTY_POSITION,
        *,
        max_times: Mapping[str | None, Time] | None = None,
    ) -> None:
        """Join the stream. The watermark waits for the writer until it notes, is idle or finishes.

        Join and `flush` before the first write: rows written before may be late.

        *After a restart*, `position` must reach all rows of the earlier process, or readers may
        drop them. The ends of its segments are enough. `max_times` has the largest event times of
        these rows, by domain.
        """
        max_times_ms = {}
        for domain, time in (max_times or {}).items():
            max_times_ms[self._resolve_domain(domain)] = unix_ms_of(time, up=True)
        with self._lock_for_note():
            for name, time_ms in max_times_ms.items():
                self._outbox.vouched.declare(name, time_ms)
            self._outbox.change_state("live", position)

    def begin(self, look_up: LookUp) -> None:
        """Join, and continue from the ends of the writer's segments, which `look_up` returns.

        `look_up` gets the position at the controller. It runs in the thread or task that sends
        notes, once no other process can note under the name.
        """
        with self._lock_for_note():
            self._outbox.begin(look_up)

    def of_log(self, log: str | None, *, observes: bool = False) -> None:
        """Set the id of the log that positions refer to, such as a Kafka topic's. Call it first.

        A client that `observes` notes for other writers.
        """
        with self._lock:
            self._outbox.set_log(log, observes=observes)

    def check(self) -> None:
        """Raise if the client can no longer note; call it before writing more rows.

        Raises `Fenced` after a takeover of the name, and `ClientFailed` if the sender failed.
        """
        if self._closed:
            raise Rejected(f"the client of writer {self._outbox.writer!r} is closed")
        if self._pid != os.getpid():
            message = f"the client of writer {self._outbox.writer!r} belongs to another process"
            raise Rejected(message)
        self._posting.check()

    def idle(self, position: Mapping[int, int] = EMPTY_POSITION) -> None:
        """Note that the watermark need not wait until the next note, write or join."""
        with self._lock_for_note():
            self._outbox.change_state("idle", position)

    def report_no_time(self, reason: str | None) -> None:
        """Report that the writer is alive but cannot note, and why. `None` clears the reason.

        Repeat it within the writer's timeout.
        """
        line = format_line(reason or "", REASON_LENGTH)
        with self._lock_for_note():
            self._outbox.report_no_time(line or None)

    def wrote(
        self,
        event_time: Time | None = None,
        *,
        domain: str | None = None,
        position: Mapping[int, int] = EMPTY_POSITION,
        rows: int = 1,
    ) -> None:
        """Record written rows, which the next note covers.

        The note declares the largest event time, so the upper of marks is a true bound. A position
        behind the known one changes nothing. A writer that is not live joins.
        """
        time = None if event_time is None else unix_ms_of(event_time, up=True)
        with self._lock:
            self._outbox.written += rows
        with self._lock_for_note():
            self._outbox.record_write(time, self._resolve_domain(domain), position)

    def wrote_late(
        self, rows: int, min_time: Time, max_time: Time | None = None, *, domain: str | None = None
    ) -> None:
        """Report rows below `late_below` that were written, from `min_time` to `max_time`.

        Call it for each full hour: complete windows show its late rows. Without `max_time`, the
        rows may have any time up to the lower.
        """
        with self._lock_for_note():
            max_time_ms = None if max_time is None else unix_ms_of(max_time)
            late_rows = LateRows(rows, unix_ms_of(min_time), max_time_ms)
            if is_reversed(late_rows):
                raise Rejected("`max_time` is before `min_time`: exchange them")
            self._outbox.count_late_rows(self._resolve_domain(domain), late_rows)
            bound = self.late_below(domain)
            self._notices.count_late_rows(
                late_rows.min_time, late_rows.min_time if bound is None else bound
            )
            self._notices.report_late_rows(self._outbox.late_rows, clocks.monotonic())
        self._notices.emit()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold back automatic notes while events are created and written.

        An automatic note of T promises that no event with a time below T will still be written. So
        stamp events with this clock *inside* the block, wait for their delivery, and report their
        position with `wrote` before the block ends:

            with client.writing():
                producer.produce(topic, stamped(event), on_delivery=remember_position)
                producer.flush()  # now it is delivered and its offset is known
                client.wrote(event_time, position=positions)
        """
        block = object()
        with self._lock:
            self._writes[block] = unix_ms_of(self._clock())
        try:
            yield
        finally:
            with self._lock:
                del self._writes[block]
                self._posting.record_call(clocks.monotonic())

    @property
    def writer(self) -> str:
        return self._outbox.writer

    def lower(self, domain: str | None = None) -> int | None:
        """Return the lower of the last mark, if known. Rows below it are late."""
        return self._outbox.lower(self._resolve_domain(domain))

    def late_below(self, domain: str | None = None) -> int | None:
        """Return the time below which rows written now are late, or `None`.

        It is the largest of the lower, the writer's notes, and the notes of an earlier process.
        """
        vouched_times = self._outbox.vouched
        name = self._resolve_domain(domain)
        bounds = (
            vouched_times.get_time(name),
            vouched_times.get_known_time(name),
            self._outbox.lower(name),
        )
        return max((bound for bound in bounds if bound is not None), default=None)

    @property
    def position(self) -> dict[int, int]:
        """The whole known position."""
        return dict(self._outbox.vouched.position)

    @property
    def state(self) -> State | Literal["excluded", "fenced"]:
        """The state: `live`, `idle`, `finished`, `excluded` or `fenced`; at first `finished`.

        A live writer is excluded while the watermark advances without it. It is fenced, for good,
        once another process took over its name.
        """
        if self._outbox.fenced:
            return "fenced"
        state = self._outbox.state
        if state == "live" and self._outbox.excluded:
            return "excluded"
        return state

    def _resolve_domain(self, domain: str | None) -> str | None:
        return self._only_domain if domain is None else domain

    @contextlib.contextmanager
    def _lock_for_note(self) -> Iterator[None]:
        self.check()
        with self._lock:
            yield
            self._posting.record_call(clocks.monotonic())
            self._wake()
        if self._closed:  # a signal handler closed it during the call
            message = f"the client of writer {self._outbox.writer!r} was closed during the call"
            raise Rejected(message)

    def _set_fenced(self) -> None:
        self._inner.is_fenced = True

    def _note_clock(self) -> None:
        outbox = self._outbox
        domain = self._resolve_domain(None)
        clock_time = min((unix_ms_of(self._clock()), *self._writes.values()))
        if outbox.state != "live" or not outbox.durable_through:  # until the join is answered
            return
        time = clock_time
        for noted_time in (outbox.vouched.get_time(domain), outbox.vouched.get_known_time(domain)):
            if noted_time is not None:
                time = max(time, noted_time)
        self._notices.warn_of_clock(time - clock_time)
        outbox.note(time, EMPTY_POSITION, domain=domain)
        self._notices.warn_of_seconds(time)


def get_inner_writer(client: Writer[Any]) -> InnerWriter:
    """Return the inner calls of a client, for its observers, logs and producers."""
    return client._inner  # noqa: SLF001 - no other function returns them
