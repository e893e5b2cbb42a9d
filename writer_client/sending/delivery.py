"""Which notes of a producer may leave: those whose events, and all before them, are delivered.

A producer of a log learns an event's offset when its delivery is reported, long after it was
produced, and a transaction may still take the event back. So the events between two notes form an
*epoch*, and a note leaves when its epoch and all before it are delivered and committed. Nothing
here knows the log: Kafka's clients report to it, and so may any other.
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
from writer_client.sending.producer_state import BETWEEN_TRANSACTIONS, IN_TRANSACTION, ProducerState
from writer_client.sending.vouched import EMPTY_POSITION, LateHours, check_int64
from writer_client.sending.writer import Writer

NO_EVENT_TIME = MIN_INT64
"""Below all event times."""


OnFailure = Literal["raise", "hold"]
"""What `forgive` does with the notes that were held: `raise` drops them, `hold` has them leave.

A program that handles failures in a callback has produced those events again by then. One that
catches the error calls `forgive` first, produces them again, and then notes again.
"""


class Resting(Rejected):
    """The writer is idle or finished: it has to join before it produces."""


class EventTimes:
    """The largest of some events' times of one domain, and those events that are late."""

    __slots__ = ("largest", "late")

    def __init__(self) -> None:
        self.largest = NO_EVENT_TIME
        self.late = LateHours()

    def add(self, time: Time, late_below: int) -> None:
        """Count an event that is about to be produced."""
        self.largest = max(self.largest, unix_ms_of(time, up=True))
        least = unix_ms_of(time)
        if least < late_below:
            self.late.add(LateRows(1, least, least))

    def join(self, other: EventTimes) -> None:
        """Add those of another, which has no late ones then."""
        self.largest = max(self.largest, other.largest)
        for each in other.late.take():
            self.late.add(each)


class Epoch:
    """The events between two notes, or those of one transaction; `times` and `notes` by domain.

    `on_delivery` is the callback for its events with confluent's clients: one object for all, as
    one for each would keep the garbage collector busy (0.6 µs an event). With other clients, call
    `delivered` or `failed`. None of them raises. They take no lock, so only one thread at a time
    may report.
    """

    __slots__ = (
        "_tracker",
        "arrived",
        "ends",
        "failures",
        "is_unplaced",
        "notes",
        "on_delivery",
        "own",
        "sent",
        "times",
    )

    def __init__(self, tracker: DeliveryTracker) -> None:
        self.on_delivery: Callable[[object | None, Any], None] = self._report
        self._tracker = tracker
        self.sent = self.arrived = self.failures = 0
        self.ends: dict[int, int] = {}
        self.own = EventTimes()
        """The times of the domain that `event_time` is of."""
        self.times = {tracker.domain: self.own}
        self.notes: dict[str | None, int] = {}
        self.is_unplaced = False

    def times_of(self, domain: str | None) -> EventTimes:
        """Return the times of a domain, to add to them."""
        return self.times.setdefault(domain, EventTimes())

    def _report(self, error: object | None, message: Any) -> None:  # noqa: ANN401 - confluent's
        """Record what confluent's client reports of an event."""
        segment, offset = message.partition(), message.offset()
        if error is not None:
            self.failed(error)
        elif offset is not None and offset >= self.ends.get(segment, 0):
            self.ends[segment] = offset + 1  # as `delivered`, with a call less for each event
            self.arrived += 1
        else:
            self.delivered(segment, offset)

    def delivered(self, segment: int | None, offset: int | None) -> None:
        """Record that an event was delivered, with its own offset.

        Kafka does not say the offset (-1001) of an event whose retry met the first attempt.
        """
        if segment is None or offset is None or offset < 0:
            self._tracker.unplaced(self)
            return
        if offset >= self.ends.get(segment, 0):
            self.ends[segment] = offset + 1
        else:
            self.is_unplaced = True  # the log may be another one
        self.arrived += 1  # last: an epoch that is complete has its ends

    def failed(self, error: object) -> None:
        """Record that an event was not delivered, and will not be."""
        self._tracker.fail(self, error)


