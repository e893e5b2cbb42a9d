"""Observers: they watch a log, and note what can be concluded from it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time as clocks
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Self, TypeVar

from noted_time.values import (
    ClientFailed,
    Fenced,
    InvalidNote,
    NotedTimeError,
    Rejected,
    Unreachable,
)
from noted_time.wing import INGESTION, LEAST_POLL_MS, GrowingEnds, Look, Outcome, SegmentClocks
from writer_client.client import WriterClient
from writer_client.posting import unix_ms

Found = TypeVar("Found")

log = logging.getLogger("noted_time.observer")

SIGN_OF_LIFE_MS = 10_000
"""How often an observer whose time does not advance sends a note without a time."""

STOP_S = 5.0

JOIN_S = 2.0
"""How long a look waits for the client to join."""


def monotonic_ms() -> int:
    """Return a clock in ms that never goes back."""
    return clocks.monotonic_ns() // 1_000_000


class Observer(ABC):
    """Looks every `poll_ms` and notes through a client, which stays the caller's.

    `run` looks in the calling thread, a ``with`` block or `start` in one of its own. If the log
    cannot be read now, this is logged once (``noted_time.observer``) and retried. Meanwhile nothing
    is noted: the observer holds time back, until it times out. If the log was recreated the
    observer stops: `run`, `check` and `close` raise the `Rejected` for it.
    """

    def __init__(
        self, client: WriterClient, poll_ms: int, silence_ms: int, ends: GrowingEnds
    ) -> None:
        """Start; without failures it notes after `silence_ms` at the latest."""
        self.client = client
        self.poll_ms = poll_ms
        self._silence_ms = silence_ms
        self._ends = ends
        self.failure: NotedTimeError | None = None
        self._stopping = threading.Event()
        self._is_away = False
        self._thread = threading.Thread(target=self._observe, name="noted observer", daemon=True)
        self._timeout_ms: int | None = None
        self._check_timeout()

    def look(self) -> None:
        """Look once, and pass what is due to the client, which joins before the first look.

        What another process noted under the writer's name before the join was accepted lies below
        what that look sees. Raises `Unreachable` if the log cannot be read now, or the client
        cannot join, `Rejected` if the log was recreated, `Fenced` if another process took over.
        """
        self.client.check()
        if self.client.takes_over:
            self._join()
        self._check_timeout()
        self._ends.reach(self.client.position)
        try:
            self._look()
        except InvalidNote as error:
            _check_ends(error)
            raise

    @abstractmethod
    def _look(self) -> None:
        """Look once."""

    def _join(self) -> None:
        if self.client.state != "live":
            self.client.join()
        try:
            self.client.flush(JOIN_S)
        except (Fenced, Unreachable):
            raise
        except Rejected as error:
            raise Unreachable(f"the observer cannot join: {error}") from error

    def run(self) -> None:
        """Look until `stop` is called; raises the `Rejected` that ends it."""
        while not self._stopping.is_set():
            self._try_to_look()
            self._stopping.wait(self.poll_ms / 1000)

    def start(self) -> None:
        """Look in a thread until `close` is called."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the look under way; may be called from a signal handler."""
        self._stopping.set()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Stop looking; the client stays open. Raises the error that ended the thread before."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        self.check()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        with contextlib.nullcontext() if error is None else contextlib.suppress(NotedTimeError):
            self.close()

    def _observe(self) -> None:
        try:
            self.run()
        except NotedTimeError as error:
            self._ended_by(error)
        except Exception as fault:  # noqa: BLE001 - raised by `check`
            failure = ClientFailed(f"the observer of {self.client.stream} failed: {fault!r}")
            failure.__cause__ = fault
            self._ended_by(failure)

    def _ended_by(self, error: NotedTimeError) -> None:
        self.failure = error
        log.error("the observer of %s stopped: %s", self.client.stream, error)

    def _try_to_look(self) -> None:
        try:
            self.look()
            self._check_refusals()
        except Unreachable as error:
            if not self._is_away:
                log.warning("nothing is noted of %s: %s", self.client.stream, error)
            self._is_away = True
        else:
            if self._is_away:
                log.info("%s can be read again", self.client.stream)
            self._is_away = False

    def _check_timeout(self) -> None:
        """Warn, once the timeout is known, if normal silence may exceed it."""
        known = self.client.known_timeout_ms
        if known != self._timeout_ms and known is not None and known <= self._silence_ms:
            log.warning(
                "writer %r of stream %r times out after %d ms and may be silent for %d ms in "
                "normal operation: give it a longer timeout_ms",
                self.client.writer,
                self.client.stream,
                known,
                self._silence_ms,
            )
        self._timeout_ms = known

    def _check_refusals(self) -> None:
        """Raise if the controller knows ends that the log no longer has.

        The client reports any other refusal, which a later note may resolve.
        """
        _check_ends(self.client.pop_refused())


