"""The background thread of a Kafka producer: startup, polls and automatic notes."""

from __future__ import annotations

import threading
import time as clocks
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from noted_time.client.wakeup import Wakeup
from noted_time.values import ClientFailed, NotedTimeError, Time, Unreachable, pluralize, unix_ms_of
from writer_client.kafka.channel import Channel, log
from writer_client.sending.clock import unix_ms
from writer_client.sending.producer_state import BETWEEN_TRANSACTIONS, ProducerState

IDLE_S = 1.0  # between polls without waiting notes

WAITING_S = 0.005  # between polls with waiting notes

RETRY_S = 1.0

LIVE_STATES = ("live", "excluded")


@dataclass(frozen=True, slots=True)
class ClockNotes:
    """Notes `clock()` less `delay_ms` automatically, every `period_ms`.

    Produce events within `delay_ms` of their time. Events that the producer stamps need no delay.
    """

    delay_ms: int = 0
    period_ms: int = 1000
    clock: Callable[[], Time] = unix_ms

    def now_ms(self) -> int:
        """Return the clock in Unix ms."""
        return unix_ms_of(self.clock())


class WaitingCalls:
    """Calls that are queued, at most `limit`, until their producer has begun."""

    def __init__(self, limit: int) -> None:
        self.is_over = False
        self._limit = limit
        self._calls: deque[Callable[[], object]] = deque()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._caller_thread: int | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def keep(self, call: Callable[[], object], *, waits: bool = True) -> bool:
        """Queue the call, or return false if the caller must make it now."""
        with self._lock:
            if self._caller_thread in (None, threading.get_ident()) and not self.is_over:
                if len(self._calls) >= self._limit:
                    raise BufferError(f"{self._limit} calls wait until the producer has begun")
                self._calls.append(call)
                return True
        if not (waits or self.is_over):
            raise BufferError(
                "the calls that waited until the producer has begun are being made: call again"
            )
        self._ended.wait()
        return False

    def end(self) -> None:
        """Make the calls. None of them may raise."""
        with self._lock:
            self._caller_thread = threading.get_ident()
        while self._calls:
            self._calls[0]()
            self._calls.popleft()
        self.is_over = True
        self._ended.set()

    def fail(self) -> None:
        self._ended.set()

    def wait(self, timeout_s: float | None) -> None:
        if self._caller_thread != threading.get_ident():
            self._ended.wait(timeout_s)


