"""Sends the notes of an asynchronous producer after the delivery of their events.

The events between two notes form an *epoch*. A note waits until its epoch and all earlier ones are
delivered and committed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Literal

from noted_time.values import (
    LARGEST_TIME,
    MIN_INT64,
    DeliveryFailed,
    InvalidNote,
    LateRows,
    Rejected,
    Time,
    find_behind,
    join_into,
    pluralize,
    unix_ms_of,
)
from writer_client.sending.producer_state import (
    BETWEEN_TRANSACTIONS,
    IN_TRANSACTION,
    Event,
    ProducerState,
    advance,
)
from writer_client.sending.vouched import EMPTY_POSITION, LateHours, check_int64
from writer_client.sending.writer import Writer, get_inner_writer

NO_EVENT_TIME = MIN_INT64


OnFailure = Literal["raise", "keep"]


class Resting(Rejected):
    """The writer is idle or finished, and must join before it produces."""


class EventTimes:
    """The largest event time of some events in one domain, and their late events."""

    __slots__ = ("largest", "late")

    def __init__(self) -> None:
        self.largest = NO_EVENT_TIME
        self.late = LateHours()

    def add(self, time: Time, late_below: int) -> None:
        self.largest = max(self.largest, unix_ms_of(time, up=True))
        time_ms = unix_ms_of(time)
        if time_ms < late_below:
            self.late.add(LateRows(1, time_ms, time_ms))

    def join(self, other: EventTimes) -> None:
        self.largest = max(self.largest, other.largest)
        for late_rows in other.late.take():
            self.late.add(late_rows)


class DeliveryEpoch:
    """The events between two notes, or the events of one transaction.

    All events have one callback, `on_delivery`, which keeps the garbage collector idle. It takes no
    lock, so only one thread may report at a time.
    """

    __slots__ = (
        "_tracker",
        "arrived",
        "default_times",
        "ends",
        "failures",
        "is_unplaced",
        "notes",
        "on_delivery",
        "sent",
        "times",
    )

    def __init__(self, tracker: DeliveryTracker) -> None:
        self.on_delivery: Callable[[object | None, Any], None] = self._report
        self._tracker = tracker
        self.sent = 0
        self.arrived = 0
        self.failures = 0
        self.ends: dict[int, int] = {}
        self.default_times = EventTimes()
        self.times = {tracker.domain: self.default_times}
        self.notes: dict[str | None, int] = {}
        self.is_unplaced = False

    def times_of(self, domain: str | None) -> EventTimes:
        return self.times.setdefault(domain, EventTimes())

    def _report(self, error: object | None, message: Any) -> None:  # noqa: ANN401 - confluent's
        segment = message.partition()
        offset = message.offset()
        if error is not None:
            self.failed(error)
        elif offset is not None and offset >= self.ends.get(segment, 0):
            self.ends[segment] = offset + 1  # inlined from `delivered`, to save a call per event
            self.arrived += 1
        else:
            self.delivered(segment, offset)

    def delivered(self, segment: int | None, offset: int | None) -> None:
        """Record a delivery; Kafka reports -1001 if an event's first attempt had succeeded."""
        if segment is None or offset is None or offset < 0:
            self._tracker.unplaced(self)
            return
        if offset >= self.ends.get(segment, 0):
            self.ends[segment] = offset + 1
        else:
            self.is_unplaced = True  # it may be another log
        self.arrived += 1  # last, so that a complete epoch has its ends

    def failed(self, error: object) -> None:
        self._tracker.fail(self, error)


