"""Observers note time for a log that they watch."""

from __future__ import annotations

import logging
import time as clocks
from abc import abstractmethod
from collections.abc import Callable

from noted_time.client.polling import PollingLoop
from noted_time.installation import name_program
from noted_time.observing import (
    LEAST_POLL_MS,
    GrowingEnds,
    IngestionNotes,
    Outcome,
    Seen,
    SegmentClocks,
)
from noted_time.values import (
    INGESTION_NAME,
    LARGEST_TIME,
    AnotherLog,
    EventTimeForm,
    Fenced,
    InvalidNote,
    LogFact,
    NotAllowed,
    NotObservable,
    Recreated,
    Rejected,
    UnknownCall,
    Unreachable,
    UnreadableRows,
    check_least,
)
from writer_client.client import WriterClient, get_stream_questions
from writer_client.sending.clock import unix_ms
from writer_client.sending.writer import get_inner_writer

log = logging.getLogger("noted_time.observer")

NOT_ALLOWED_WARNING = (
    "the event times are read by this observer as %s, which it may not state for the readers of "
    "%s: give it a new token (`%s token create --scope write --scope observe --stream %s`)"
)

OLDER_CONTROLLER_WARNING = (
    "the event times are read by this observer as %s, which readers of %s cannot know: its "
    "controller is older, so pass them the same zone, unit and format"
)

SIGN_OF_LIFE_MS = 10_000  # while time does not advance

OBSERVER_JOIN_S = 2.0


def monotonic_ms() -> int:
    return clocks.monotonic_ns() // 1_000_000


class Observer(PollingLoop):
    """Polls a log every `poll_ms` and notes times through a client. The caller closes the client.

    If the log was recreated, the observer stops with `Recreated`.
    """

    def __init__(
        self,
        client: WriterClient,
        looks: Callable[[], Seen],
        poll_ms: int,
        silence_ms: int,
        ends: GrowingEnds,
    ) -> None:
        super().__init__(client.stream, poll_ms)
        self.client = client
        self._inner = get_inner_writer(client)
        self._questions = get_stream_questions(client)
        self._looks = looks
        self._silence_ms = silence_ms
        self._ends = ends
        ends.log = f"the log of stream {client.stream!r}"
        client.of_log(getattr(looks, "log_id", None), observes=True)
        self._foreign: dict[str, int] = {}
        self._timeout_ms: int | None = None
        self._check_timeout()

    def look(self) -> None:
        """Poll the log once, and note the times that are due.

        The client joins first, so the poll covers everything that another process noted under the
        name. Raises `Unreachable` if the log cannot be read now or the client cannot join.
        """
        self.client.check()
        self.client.of_log(getattr(self._looks, "log_id", None), observes=True)
        if self._inner.takes_over:
            self._join()
        self._check_timeout()
        self._ends.reach(self.client.position)
        try:
            self._look()
        except UnreadableRows as refusal:
            first_seen_at = self._foreign.setdefault(refusal.pattern, unix_ms())
            name = refusal.pattern
            self._inner.report_facts(
                [LogFact("foreign_file", refusal.segment, 0, first_seen_at, name)]
            )
            self.client.join()  # a sign of life, so that the mark waits
            raise Unreachable(str(refusal)) from refusal
        except InvalidNote as error:
            self._check_ends(error)
            raise

    @abstractmethod
    def _look(self) -> None: ...

    def _join(self) -> None:
        if self.client.state != "live":
            self.client.join()
        try:
            self.client.flush(OBSERVER_JOIN_S)
        except (AnotherLog, Fenced, Unreachable):
            raise
        except Rejected as error:
            raise Unreachable(f"the observer cannot join: {error}") from error

    def _check_timeout(self) -> None:
        timeout_ms = self._inner.known_timeout_ms
        if (
            timeout_ms != self._timeout_ms
            and timeout_ms is not None
            and timeout_ms <= self._silence_ms
        ):
            log.warning(
                "writer %r of stream %r times out after %d ms and may be silent for %d ms in "
                "normal operation: set a longer timeout_ms",
                self.client.writer,
                self.client.stream,
                timeout_ms,
                self._silence_ms,
            )
        self._timeout_ms = timeout_ms

    @property
    def silent_s(self) -> float:
        """Return how long ago a poll and a note succeeded, in seconds."""
        return max(super().silent_s, self._inner.silent_s)

    def check_refusals(self) -> None:
        """Raise `Recreated` or `AnotherLog`; other refusals are not final."""
        self._check_ends(self._inner.pop_refused())

    def _check_ends(self, error: Rejected | None) -> None:
        if isinstance(error, AnotherLog):
            raise error
        if isinstance(error, InvalidNote) and error.status == "invalid_position":
            raise Recreated(self._ends.log, str(error), is_certain=True) from error


