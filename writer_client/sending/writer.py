"""The calls of a writer, shared by the clients for threads and for asyncio."""

from __future__ import annotations

import contextlib
import os
import threading
import time as clocks
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from noted_time.values import (
    HELD_LENGTH,
    LateRows,
    LogFact,
    Rejected,
    State,
    Time,
    check_least,
    format_line,
    unix_ms_of,
    validate_name,
)
from writer_client.sending.clock import unix_ms
from writer_client.sending.notices import Notices
from writer_client.sending.outbox import Outbox
from writer_client.sending.outcome import Exclusion
from writer_client.sending.posting import HeldClock, Pace, Posting
from writer_client.sending.vouched import EMPTY_POSITION, Process, validate_domains

if TYPE_CHECKING:
    from writer_client.sending.outbox import LookUp

Network = TypeVar("Network")

LAST_WAIT_S = 0.05
"""How long a thread or task with no request under way may take to end."""


class Writer(ABC, Generic[Network]):
    """One writer of one stream; see `WriterClient` and `AsyncWriterClient`.

    No call here waits for the network, and all may be called from any thread.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        url: str,
        stream: str,
        writer: str,
        *,
        token: str | None = None,
        timeout_ms: int | None = None,
        domains: Sequence[str] | None = None,
        idle_after_ms: int | None = None,
        on_excluded: Callable[[Exclusion], object] | None = None,
        automatically_note_time: bool = False,
        clock: Callable[[], Time] = unix_ms,
        pace: Pace | None = None,
        transport: Network | None = None,
    ) -> None:
        """Start to note for `writer`; raises `InvalidName`, or `Rejected` for invalid options.

        `url` may be several, separated by commas: one is asked as long as it answers. `token` is
        sent to the controller; by default it is that of the variable NOTED_TIME_TOKEN.

        `timeout_ms` is how long the watermark waits for this writer while it is silent, for example
        90 minutes for an hourly job. By default it is unchanged, and at first the stream's
        `writer_timeout_ms`. `domains` are those it vouches for, by default unchanged, and at first
        all of the stream. After `idle_after_ms` without a call that notes, joins or reports what
        was written, it goes idle automatically.

        `on_excluded` is called once with each `Exclusion`, when an answer says that the watermark
        advances without the writer. It runs in the thread or task that sends notes, without locks,
        so it must not wait for the client; its exceptions are logged.

        `automatically_note_time` notes `clock()` periodically while the writer is live; see
        `writing` for what that promises. `pace` decides how often, and when to post.
        """
        validate_name("stream", stream)
        check_least("timeout_ms", timeout_ms, 1)
        check_least("idle_after_ms", idle_after_ms, 1)
        self.stream = stream
        self.timeout_ms = timeout_ms
        self._domains = validate_domains(domains)
        self._outbox = Outbox(writer, self._domains, timeout_ms, Process.own())
        self._notices = Notices(stream, writer, url, on_excluded)
        self._clock = HeldClock(lambda: unix_ms_of(clock()))
        self._notes_clock = automatically_note_time
        self._pid = os.getpid()
        self._closed = False
        self.is_fenced = False
        """Whether another process took over the writer's name; to ask costs less than `check`."""
        self._lock = threading.RLock()
        pace = pace or Pace()
        self._posting = Posting(
            self._outbox,
            pace,
            self._notices,
            now=clocks.monotonic(),
            idle_after_ms=idle_after_ms,
            beat=self._note_clock if automatically_note_time else None,
            is_busy=lambda: self._clock.is_held,
            fenced=self._set_fenced,
        )
        if automatically_note_time:
            self._outbox.join({})
        self._open(url, transport, timeout_s=pace.request_timeout_ms / 1000, token=token)

    @abstractmethod
    def _open(
        self, url: str, network: Network | None, *, timeout_s: float, token: str | None
    ) -> None:
        """Start to send; a given `network` replaces the real one."""

    @abstractmethod
    def _wake(self) -> None:
        """Wake the sender; the lock is held."""

    def note_time(
        self,
        time: Time,
        position: Mapping[int, int] = EMPTY_POSITION,
        *,
        domain: str | None = None,
        max_time: Time | None = None,
    ) -> None:
        """Note that all my events with a time of `domain` below `time` lie below `position`.

        Without a position the time alone is noted, for what has no offsets, such as a table.

        Times are integers of the application's clock, Unix ms by convention, or aware `datetime`s.
        `max_time` is the largest event time written; times given to `wrote` count as well. Raises
        `InvalidNote` at once if time or position goes back behind an earlier call. Raises
        `Rejected` for numbers outside int64, a `datetime` without a zone, and if the client notes
        the clock automatically. `flush` raises refusals by the controller.
        """
        if self._notes_clock:
            message = (
                f"the client of writer {self._outbox.writer!r} notes the clock automatically: "
                "report positions with wrote(), or create it without automatically_note_time"
            )
            raise Rejected(message)
        largest = None if max_time is None else unix_ms_of(max_time, up=True)
        noted = unix_ms_of(time)
        with self._lock_for_note():
            self._outbox.note(
                noted, position, domain=self._resolve_domain(domain), max_time=largest
            )
            self._notices.warn_of_seconds(noted)

    def join(
        self,
        position: Mapping[int, int] = EMPTY_POSITION,
        *,
        max_times: Mapping[str | None, Time] | None = None,
    ) -> None:
        """Join the stream; the watermark waits until the writer notes, idles or finishes.

        Join and `flush` before the first write: rows written before the controller knows the writer
        may already be late.

        *After a restart*, `position` has to reach all that the former process wrote, noted or not:
        the ends of the segments it writes to are enough. Without it, readers may pass rows that
        were written before a crash, and drop them. `max_times` are the largest event times of these
        rows, by domain. `SegmentLogWriter` finds both itself (`begin`). The position that the
        controller knows is added, but it covers only what was noted.
        """
        times = {
            self._resolve_domain(k): unix_ms_of(t, up=True) for k, t in (max_times or {}).items()
        }
        with self._lock_for_note():
            for domain, time in times.items():
                self._outbox.vouched.declare(domain, time)
            self._outbox.join(position)

    def begin(self, look_up: LookUp) -> None:
        """Join, and continue from the ends of the writer's segments, which `look_up` returns.

        It is called in the thread or task that sends notes, with the position that the controller
        knows, once no other process of the same name may note: the next note covers what such a
        process wrote until then. What is noted meanwhile waits for it. `SegmentLogWriter` begins
        this way.
        """
        with self._lock_for_note():
            self._outbox.begin(look_up)

    def of_log(self, log: str | None, *, observes: bool = False) -> None:
        """Say which log positions are of, by its id, such as a Kafka topic's; call it first.

        Each live note has it from then on, and notes of another log than the stream's are refused:
        `flush` raises `AnotherLog`. A client that `observes` notes for writers that do not:
        `explain` then names segments without new rows, for which an observer does not wait.
        """
        with self._lock:
            self._outbox.set_log(log, observes=observes)

    def check(self) -> None:
        """Raise if the client can no longer note, before more is written.

        `Fenced` if another process took over the writer's name, `ClientFailed` if the sender
        failed, `Rejected` if the client is closed or belongs to another process.
        """
        if self._closed:
            raise Rejected(f"the client of writer {self._outbox.writer!r} is closed")
        if self._pid != os.getpid():
            message = f"the client of writer {self._outbox.writer!r} belongs to another process"
            raise Rejected(message)
        self._posting.check()

    def idle(self, position: Mapping[int, int] = EMPTY_POSITION) -> None:
        """Note that time need not wait for the writer until it notes, writes or joins again."""
        with self._lock_for_note():
            self._outbox.idle(position)

    def hold(self, reason: str | None) -> None:
        """Report that the writer lives and cannot note, and why, for people; `None` ends that.

        Repeat it within the writer's timeout: `explain`, the page and `noted-time writers` then
        show "alive, but …" with the reason, which is cut to one line of 200 characters.
        """
        shown = format_line(reason or "", HELD_LENGTH)
        with self._lock_for_note():
            self._outbox.hold(shown or None)

    def report_facts(self, facts: Sequence[LogFact]) -> None:
        """Report what an observer found in the log that holds time or moved it, for people.

        `explain` shows the first `MOST_LOG_FACTS`, until the next call replaces them.
        """
        with self._lock_for_note():
            self._outbox.report_facts(facts)

    def wrote(
        self,
        event_time: Time | None = None,
        *,
        domain: str | None = None,
        position: Mapping[int, int] = EMPTY_POSITION,
        rows: int = 1,
    ) -> None:
        """Record an event that was written, or that many `rows`, for the next note to cover.

        The largest event time of each domain is sent as `max_time`, which makes the upper of marks
        a true bound. A position behind what is known changes nothing. This makes a writer that is
        not live join.
        """
        time = None if event_time is None else unix_ms_of(event_time, up=True)
        with self._lock:
            self._outbox.written += rows
        with self._lock_for_note():
            self._outbox.record_write(time, self._resolve_domain(domain), position)

    def wrote_late(
        self, rows: int, least: Time, most: Time | None = None, *, domain: str | None = None
    ) -> None:
        """Count rows that were written below `late_below`, with event times from `least` to `most`.

        Windows of these times name them: call it once for each full hour if they are of several.
        Without `most` they may have any time up to the lower. The next note reports them to the
        controller, which counts broken promises; a warning is logged at the first and then once in
        a while. `SegmentLogWriter` calls it itself.
        """
        with self._lock_for_note():
            late = LateRows(rows, unix_ms_of(least), None if most is None else unix_ms_of(most))
            total = self._outbox.count_late_rows(self._resolve_domain(domain), late)
            bound = self.late_below(domain)
            self._notices.count_late_rows(late.least, late.least if bound is None else bound)
            self._notices.report_late_rows(total, clocks.monotonic())
        self._notices.emit()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold back automatic notes while events are created and written.

        An automatic note of T promises that no event with a time below T is still to be written.
        That is true of events that are stamped with the same clock *inside* such a block, and whose
        position is given to `wrote` before it ends: until then, the noted clock stays at the start
        of the block.

        **An asynchronous produce breaks the promise** if the block ends before delivery: the
        note then says a position that the events have not reached. In one measurement with a
        Kafka producer, 1,786 of 1,848 events lay beyond the cut. Flush the producer inside::

            with client.writing():
                producer.produce(topic, stamped(event), on_delivery=remember_position)
                producer.flush()  # now it is delivered and its offset is known
                client.wrote(event_time, position=positions)
        """
        with self._lock:
            block = self._clock.hold()
        try:
            yield
        finally:
            with self._lock:
                self._clock.release(block)
                self._posting.record_call(clocks.monotonic())

    def pop_refused(self) -> Rejected | None:
        """Remove and return the oldest refusal that `flush` would raise, without waiting."""
        with self._lock:
            return self._outbox.pop_refused()

    @property
    def writer(self) -> str:
        """The name of the writer."""
        return self._outbox.writer

    def lower(self, domain: str | None = None) -> int | None:
        """Return the lower of the last mark as of the last answer: rows written below it are late.

        `domain` is named as in notes; `None` before the first mark or answer.
        """
        return self._outbox.lower(self._resolve_domain(domain))

    def late_below(self, domain: str | None = None) -> int | None:
        """Return the time below which rows written now are late, by own notes or the lower.

        A former process's notes count, too, once the client has joined. `None` if nothing is late.
        """
        vouched, named = self._outbox.vouched, self._resolve_domain(domain)
        bounds = (vouched.get_time(named), vouched.get_known_time(named), self._outbox.lower(named))
        return max((bound for bound in bounds if bound is not None), default=None)

    @property
    def position(self) -> dict[int, int]:
        """The whole position given or received so far: segment → exclusive offset."""
        return dict(self._outbox.vouched.position)

    @property
    def takes_over(self) -> bool:
        """Whether no note was accepted yet; until then another process may have the name."""
        return self._outbox.takes_over

    def noted_time(self, domain: str | None = None) -> int | None:
        """Return the last time noted here that was not refused as too far ahead, if any."""
        return self._outbox.vouched.get_time(self._resolve_domain(domain))

    def known_time(self, domain: str | None = None) -> int | None:
        """Return the writer's last time of a domain at its last join, `None` before the first."""
        return self._outbox.vouched.get_known_time(self._resolve_domain(domain))

    @property
    def known_timeout_ms(self) -> int | None:
        """The timeout in force at its last join, by `timeout_ms` or the stream's.

        Before the first join it is the declared timeout, `None` without one.
        """
        return self._outbox.vouched.known_timeout_ms or self.timeout_ms

    @property
    def state(self) -> State | Literal["excluded", "fenced"]:
        """`live`, `idle`, `finished` (also before the first call), `excluded`, or `fenced`.

        A live writer is excluded while the last answer says that the watermark advances without it,
        and fenced for good once another process took over its name.
        """
        if self._outbox.fenced:
            return "fenced"
        state = self._outbox.state
        return "excluded" if state == "live" and self._outbox.excluded else state

    def _resolve_domain(self, domain: str | None) -> str | None:
        """Return `domain`; if it is not named, the only one vouched for."""
        only = domain is None and self._domains is not None and len(self._domains) == 1
        return self._domains[0] if only and self._domains else domain

    @contextlib.contextmanager
    def _lock_for_note(self) -> Iterator[None]:
        self.check()
        with self._lock:
            yield
            self._posting.record_call(clocks.monotonic())
            self._wake()
        if self._closed:  # by a signal handler during the call
            message = f"the client of writer {self._outbox.writer!r} was closed during the call"
            raise Rejected(message)

    def clock_behind(self, ms: int) -> None:
        """Log that the clock is so far behind what was noted, once until it has caught up."""
        self._notices.warn_of_clock(ms)

    def _set_fenced(self) -> None:
        self.is_fenced = True

    def _note_clock(self) -> None:
        """Note the clock, or the last time again while it is behind that: a sign of life."""
        outbox, domain, time = self._outbox, self._resolve_domain(None), self._clock.read()
        if outbox.state != "live":
            return
        noted = outbox.vouched.get_time(domain), outbox.vouched.get_known_time(domain)
        last = max((time, *(each for each in noted if each is not None)))
        self._notices.warn_of_clock(last - time)
        outbox.note(last, EMPTY_POSITION, domain=domain)
        self._notices.warn_of_seconds(last)