class DeliveryTracker:
    """Sends the notes of a producer after the delivery of the events before them.

    Call `produced` *before* each event is given to the producer, and report the delivery to its
    epoch. `settle` then sends the notes that are ready.

    For any order of calls from any threads:

    * A note covers every event produced before it, except aborted events.
    * Positions and times never go back.
    * No note is sent while a transaction is open, its outcome is unknown, or a failed event is not
      forgiven.

    A position has only the events of this process, so begin the client at the ends of the
    partitions. If an offset is unknown or below the noted position, `look_again` must `begin` it
    again. Without `look_again`, an event with an unknown offset counts as failed.

    Of several domains, the first is the default.
    """

    def __init__(
        self,
        client: Writer[Any],
        *,
        domain: str | Sequence[str] | None = None,
        look_again: Callable[[], object] | None = None,
        on_failure: OnFailure = "keep",
    ) -> None:
        self.lock = threading.RLock()  # while held, no other thread produces or notes
        self._client = client
        self._inner = get_inner_writer(client)
        self._domains: tuple[str | None, ...]
        if domain is None or isinstance(domain, str):
            self._domains = (domain,)
        else:
            self._domains = tuple(domain)
        self.domain = self._domains[0]
        self.knows_all = True  # whether event times below the position are known in all domains
        self._look_again = look_again
        self.raises = on_failure == "raise"
        self._open_epoch = DeliveryEpoch(self)
        self._epochs = deque([self._open_epoch])
        self.phase = ProducerState.CLEAR
        self.rests = False
        self.placing: set[object] = set()  # calls that are producing an event
        self._transaction = self._open_epoch  # the epoch of the last one
        self._noted_times: dict[str | None, int] = {}
        self._sent_times: dict[str | None, int] = {}
        self.failed = 0
        self._reason = ""
        self._totals = DeliveryEpoch(self)  # of all delivered epochs
        self._reported_rows = 0
        self._late_below = self._find_late_below(self.domain)

    def produced(
        self, event_time: int | None = None, other_times: Mapping[str, Time] | None = None
    ) -> DeliveryEpoch:
        """Count an event that is about to be produced, and return its epoch.

        `event_time` is in ms and of the first domain. Raises `Resting` while the writer `rests`.
        """
        with self.lock:
            if self.rests:
                raise Resting(f"writer {self._client.writer!r} is idle or finished: join first")
            if other_times:
                self.check_times(other_times)
            epoch = self._open_epoch
            epoch.sent += 1
            if event_time is not None:
                default_times = epoch.default_times
                if event_time > default_times.largest:  # noqa: PLR1730 - `max` would take twice as long
                    default_times.largest = event_time
                if event_time < self._late_below:
                    default_times.late.add(LateRows(1, event_time, event_time))
            if other_times:
                for domain, time in other_times.items():
                    epoch.times_of(domain).add(time, self._find_late_below(domain))
        return epoch

    def check_times(self, times: Mapping[str, Time]) -> None:
        """Raise `Rejected` if a domain is not the tracker's or a time is outside int64."""
        for domain, time in times.items():
            self._resolve_domain(domain)
            check_int64("event time", unix_ms_of(time))

    def _resolve_domain(self, domain: str | None) -> str | None:
        if domain is None or domain in self._domains:
            return domain or self.domain
        names = "one without a name"
        if self.domain:
            names = ", ".join(repr(name) for name in self._domains)
        raise Rejected(
            f"writer {self._client.writer!r} has no domain {domain!r}: it is created for {names}; "
            "name all in domain="
        )

    def stamped(
        self, now: int, other_times: Mapping[str, Time] | None = None
    ) -> tuple[DeliveryEpoch, int]:
        """Count an event that happens `now`, and return its epoch and its time.

        If the last noted time is later, this is the event's time, so that it is not late.
        """
        with self.lock:
            last = self.last_time()
            stamp = now if last is None else max(now, last)
            return self.produced(stamp, other_times), stamp

    def refused(self, epoch: DeliveryEpoch) -> None:
        """Remove an event that the producer did not accept."""
        with self.lock:
            epoch.sent -= 1

    def resolve(self, count_queued: Callable[[], int]) -> None:
        """Resolve events whose report a signal handler's exception prevented.

        The producer must have none queued, as `count_queued` says, and no other thread may report
        deliveries meanwhile.
        """
        with self.lock:
            if self.placing or not self.under_way or count_queued():  # keep this order
                return
            for epoch in self._epochs:
                lost_count = epoch.sent - epoch.arrived - epoch.failures
                epoch.sent -= lost_count
                epoch.is_unplaced = epoch.is_unplaced or lost_count > 0

    @property
    def under_way(self) -> int:
        """The number of events without an outcome."""
        with self.lock:
            return sum(epoch.sent - epoch.arrived - epoch.failures for epoch in self._epochs)

    def last_time(self, domain: str | None = None) -> int | None:
        """Return the last noted time of a domain, even by an earlier process."""
        domain = self._resolve_domain(domain)
        with self.lock:
            known_time = self._inner.find_known_time(domain)
            times = (self._open_epoch.notes.get(domain), self._find_last_noted(domain), known_time)
        return max((time for time in times if time is not None), default=None)

    @property
    def is_waiting(self) -> bool:
        """Whether notes wait only for deliveries."""
        with self.lock:
            return len(self._epochs) > 1 and self.phase in BETWEEN_TRANSACTIONS and not self.failed

    def note(self, time: Time, domain: str | None = None) -> None:
        """Note that all events with a time of `domain` below `time` were produced before this call.

        Only the last note of a transaction counts. Raises `InvalidNote` if the time goes back, and
        `Rejected` for an unknown domain.
        """
        time = unix_ms_of(time)
        domain = self._resolve_domain(domain)
        check_int64("time", time)
        with self.lock:
            last = self.last_time(domain)
            if last is not None and time < last:
                raise InvalidNote(self._client.writer, "invalid_time", last)
            if self.phase in IN_TRANSACTION:
                self._open_epoch.notes[domain] = time
                return
            self._noted_times[domain] = time
            if self._open_epoch.sent or len(self._epochs) == 1:
                self._close({domain: time})
            else:
                self._epochs[-2].notes[domain] = time
            self.settle()

    def settle(self) -> None:
        """Send all notes that are ready."""
        with self.lock:
            epochs = self._epochs
            while self.is_waiting and epochs[0].arrived == epochs[0].sent:
                epoch = epochs[0]
                self._settle(epoch)
                if epochs[0] is epoch:  # unless a signal handler settled it
                    epochs.popleft()
            self._late_below = self._find_late_below(self.domain)

    def _find_last_noted(self, domain: str | None) -> int | None:
        time = self._noted_times.get(domain)
        if time == self._sent_times.get(domain):  # the client may have taken it back
            return self._inner.find_noted_time(domain)
        return time

    def _find_late_below(self, domain: str | None) -> int:
        last_time = None if self.failed else self._find_last_noted(domain)
        times = (last_time, self._client.late_below(domain))
        return max((time for time in times if time is not None), default=NO_EVENT_TIME)

    def report(self) -> None:
        """Report delivered events that no note covers yet, so that late rows are known."""
        with self.lock:
            if self.phase in BETWEEN_TRANSACTIONS:
                self._close({})
                self.settle()
                self._report(self._totals.sent)

    def leave(self) -> None:
        """Report all events, before the writer becomes idle or finished.

        Raises `DeliveryFailed`, or `Rejected` while a transaction or an event is open.
        """
        with self.lock:
            self.check()
            advance(self.phase, "leave")
            if self.under_way:
                raise Rejected(
                    f"not delivered yet: {pluralize(self.under_way, 'event')}; flush first"
                )
            self.report()

    def begin(self) -> None:
        """Begin a transaction; the last one counts as committed unless it was aborted."""
        self.step("begin")

    def commit(self, *, is_certain: bool = True) -> None:
        """End the transaction; its notes are sent after the delivery of its events.

        With `is_certain=False`, its notes are dropped, and the next note covers its events.
        """
        self.step("commit")
        self.step("committed" if is_certain else "doubted")

    def abort(self) -> None:
        """Drop the events and notes of the transaction, and all notes since an uncertain commit."""
        self.step("aborted")

    def step(self, event: Event) -> None:
        """Change the phase as `advance` says, and do its action."""
        with self.lock:
            self.phase, action = advance(self.phase, event)
            if action == "cut":
                self._close({})
                self._transaction = self._open_epoch
            elif action == "send":
                self._noted_times |= self._open_epoch.notes
                self._close(self._open_epoch.notes)
            elif action == "keep":
                self._open_epoch.notes = {}
                self._open_epoch = DeliveryEpoch(self)
                self._epochs.append(self._open_epoch)
            elif action == "drop":
                self._drop_transaction()
            self.settle()

    def _drop_transaction(self) -> None:
        index = self._epochs.index(self._transaction)
        self.failed -= self._transaction.failures
        self._epochs[index] = DeliveryEpoch(self)
        self._open_epoch = self._epochs[-1]
        for epoch in list(self._epochs)[index:]:
            epoch.notes = {}
        self._noted_times = self._find_last_held()

    def fail(self, epoch: DeliveryEpoch, error: object) -> None:
        """Count a failed event."""
        with self.lock:
            if epoch in self._epochs:  # otherwise its transaction was aborted
                if not self.failed:
                    self._reason = str(error)
                epoch.failures += 1
                self.failed += 1
                self._late_below = self._find_late_below(self.domain)

    def unplaced(self, epoch: DeliveryEpoch) -> None:
        """Count an event delivered at an unknown offset."""
        if self._look_again is None:
            self.fail(epoch, "delivered at an unknown offset")
        else:
            epoch.is_unplaced = True
            epoch.arrived += 1

    @property
    def failure(self) -> DeliveryFailed | None:
        """The error for failed events that were not forgiven."""
        with self.lock:
            if not self.failed:
                return None
            return DeliveryFailed(
                self._client.writer,
                self.failed,
                self._reason,
                is_aborted=self.phase in IN_TRANSACTION,
                drops_notes=self.raises,
            )

    def check(self) -> None:
        """Raise the `failure`, if there is one."""
        failure = self.failure
        if failure is not None:
            raise failure

    def forgive(self) -> None:
        """Continue after failures: send the notes, or with `on_failure="raise"` drop them."""
        with self.lock:
            held_epochs = list(dropwhile(lambda epoch: not epoch.failures, self._epochs))
            notes: dict[str | None, int] = {}
            for epoch in held_epochs:
                if not self.raises:
                    notes |= epoch.notes
                epoch.sent -= epoch.failures
                epoch.failures = 0
                epoch.notes = {}
            self.failed = 0
            if notes and self.phase in IN_TRANSACTION:
                self._open_epoch.notes = notes
            elif notes:
                self._close(notes)
            elif self.raises:
                self._noted_times = self._find_last_held()
            self.step("forgiven")

    def _find_last_held(self) -> dict[str | None, int]:
        times = dict(self._sent_times)
        for epoch in self._epochs:
            times |= epoch.notes
        return times

    def _close(self, notes: dict[str | None, int]) -> None:
        self._open_epoch.notes = notes
        if self._open_epoch.sent or notes:
            self._open_epoch = DeliveryEpoch(self)
            self._epochs.append(self._open_epoch)

    def _settle(self, epoch: DeliveryEpoch) -> None:
        totals = self._totals
        if self._look_again is not None and (epoch.is_unplaced or self._has_gone_back(epoch.ends)):
            self._look_again()
        join_into(totals.ends, epoch.ends)
        totals.sent += epoch.sent
        for domain, times in epoch.times.items():
            totals.times_of(domain).join(times)
        if epoch.notes:
            self._report(totals.sent)
        for domain, time in epoch.notes.items():
            self._client.note_time(time, EMPTY_POSITION, domain=domain)
            self._sent_times[domain] = time

    def _has_gone_back(self, ends: dict[int, int]) -> bool:
        behind_client = find_behind(ends, self._client.position)
        behind_earlier_epochs = find_behind(ends, self._totals.ends)
        return bool(behind_client or behind_earlier_epochs)

    @property
    def rows(self) -> int:
        """The number of events produced so far."""
        with self.lock:
            return self._totals.sent + sum(epoch.sent for epoch in self._epochs)

    def count_rows(self) -> None:
        """Report the number of events to the client, for `Fenced`."""
        with self.lock:
            self._report_rows(self.rows)

    def _report(self, rows: int) -> None:
        totals = self._totals
        largest = {}
        for domain, times in totals.times.items():
            if times.largest != NO_EVENT_TIME and (self.knows_all or domain == self.domain):
                largest[domain] = min(times.largest, LARGEST_TIME)
            times.largest = NO_EVENT_TIME
        default_time = largest.pop(self.domain, None)
        for domain, time in largest.items():  # before the position, whose times they bound
            self._client.wrote(time, domain=domain, rows=0)
        if totals.ends or default_time is not None:
            self._client.wrote(default_time, domain=self.domain, position=totals.ends, rows=0)
            totals.ends = {}
        self._report_rows(rows)

    def _report_rows(self, rows: int) -> None:
        new_rows = max(0, rows - self._reported_rows)
        self._reported_rows = max(self._reported_rows, rows)
        if new_rows:
            self._client.wrote(rows=new_rows)
        for domain, times in self._totals.times.items():
            for late_rows in times.late.take():
                self._client.wrote_late(
                    late_rows.rows, late_rows.min_time, late_rows.max_time, domain=domain
                )