class IngestionNoter(Observer):
    """Notes ingestion time: records visible at time T lie below the ends that are read after T.

    Every `poll_ms` it reads the clock and then the ends. It notes if the ends changed or
    `max_lag_ms` have passed, so time advances on a quiet stream, too (PDP-26). If the clock steps
    back, it notes nothing until the clock has caught up.

    * `ends` returns a `Seen` with the ends of the log, for example a `LogEnds`.
    * `clock` returns Unix ms. `skew_ms` is how far it may be ahead.

    The client must vouch for this domain only (`domains=["ingestion"]`), and the other writers only
    for theirs, or they wait for each other. The writer's timeout must exceed `max_lag_ms` +
    `poll_ms`. Raises `Rejected` for options out of range.
    """

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        client: WriterClient,
        ends: Callable[[], Seen],
        *,
        domain: str = INGESTION_NAME,
        poll_ms: int = 1000,
        max_lag_ms: int = 10_000,
        skew_ms: int = 0,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        self._notes = IngestionNotes(poll_ms, max_lag_ms, skew_ms, domain=domain)
        super().__init__(client, ends, poll_ms, self._notes.silence_ms(), self._notes.ends)
        self._clock = clock

    def _look(self) -> None:
        now = self._clock()
        look = _call_look(self._looks)
        self._inner.report_facts(look.because)
        note = self._notes.due(now, look.ends)
        if note is not None and note.time is not None:
            self.client.note_time(
                note.time, note.position, domain=note.domain, max_time=note.time - 1
            )


class EventTimeNoter(Observer):
    """Notes event time for writers that do not note it. The slowest segment determines the time.

    * `times` returns a `Seen` with the newest times, for example a `LogTimes` or a `KafkaTimes`.
    * `delay_ms` is subtracted from the newest time of each segment. A row that is more out of order
      than this within its segment is late.
    * `idle_timeout_ms` is the time after which the observer stops waiting for a segment without new
      rows. With 0, it always waits.

    The observer is idle while it waits for no segment. It notes at least every ten seconds, so its
    timeout must be longer. Raises `Rejected` for options out of range.
    """

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        client: WriterClient,
        times: Callable[[], Seen],
        *,
        delay_ms: int,
        idle_timeout_ms: int = 60_000,
        domain: str | None = None,
        poll_ms: int = 1000,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(client, times, poll_ms, SIGN_OF_LIFE_MS + poll_ms, GrowingEnds())
        check_least("poll_ms", poll_ms, LEAST_POLL_MS)
        self._domain = domain
        self._clock = clock
        self._clocks = SegmentClocks(idle_timeout_ms, delay_ms)
        self._largest: int | None = None
        self._stated: EventTimeForm | None = None
        self._without_time: list[int] = []
        self._last_note_at = clock()
        client.join()

    def _look(self) -> None:
        look = _call_look(self._looks)
        self._inner.report_facts(look.because)
        self._state_form()
        ends = self._ends.take(look.ends)
        now = self._clock()
        for segment in look.ends:
            self._clocks.add(segment, now=now)
        if look.largest is not None:
            largest = min(look.largest, LARGEST_TIME)
            self._largest = max(largest, self._largest or largest)
        self._report_outcomes(self._clocks.events(look.newest, now=now), ends, now)

    def _state_form(self) -> None:
        """State how the times are read, before the first time is noted.

        Without the right, or with an older controller, the observer goes on, and says it once.
        """
        form = getattr(self._looks, "event_time_form", None)
        if form is None or form == self._stated:
            return
        try:
            self._questions.state_form(form, self._domain)
        except NotAllowed:
            stream = self.client.stream
            log.warning(NOT_ALLOWED_WARNING, form, stream, name_program(), stream)
        except UnknownCall:
            log.warning(OLDER_CONTROLLER_WARNING, form, self.client.stream)
        self._stated = form

    def _report_outcomes(self, outcomes: list[Outcome], ends: dict[int, int], now: int) -> None:
        client = self.client
        has_new_time = any(outcome != "idle" for outcome in outcomes)
        was_idle = client.state == "idle"
        is_idle = self._clocks.is_idle
        is_silent = now - self._last_note_at >= SIGN_OF_LIFE_MS
        self._report_empty(now)
        if has_new_time or (is_silent and not is_idle):
            self._note(ends, now)
        elif was_idle and not is_idle:
            client.join(ends)
        if outcomes[-1:] == ["idle"] or (is_silent and is_idle):
            self._last_note_at = now
            client.idle(ends)

    def _report_empty(self, now: int) -> None:
        segments = self._clocks.find_without_time(now=now)
        if segments == self._without_time:
            return
        self._without_time = segments
        if not segments:
            self.client.report_no_time(None)
            return
        names = ", ".join(f"segment {segment}" for segment in segments)
        self.client.report_no_time(f"waits for a first time in {names}")

    def _note(self, ends: dict[int, int], now: int) -> None:
        self._last_note_at = now
        time = self._clocks.time
        domain = self._domain
        known_time = self._inner.find_known_time(domain)
        if time is not None and (known_time is None or time >= known_time):
            self.client.note_time(time, ends, domain=domain, max_time=self._largest)
            return
        # a refused note would not postpone the timeout
        max_times = {} if self._largest is None else {domain: self._largest}
        self.client.join(ends, max_times=max_times)


def _call_look(look: Callable[[], Seen]) -> Seen:
    """Raise `Unreachable` for any error that does not end the observer."""
    try:
        return look()
    except (UnreadableRows, Recreated, NotObservable, Unreachable):
        raise
    except Exception as error:
        raise Unreachable(f"the log cannot be read: {error}") from error