class BackgroundThread:
    """Starts up a producer, polls, and notes its clock or makes it idle."""

    def __init__(
        self,
        channel: Channel,
        waiting: WaitingCalls,
        *,
        clock: ClockNotes | None,
        idle_after_ms: int | None,
    ) -> None:
        self._notes = 0
        self._delay: Unreachable | None = None
        self._refused: NotedTimeError | None = None  # of a note that waited for startup
        self._channel = channel
        self._tracker = channel.tracker
        self._waiting = waiting
        self._clock = clock
        self._next_beat = 0.0
        self._idle_after_s = None if idle_after_ms is None else idle_after_ms / 1000
        self._activity = (0, 0)  # the events and the notes so far
        self._active_at = 0.0
        self._wakeup = Wakeup()
        self._who = f"the producer of writer {channel.client.writer!r}"
        name = f"noted-time producer {channel.client.writer}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def wake(self) -> None:
        self._wakeup.wake()

    def note(self, time: Time, domain: str | None) -> None:
        """Note, or queue the note until startup."""
        self.check()
        note = partial(self._make_note, unix_ms_of(time), domain)
        self._notes += 1
        if self._waiting.is_over or not self._waiting.keep(note):
            self._tracker.note(time, domain)
            self.check()
        if self._tracker.is_waiting:
            self.wake()

    def _make_note(self, time: int, domain: str | None) -> None:
        try:
            self._tracker.note(time, domain)
        except NotedTimeError as error:
            log.warning("%s", error)
            self._refused = self._refused or error

    def check(self) -> None:
        self._channel.check()
        refusal = self._refused
        self._refused = None
        if refusal is not None:
            raise refusal

    def wait_at_first(self, timeout_s: float | None) -> None:
        if timeout_s == 0:
            return
        self._waiting.wait(timeout_s)
        self.check()
        if not self._waiting.is_over and self._delay is None:
            self._put_off(Unreachable(f"{self._who} has not begun after {timeout_s:g} s"))

    def wait_for_begin(self, until: float) -> None:
        if self._waiting.is_over:
            return
        self.check()
        self._waiting.wait(max(0.0, until - clocks.monotonic()))
        self.check()
        if not self._waiting.is_over:
            reason = self._delay or "no answer yet"
            calls = pluralize(len(self._waiting), "call")
            raise Unreachable(f"{self._who} has not begun: {reason}; waiting: {calls}")

    def _begin(self) -> None:
        while not (self._channel.is_closed or self._waiting.is_over):
            try:
                self._channel.begin()
                self._waiting.end()
            except Unreachable as error:
                self._put_off(error)
                self._wakeup.wait(RETRY_S)
            except NotedTimeError as error:
                self._give_up(error)
                return
            except Exception as error:  # noqa: BLE001 - raised by every call
                self._give_up(ClientFailed(f"{self._who}: {error}"))
                return

    def _give_up(self, fault: NotedTimeError) -> None:
        if not self._channel.is_closed:
            log.warning(
                "writer %r cannot begin, and %d waiting calls are dropped: %s",
                self._channel.client.writer,
                len(self._waiting),
                fault,
            )
        self._channel.fail(fault)
        self._waiting.fail()
        self._channel.ending.end(0.0)

    def _put_off(self, delay: Unreachable) -> None:
        is_first = self._delay is None
        self._delay = delay
        if is_first:
            log.warning("%s; retrying, while events and notes wait", delay)

    def _run(self) -> None:
        self._begin()
        self._next_beat = clocks.monotonic()
        if self._clock is not None:
            self._next_beat += self._clock.period_ms / 1000
        while not self._channel.is_closed:
            polls = self._channel.polls
            self._wakeup.wait(self._find_pause_s())
            try:
                if self._channel.polls == polls and not self._channel.is_closed:
                    self._channel.poll(0)
                self._note_clock(clocks.monotonic())
                self._go_idle(clocks.monotonic())
            except Exception:  # noqa: BLE001 - from the user's clock or callbacks
                log.exception("writer %r", self._channel.client.writer)

    def _find_pause_s(self) -> float:
        pause_s = min(IDLE_S, self._idle_after_s or IDLE_S)
        if self._tracker.is_waiting:
            pause_s = WAITING_S
        if self._clock is None:
            return pause_s
        return max(0.0, min(pause_s, self._next_beat - clocks.monotonic()))

    def _note_clock(self, now: float) -> None:
        if self._clock is None or now < self._next_beat:
            return
        self._next_beat = now + self._clock.period_ms / 1000
        tracker = self._tracker
        with tracker.lock:
            can_note = (
                tracker.phase in (ProducerState.CLEAR, ProducerState.OPEN) and not tracker.failed
            )
            if not can_note or tracker.rests or self._channel.fault:
                return
            time = self._clock.now_ms() - self._clock.delay_ms
            last_time = tracker.last_time()
            if last_time is None:
                last_time = time
            self._channel.inner.warn_of_clock(last_time - time)
            tracker.note(max(time, last_time))

    def _go_idle(self, now: float) -> None:
        if self._idle_after_s is None:
            return
        activity = (self._tracker.rows, self._notes)
        is_between = self._tracker.phase in BETWEEN_TRANSACTIONS
        if activity != self._activity or self._tracker.under_way or not is_between:
            self._activity = activity
            self._active_at = now
            return
        is_due = now >= self._active_at + self._idle_after_s
        if is_due and self._channel.client.state in LIVE_STATES:
            with suppress(NotedTimeError):  # there are new events or notes
                self._channel.rest(now, self._channel.client.idle)


def compute_deadline(timeout_s: float) -> float:
    return clocks.monotonic() + (timeout_s if timeout_s >= 0 else threading.TIMEOUT_MAX / 2)