class DeliveryTracker:
    """Notes time through `client` once what was produced before each note is delivered.

    Ask `produced` for the epoch of each event *before* it is given to the producer, have its
    delivery reported to that epoch, and call `settle` after deliveries were reported: it notes all
    that may leave. The laws, for any order of calls from any threads:

    * a note that leaves covers every event produced before it, except aborted ones;
    * positions and times never go back;
    * nothing leaves while a transaction is open or its outcome unknown, or while the failure of an
      event is not forgiven.

    The segments are the log's partitions. Begin the client (`Writer.begin`) at the ends of those
    that are written to: a position has only what this process wrote. `look_again` is called if an
    event was delivered at an unknown offset, or below one that was noted: another thread was first,
    or the log is another one. It has to `begin` the client again, before anything else is noted.
    Without it, an event at an unknown offset counts as failed.

    `domain` names the time domain, or several: the first is the one that is meant where none is
    named.
    """

    def __init__(
        self,
        client: Writer[Any],
        *,
        domain: str | Sequence[str] | None = None,
        look_again: Callable[[], object] | None = None,
        on_failure: OnFailure = "hold",
        phase: ProducerState = ProducerState.CLEAR,
    ) -> None:
        self.lock = threading.RLock()
        """Held by each call; while it is held, no other thread produces or notes."""
        self._client = client
        self._domains: tuple[str | None, ...] = (
            (domain,) if domain is None or isinstance(domain, str) else tuple(domain)
        )
        self.domain = self._domains[0]
        """The domain that is meant where none is named."""
        self.knows_all = True
        """Whether the times of all events below the position are known, also of other domains."""
        self._look_again = look_again
        self.raises = on_failure == "raise"
        self._open = Epoch(self)
        self._epochs = deque([self._open])
        self.phase = phase
        self.rests = False
        """Whether the writer left: `produced` refuses events until that is reset, after a join."""
        self.placing: set[object] = set()
        """The calls that are about to count an event, or to give one to the producer."""
        self._doubtful = self._open
        self._noted: dict[str | None, int] = {}
        self._left: dict[str | None, int] = {}
        self.failed, self._reason = 0, ""
        self._settled = Epoch(self)
        self._counted = 0
        self._late_below = self._find_late_below(self.domain)

    # Events

    def produced(
        self, event_time: int | None = None, others: Mapping[str, Time] | None = None
    ) -> Epoch:
        """Count an event that is about to be produced, and return the epoch that it belongs to.

        `event_time` in ms counts for the largest event time of the next note, and `others` for that
        of other domains. An event below a time noted before, or below the stream's lower, is
        counted as late. Raises `Resting` while the writer `rests`, and as `check_times`.
        """
        with self.lock:
            if self.rests:
                raise Resting(f"writer {self._client.writer!r} is idle or finished: join first")
            if others:
                self.check_times(others)
            epoch = self._open
            epoch.sent += 1
            if event_time is not None:
                own = epoch.own
                if event_time > own.largest:  # noqa: PLR1730 - `max` would take twice as long
                    own.largest = event_time
                if event_time < self._late_below:
                    own.late.add(LateRows(1, event_time, event_time))
            if others:
                for domain, time in others.items():
                    epoch.times_of(domain).add(time, self._find_late_below(domain))
        return epoch

    def check_times(self, times: Mapping[str, Time]) -> None:
        """Raise `Rejected` for times of domains that are not the tracker's, or outside int64."""
        for domain, time in times.items():
            self._resolve_domain(domain)
            check_int64("event time", unix_ms_of(time))

    def _resolve_domain(self, domain: str | None) -> str | None:
        """Return a domain, the first if none is named."""
        if domain is None or domain in self._domains:
            return domain or self.domain
        known = ", ".join(map(repr, self._domains)) if self.domain else "one without a name"
        raise Rejected(
            f"writer {self._client.writer!r} has no domain {domain!r}: it is created for {known}; "
            "name all in domain="
        )

    def stamped(
        self, clock: Callable[[], int], others: Mapping[str, Time] | None = None
    ) -> tuple[Epoch, int]:
        """Count an event of the present, and return its epoch and its time.

        That is the clock's, or the last time noted while the clock is behind it: so no event that
        is stamped here is below a note, however long it is under way. Raises as `produced`.
        """
        with self.lock:
            now, last = clock(), self.time
            stamp = now if last is None else max(now, last)
            return self.produced(stamp, others), stamp

    def refused(self, epoch: Epoch) -> None:
        """Take back an event that the producer did not accept."""
        with self.lock:
            epoch.sent -= 1

    def resolve(self, queued: Callable[[], int]) -> None:
        """Resolve the events of which no report will come, if none is `queued` in the producer.

        A signal handler raised inside the call that produced such an event, or inside its report:
        it was never taken, or it lies at an unknown offset. No report may be under way in another
        thread.
        """
        with self.lock:
            if self.placing or not self.under_way or queued():  # in this order
                return
            for epoch in self._epochs:
                left = epoch.sent - epoch.arrived - epoch.failures
                epoch.sent -= left
                epoch.is_unplaced = epoch.is_unplaced or left > 0

    @property
    def under_way(self) -> int:
        """How many events are neither delivered nor failed."""
        with self.lock:
            return sum(each.sent - each.arrived - each.failures for each in self._epochs)

    # Notes

    @property
    def time(self) -> int | None:
        """The last time noted of the first domain; see `last_time`."""
        return self.last_time()

    def last_time(self, domain: str | None = None) -> int | None:
        """Return the last time noted, whether it has left or not, also by an earlier process."""
        domain = self._resolve_domain(domain)
        with self.lock:
            known = self._client.known_time(domain)
            times = (self._open.notes.get(domain), self._find_last_noted(domain), known)
        return max((time for time in times if time is not None), default=None)

    @property
    def is_waiting(self) -> bool:
        """Whether notes wait for nothing but deliveries."""
        with self.lock:
            return len(self._epochs) > 1 and self.phase in BETWEEN_TRANSACTIONS and not self.failed

    def note(self, time: Time, domain: str | None = None) -> None:
        """Promise that all events with a time of `domain` below `time` were produced by now.

        Of several notes in a transaction the last counts, and covers all of its events. Raises
        `InvalidNote` if time goes back, and `Rejected` for a domain that is not the tracker's.
        """
        time, domain = unix_ms_of(time), self._resolve_domain(domain)
        check_int64("time", time)
        with self.lock:
            last = self.last_time(domain)
            if last is not None and time < last:
                raise InvalidNote(self._client.writer, "invalid_time", last)
            if self.phase in IN_TRANSACTION:
                self._open.notes[domain] = time
                return
            self._noted[domain] = time
            if self._open.sent or len(self._epochs) == 1:
                self._close({domain: time})
            else:
                self._epochs[-2].notes[domain] = time
            self.settle()

    def settle(self) -> None:
        """Note all that may leave; raises what `Writer.note_time` raises."""
        with self.lock:
            epochs = self._epochs
            while self.is_waiting and epochs[0].arrived == epochs[0].sent:
                epoch = epochs[0]
                self._settle(epoch)
                if epochs[0] is epoch:  # a signal handler may have called this meanwhile, or raise
                    epochs.popleft()
            self._late_below = self._find_late_below(self.domain)

    def _find_last_noted(self, domain: str | None) -> int | None:
        """Return the last time noted, unless it has left and was refused as too far ahead."""
        noted = self._noted.get(domain)
        return self._client.noted_time(domain) if noted == self._left.get(domain) else noted

    def _find_late_below(self, domain: str | None) -> int:
        """Return the time below which events are late: readers need not wait for them.

        What failed is produced again before the notes that are held for it leave.
        """
        noted = None if self.failed else self._find_last_noted(domain)
        times = (noted, self._client.late_below(domain))
        return max((time for time in times if time is not None), default=NO_EVENT_TIME)

    def report(self) -> None:
        """Report what was delivered and not noted: late rows are known without a further note."""
        with self.lock:
            if self.phase in BETWEEN_TRANSACTIONS:
                self._close({})
                self.settle()
                self._report(self._settled.sent)

    def ends(self) -> dict[int, int]:
        """Return the ends of what was delivered and not noted, for `idle` and `finish`.

        Raises `DeliveryFailed` after failures, and `Rejected` in a transaction, before its outcome
        is known, or while events are under way.
        """
        with self.lock:
            self.check()
            if self.phase in IN_TRANSACTION:
                raise Rejected("a transaction is open: commit or abort it first")
            if self.phase is ProducerState.UNRESOLVED:
                raise Rejected("whether the last transaction was committed is unknown: find out")
            if self.under_way:
                raise Rejected(
                    f"not delivered yet: {pluralize(self.under_way, 'event')}; flush first"
                )
            self._close({})
            self.settle()
            ends = self._settled.ends
            self._report(self._settled.sent)
            position = self._client.position
            return {segment: position[segment] for segment in ends}

    # Transactions

    def move(self, to: ProducerState) -> None:
        """Move to another phase, by the table of `ProducerState`; nothing leads out of CLOSED."""
        with self.lock:
            if self.phase is not ProducerState.CLOSED:
                self.phase = to

    def begin(self) -> None:
        """Begin a transaction; what is produced from here on belongs to it.

        If the outcome of the last one was unknown, it was committed: call `abort` first if not.
        """
        with self.lock:
            self.move(ProducerState.OPEN)
            self._close({})

    def commit(self, *, is_certain: bool = True) -> None:
        """End the transaction; its notes leave when all of its events are delivered.

        If the outcome `is_certain` not, they are dropped, and the next one covers its events. It
        leaves after `begin`, or a `commit` or `abort` that is certain, says what the outcome was.
        """
        with self.lock:
            was_open = self.phase in IN_TRANSACTION
            self.move(ProducerState.CLEAR if is_certain else ProducerState.UNRESOLVED)
            if not is_certain:
                self._doubtful, self._open.notes = self._open, {}
                self._open = Epoch(self)
                self._epochs.append(self._open)
            elif was_open:
                self._noted |= self._open.notes
                self._close(self._open.notes)
            self.settle()

    def abort(self, *, is_certain: bool = True) -> None:
        """Drop what was produced and noted in the transaction, and what was noted since its commit.

        Clients report offsets of aborted events too, possibly later: they are ignored. If the
        outcome `is_certain` not, nothing begins before the log has aborted the transaction.
        """
        with self.lock:
            if self.phase not in (*IN_TRANSACTION, ProducerState.UNRESOLVED):
                return
            aborted = self._doubtful if self.phase is ProducerState.UNRESOLVED else self._open
            at = self._epochs.index(aborted)
            self.failed -= aborted.failures
            self._epochs[at] = Epoch(self)
            self._open = self._epochs[-1]
            for epoch in list(self._epochs)[at:]:
                epoch.notes = {}
            self._noted = self._find_last_held()
            self.move(ProducerState.ABORTED if is_certain else ProducerState.UNABORTED)
            self.settle()

    # Failures

    def fail(self, epoch: Epoch, error: object) -> None:
        """Count the failure of an event; `Epoch.failed` calls it."""
        with self.lock:
            if epoch in self._epochs:  # else its transaction was aborted
                self._reason = self._reason if self.failed else str(error)
                epoch.failures += 1
                self.failed += 1
                self._late_below = self._find_late_below(self.domain)

    def unplaced(self, epoch: Epoch) -> None:
        """Count an event that was delivered at an unknown offset; `Epoch.delivered` calls it."""
        if self._look_again is None:
            self.fail(epoch, "delivered at an unknown offset")
        else:
            epoch.is_unplaced = True
            epoch.arrived += 1

    @property
    def failure(self) -> DeliveryFailed | None:
        """The error for events that failed and were not forgiven, `None` without any."""
        with self.lock:
            if not self.failed:
                return None
            about = self._client.writer, self.failed, self._reason
            aborts = self.phase in IN_TRANSACTION
            return DeliveryFailed(*about, is_aborted=aborts, drops_notes=self.raises)

    def check(self) -> None:
        """Raise `DeliveryFailed` if events failed and that was not forgiven."""
        failure = self.failure
        if failure is not None:
            raise failure

    def forgive(self) -> None:
        """Forget failures: the events were produced again by now, or never will be.

        All notes since the first failure wait for what was produced until now, as one. With
        `on_failure="raise"` they are dropped: note again once the events were produced again.
        """
        with self.lock:
            held = list(dropwhile(lambda epoch: not epoch.failures, self._epochs))
            notes: dict[str | None, int] = {}
            for epoch in held:
                notes |= {} if self.raises else epoch.notes
                epoch.sent -= epoch.failures
                epoch.failures, epoch.notes = 0, {}
            self.failed = 0
            if self.phase is ProducerState.ABORTED:
                self.move(ProducerState.CLEAR)
            if notes and self.phase in IN_TRANSACTION:
                self._open.notes = notes
            elif notes:
                self._close(notes)
            elif self.raises:
                self._noted = self._find_last_held()
            self.settle()

    def _find_last_held(self) -> dict[str | None, int]:
        """Return the last times that are held, or have left."""
        held = dict(self._left)
        for epoch in self._epochs:
            held |= epoch.notes
        return held

    # How epochs end

    def _close(self, notes: dict[str | None, int]) -> None:
        """End the open epoch, unless it is empty, and begin the next."""
        self._open.notes = notes
        if self._open.sent or notes:
            self._open = Epoch(self)
            self._epochs.append(self._open)

    def _settle(self, epoch: Epoch) -> None:
        """Add a delivered epoch to what was not noted yet, and note its time."""
        settled = self._settled
        if self._look_again is not None and (epoch.is_unplaced or self._has_gone_back(epoch.ends)):
            self._look_again()
        join_into(settled.ends, epoch.ends)
        settled.sent += epoch.sent
        for domain, times in epoch.times.items():
            settled.times_of(domain).join(times)
        if epoch.notes:
            self._report(settled.sent)
        for domain, time in epoch.notes.items():
            self._client.note_time(time, EMPTY_POSITION, domain=domain)
            self._left[domain] = time

    def _has_gone_back(self, ends: dict[int, int]) -> bool:
        """Whether the ends are below those of earlier epochs."""
        return bool(
            find_behind(ends, self._client.position) or find_behind(ends, self._settled.ends)
        )

    @property
    def rows(self) -> int:
        """How many events were produced."""
        with self.lock:
            return self._settled.sent + sum(each.sent for each in self._epochs)

    def count_rows(self) -> None:
        """Report all rows produced to the client, for the error that says it is fenced."""
        with self.lock:
            self._report_rows(self.rows)

    def _report(self, rows: int) -> None:
        """Report to the client all that is settled, of which there are that many rows in all.

        Positions are joined: threads may send events in another order than they were counted in.
        """
        settled, largest = self._settled, {}
        for domain, times in settled.times.items():
            if times.largest != NO_EVENT_TIME and (self.knows_all or domain == self.domain):
                largest[domain] = min(times.largest, LARGEST_TIME)
            times.largest = NO_EVENT_TIME
        own = largest.pop(self.domain, None)
        for domain, time in largest.items():  # before the position that they are to bound
            self._client.wrote(time, domain=domain, rows=0)
        if settled.ends or own is not None:
            self._client.wrote(own, domain=self.domain, position=settled.ends, rows=0)
            settled.ends = {}
        self._report_rows(rows)

    def _report_rows(self, rows: int) -> None:
        """Report how many rows were written in all, and those settled that are late."""
        new, self._counted = max(0, rows - self._counted), max(self._counted, rows)
        if new:
            self._client.wrote(rows=new)
        for domain, times in self._settled.times.items():
            for each in times.late.take():
                self._client.wrote_late(each.rows, each.least, each.most, domain=domain)
