"""Decides when a writer's notes are posted, and handles the outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from noted_time.client import Backoff, delay_s, draw_chance
from noted_time.values import (
    Accepted,
    ClientFailed,
    Exclusion,
    NotAllowed,
    NotedTimeError,
    Rejected,
    SharedName,
    UnknownStream,
    Unreachable,
)
from writer_client.sending.answers import NotesReply
from writer_client.sending.notices import Notices
from writer_client.sending.outbox import Outbox
from writer_client.sending.pending_notes import Batch

RECOVERABLE_REFUSALS = (UnknownStream, NotAllowed, SharedName)  # may end, so notes are kept


@dataclass(frozen=True, slots=True)
class Pace:
    """Options for when a writer posts."""

    linger_ms: int = 0
    """The minimum time between two posts; a longer one merges more notes and delays marks."""
    note_period_ms: int = 1000
    """The period of automatic notes of the clock."""
    request_timeout_ms: int = 10_000
    """The time limit of one post."""
    backoff: Backoff = field(default_factory=Backoff)
    """The delays between retries of a failed post."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """The outcome of a flush."""

    lower: int | None
    """The lower of the domain last noted, as of the last answer; rows below it are late."""
    excluded: Exclusion | None = None
    """Set if the watermark advances without the writer."""
    late_rows: int = 0
    """The number of late rows reported since the client was created."""


class Posting:
    """The state of posting one outbox; threads that share it need a lock.

    `now` is in seconds of a monotonic clock. `beat` is called once per period, before notes are
    posted. `fenced` is called once another process has taken over the writer's name.
    """

    def __init__(  # noqa: PLR0913 - one per dependency
        self,
        outbox: Outbox,
        pace: Pace,
        notices: Notices,
        *,
        now: float,
        chance: Callable[[], float] = draw_chance,
        idle_after_ms: int | None = None,
        beat: Callable[[], None] | None = None,
        is_busy: Callable[[], bool] = lambda: False,
        on_fenced: Callable[[], None] = lambda: None,
    ) -> None:
        self.outbox = outbox
        self.notices = notices
        self.failure: NotedTimeError | None = None
        self.fault: BaseException | None = None
        self._pace = pace
        self._period_s = pace.note_period_ms / 1000
        self._chance = chance
        self._idle_after_s = None if idle_after_ms is None else idle_after_ms / 1000
        self._beat = beat
        self._is_busy = is_busy
        self._fenced = on_fenced
        self._next_beat = now + self._period_s
        self._last_call = now
        self.accepted_at = now
        self._failures = 0
        self._not_before = 0.0

    def record_call(self, now: float) -> None:
        self._last_call = now

    def wait_s(self, now: float) -> float | None:
        """Return the seconds until the next post, or `None` if a call must come first."""
        if self.outbox.fenced is not None:
            return None
        waits = [self._find_beat_s(now), self._find_idle_s(now)]
        if self.outbox:
            ready_s = self._not_before - now
            if ready_s <= 0:
                return 0.0
            waits.append(ready_s)
        return min((max(wait, 0.001) for wait in waits if wait is not None), default=None)

    def hurry(self) -> None:
        if not isinstance(self.failure, Unreachable):
            self.failure = None
            self._not_before = 0.0

    def _find_beat_s(self, now: float) -> float | None:
        if self._beat is None:
            return None
        if now >= self._next_beat:
            self._next_beat = now + self._period_s
            try:
                self._beat()
            except Exception as error:  # noqa: BLE001 - the caller's clock may raise anything
                refusal = Rejected(f"the clock could not be noted: {error}")
                self.outbox.queue_refusal(refusal)
                self.notices.report_refusal(refusal)
        return self._next_beat - now

    def _find_idle_s(self, now: float) -> float | None:
        """Return the seconds until the writer is idle, or `None` if it never is or is already."""
        after_s = self._idle_after_s
        if after_s is None or self.outbox.state != "live":
            return None
        if self._is_busy():
            self._last_call = now
        if now >= self._last_call + after_s:
            self.outbox.change_state("idle", {})
            return None
        return self._last_call + after_s - now

    def look_up_ends(self, answer: NotesReply) -> NotesReply:
        """Call it without the lock, because it reads files."""
        first = answer.results[0]
        if not isinstance(first, Accepted):
            return answer
        noted_position = first.position or {}
        found_positions = tuple(look_up(noted_position) for look_up in self.outbox.beginning)
        return replace(answer, found=found_positions)

    def settle(self, batch: Batch, outcome: NotesReply | Exception, now: float) -> None:
        if isinstance(outcome, NotedTimeError):
            self._record_failure(batch, outcome, now)
        elif isinstance(outcome, Exception):
            sentence = f"{type(outcome).__name__}: {outcome}"
            self._record_failure(batch, Unreachable(sentence), now)
        else:
            self._record_answer(batch, outcome, now)

    def _record_answer(self, batch: Batch, answer: NotesReply, now: float) -> None:
        outbox = self.outbox
        notices = self.notices
        refusals = outbox.record_answer(batch, answer)
        self._failures = 0
        self.failure = None
        self._not_before = now + self._pace.linger_ms / 1000
        notices.report_recovery(now)
        if answer.contact_refusal is not None:
            notices.warn_of_contact(answer.contact_refusal)
        if all(isinstance(result, Accepted) for result in answer.results):
            self.accepted_at = now
            notices.reset_refusals()
        for refusal in refusals:
            notices.report_refusal(refusal)
        if outbox.taken_again is not None:
            notices.warn_of_takeover(outbox.taken_again)
            outbox.taken_again = None
        if outbox.fenced is not None:
            self._fenced()
            notices.report_refusal(outbox.fenced)
        while outbox.held_back:
            notices.warn_of_held_back(outbox.held_back.pop(0))
        notices.report_exclusion(outbox.excluded)

    def _record_failure(self, batch: Batch, error: NotedTimeError, now: float) -> None:
        if isinstance(error, Rejected) and not isinstance(error, RECOVERABLE_REFUSALS):
            self.outbox.drop_batch(error)
            self.notices.report_refusal(error)
        else:
            self.outbox.put_back(batch)
            self.notices.report_failure(error, now)
        self._failures += 1
        self.failure = error
        self._not_before = now + delay_s(self._pace.backoff, self._failures, error, self._chance())

    def record_fault(self, fault: BaseException) -> None:
        self.fault = fault
        self.notices.report_fault(fault)

    def check(self) -> None:
        refusal = self.outbox.fenced
        if refusal is not None:
            raise refusal
        if self.fault is not None:
            message = (
                f"the client of writer {self.outbox.writer!r} failed and no longer sends: "
                f"{type(self.fault).__name__}: {self.fault}"
            )
            raise ClientFailed(message) from self.fault

    def is_settled(self, ticket: int) -> bool:
        """Return whether the calls up to a ticket have an outcome, perhaps an error."""
        if self.fault is not None or self.outbox.fenced:
            return True
        if isinstance(self.failure, RECOVERABLE_REFUSALS):
            return True
        return self.outbox.durable_through >= ticket

    def get_outcome(self, ticket: int, timeout_s: float) -> Flushed:
        self.check()
        outbox = self.outbox
        refusal = outbox.pop_refused()
        if refusal is not None:
            raise refusal
        if isinstance(self.failure, RECOVERABLE_REFUSALS):
            raise self.failure
        if outbox.durable_through < ticket:
            message = f"not durable within {round(timeout_s, 1):g} s: {self.failure or 'no answer'}"
            raise Unreachable(message) from self.failure
        return Flushed(outbox.lower(outbox.vouched.last_domain), outbox.excluded, outbox.late_rows)

    def report_unsent(self) -> None:
        outbox = self.outbox
        unsent = outbox.last_ticket - outbox.durable_through
        last = outbox.vouched.get_time(outbox.vouched.last_domain)
        self.notices.report_unsent(unsent, last, self.fault or self.failure, outbox.late_rows)