class IngestionNoter(Observer):
    """Notes ingestion time: whatever was visible in the log at T lies below the ends read after T.

    `ends` returns segment → exclusive end offset, such as a `LogEnds`. `clock` gives Unix ms. Every
    `poll_ms` it reads the clock, then the ends, and notes if these changed or `max_lag_ms` have
    passed, so that time advances on a quiet stream as well (PDP-26). `skew_ms` is how far the clock
    may be ahead. If the clock steps back, nothing is noted until it has caught up.

    The client's writer must vouch for this domain only (`domains=["ingestion"]`), and the stream's
    other writers for theirs, or they wait for one another.

    Raises `Rejected` if `poll_ms` is below 10, `max_lag_ms` below `poll_ms`, or `skew_ms` below 0.
    A timeout of the writer, its own or the stream's, that is not above `max_lag_ms` + `poll_ms` is
    logged as a warning: the writer would be excluded on a quiet stream.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        client: WriterClient,
        ends: Callable[[], Mapping[int, int]],
        *,
        domain: str = INGESTION,
        poll_ms: int = 1000,
        max_lag_ms: int = 10_000,
        skew_ms: int = 0,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        self._step = Look(poll_ms, max_lag_ms, skew_ms, domain=domain)
        super().__init__(client, poll_ms, self._step.silence_ms(), self._step.ends)
        self._read_ends = ends
        self._clock = clock

    def _look(self) -> None:
        note = self._step.take(self._clock, lambda: _reached(self._read_ends))
        if note is not None and note.time is not None:
            self.client.note_time(
                note.time, note.position, domain=note.domain, max_time=note.time - 1
            )


class EventTimeNoter(Observer):
    """Notes event time for writers that do not: a clock per segment, and the slowest one counts.

    `times` returns the ends of the segments and the newest event time of each that had new rows,
    such as a `LogTimes`. A segment's clock is its newest time minus `delay_ms`: a row that is
    further out of order within its segment is late. A segment without new rows for
    `idle_timeout_ms` is no longer waited for (0: it always is), even if it is still empty; if no
    segment is waited for, the observer is idle.

    The writer notes at least every ten seconds, so give it a timeout above that. Raises `Rejected`
    if a duration is negative or `poll_ms` below 10.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        client: WriterClient,
        times: Callable[[], tuple[Mapping[int, int], Mapping[int, int]]],
        *,
        delay_ms: int,
        idle_timeout_ms: int = 60_000,
        domain: str | None = None,
        poll_ms: int = 1000,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(client, poll_ms, SIGN_OF_LIFE_MS + poll_ms, GrowingEnds())
        if poll_ms < LEAST_POLL_MS:
            raise Rejected(f"poll_ms must be {LEAST_POLL_MS} or more, not {poll_ms}")
        self._times = times
        self._domain = domain
        self._clock = clock
        self._clocks = SegmentClocks(idle_timeout_ms, delay_ms)
        self._largest: int | None = None
        self._said_at = clock()
        client.join()

    def _look(self) -> None:
        found, newest = _reached(self._times)
        ends, now = self._ends.take(found), self._clock()
        for segment in found:
            self._clocks.add(segment, now=now)
        if newest:
            largest = max(newest.values())
            self._largest = largest if self._largest is None else max(largest, self._largest)
        self._say(self._clocks.events(newest, now=now), ends, now)

    def _say(self, outcomes: list[Outcome], ends: dict[int, int], now: int) -> None:
        client, rose = self.client, any(outcome != "idle" for outcome in outcomes)
        was_idle = client.state == "idle"
        if rose or (not self._clocks.is_idle and now - self._said_at >= SIGN_OF_LIFE_MS):
            self._note(ends, now)
        elif was_idle and not self._clocks.is_idle:
            client.join(ends)
        if outcomes[-1:] == ["idle"]:
            client.idle(ends)

    def _note(self, ends: dict[int, int], now: int) -> None:
        self._said_at = now
        client, time, domain = self.client, self._clocks.time, self._domain
        before = client.known_time(domain)
        if time is not None and (before is None or time >= before):
            client.note_time(time, ends, domain=domain, max_time=self._largest)
        else:  # below what a former process noted: a refused note would not postpone the timeout
            client.join(ends, max_times={} if self._largest is None else {domain: self._largest})


def _check_ends(error: Rejected | None) -> None:
    """Raise if a note was refused because the log is shorter than before."""
    if isinstance(error, InvalidNote) and error.status == "invalid_position":
        raise Rejected(f"the log was recreated: {error}") from error


def _reached(read: Callable[[], Found]) -> Found:
    """Return what is read; raises `Unreachable` for any failure."""
    try:
        return read()
    except Unreachable:
        raise
    except Exception as error:
        raise Unreachable(f"the log cannot be read: {error}") from error
