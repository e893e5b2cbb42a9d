"""Merges the notes of a writer that the controller has not answered yet.

The latest note of a domain implies the earlier ones. So at most one note per domain and one change
of state are kept, under three rules:

* Each note has the writer's *whole* position, so it does not depend on merged notes.
* Notes are sent in the order of their latest calls, so positions never go back.
* A note without a time (joined, idle, finished) is sent last, and a later note replaces it. But the
  join of an unknown writer is always sent, because only a member can become idle or finished.

If a batch's outcome is unknown, its notes are merged with newer ones and sent again. Only late rows
may then be counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from noted_time.values import (
    MAX_NOTES_PER_REQUEST,
    MOST_LOG_FACTS,
    Accepted,
    Exclusion,
    Fenced,
    InvalidNote,
    LateRows,
    LogFact,
    Note,
    Refused,
    Rejected,
    Session,
    State,
    convert_position,
    find_gained,
    validate_name,
)
from writer_client.sending.answers import (
    FoundPosition,
    NotesReply,
    can_be_resent,
    find_current_session,
    is_too_far_ahead,
)
from writer_client.sending.pending_notes import Batch, PendingNote, PendingNotes
from writer_client.sending.vouched import HeldBack, NoteExtras, Process, VouchedTimes, check_int64

LookUp = Callable[[Mapping[int, int]], FoundPosition]

OFFSETS_PER_REQUEST = 20_000  # at most 45 bytes each, of 1 MiB

OFFSETS_PER_DOMAIN = 6  # take as many bytes as a domain with its largest event time


class Outbox:
    """The unanswered notes of one writer.

    >>> outbox = Outbox("UA")
    >>> for time, offset in ((5, 10), (7, 14)):
    ...     outbox.note(time, {0: offset})
    >>> outbox.change_state("idle", {})
    >>> batch = outbox.take()
    >>> [(p.note.time, dict(p.note.position), p.note.state) for p in batch]
    [(7, {0: 14}, 'live'), (None, {0: 14}, 'idle')]
    >>> from writer_client.sending.answers import NotesReply
    >>> outbox.record_answer(batch, NotesReply((Accepted(lower=4), Accepted(lower=4))))
    []
    >>> outbox.lower(None), outbox.durable_through
    (4, 3)
    """

    def __init__(
        self,
        writer: str,
        domains: Sequence[str] | None = None,
        timeout_ms: int | None = None,
        process: Process | None = None,
        contact: str | None = None,
    ) -> None:
        self.writer = validate_name("writer", writer)
        self.state: State = "finished"
        self.excluded: Exclusion | None = None
        self.vouched = VouchedTimes(writer, domains)
        self.written = 0
        self.beginning: tuple[LookUp, ...] = ()  # to call when the batch in flight is accepted
        self._extras = NoteExtras(domains, timeout_ms, process, contact)
        self._lowers: dict[str | None, int | None] = {}
        self._waiting = PendingNotes()
        self._in_flight: Batch = ()
        self.last_ticket = 0
        self._was_live = False
        self._is_known = False
        self._must_join = False
        self._is_awaited = False
        self.held_back: list[HeldBack] = []
        self._refused: dict[object, Rejected] = {}
        self._look_ups: list[LookUp] = []
        self._did_look_up: list[LookUp] = []
        self.taken_again: Session | None = None
        self._rows_covered = 0
        self._current_session: Session | None = None

    # Calls of the writer: each takes a ticket, to compare with `durable_through`

    def note(
        self,
        time: int,
        position: Mapping[int, int],
        *,
        domain: str | None = None,
        max_time: int | None = None,
    ) -> None:
        vouched_times = self.vouched
        vouched_times.check_time(time, domain)
        if max_time is not None:
            check_int64("max_time", max_time)
        earlier_position = vouched_times.position
        vouched_times.move(position)
        if max_time is not None:
            vouched_times.declare(domain, max_time, find_gained(position, earlier_position))
        vouched_times.note(time, domain)
        self.state = "live"
        self._was_live = True
        ticket = self.last_ticket + 1
        self.last_ticket = ticket
        note = Note(self.writer, time, vouched_times.position, domain)
        self._waiting.note(note, ticket, self.written)

    def begin(self, look_up: LookUp) -> None:
        """Join, and call `look_up` once no other process can note under the name."""
        if look_up not in self._look_ups[len(self.beginning) :]:  # one later call is enough
            self._look_ups.append(look_up)
        self.change_state("live", {})

    def report_no_time(self, reason: str | None) -> None:
        self._extras.no_time_reason = reason
        self.change_state("live", {})

    def report_facts(self, facts: Sequence[LogFact]) -> None:
        log_facts = tuple(facts[:MOST_LOG_FACTS])
        is_new = log_facts != self._extras.because
        self._extras.because = log_facts
        if is_new and self.state == "live":
            self.change_state("live", {})

    def record_write(
        self, event_time: int | None, domain: str | None, position: Mapping[int, int]
    ) -> None:
        vouched_times = self.vouched
        earlier_position = vouched_times.position
        vouched_times.learn(convert_position(position))
        if event_time is not None:
            vouched_times.declare(domain, event_time, find_gained(position, earlier_position))
        if self.state != "live":
            self.change_state("live", {})

    def count_late_rows(self, domain: str | None, rows: LateRows) -> None:
        self._extras.add(domain, rows)
        if domain not in self._waiting:
            self.change_state("live", {})

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Batch:
        if self._look_ups:
            return self._take_join()
        offsets_per_note = len(self.vouched.position) + OFFSETS_PER_DOMAIN * self.vouched.domains
        room = OFFSETS_PER_REQUEST // (offsets_per_note + 1)
        room = max(2, min(room, MAX_NOTES_PER_REQUEST))
        batch, change = self._waiting.take(room)
        if change is not None:
            batch += self._split_change(change, room - len(batch), follows=bool(batch))
        self._in_flight = tuple(self._complete(pending) for pending in batch)
        return self._in_flight

    def _complete(self, pending: PendingNote) -> PendingNote:
        note = self.vouched.add_max_times(pending.note)
        return replace(pending, note=self._extras.attach(note))

    def put_back(self, batch: Batch) -> None:
        """Put back a batch with an unknown outcome.

        A controller that has applied it refuses earlier positions than the last note's.
        """
        self._in_flight = ()
        begins = self._end_beginning()
        for pending in batch:
            note = replace(self._extras.detach(pending.note), position=batch[-1].note.position)
            if not begins:  # otherwise all notes are still waiting
                self._waiting.put_back(replace(pending, note=note))

    def set_log(self, log: str | None, *, observes: bool) -> None:
        self._extras.log = log
        self._extras.observes = observes

    def record_answer(self, batch: Batch, answer: NotesReply) -> list[Rejected]:
        """Apply an answer, and return the refusals to report.

        If another process has the writer's name, the results say nothing. This process then either
        takes the name over again, or drops all notes for good.
        """
        self._in_flight = ()
        session = find_current_session(answer)
        if session is not None and self._extras.takes_over_again(session):
            self.put_back(batch)
            self._look_ups = [*dict.fromkeys([*self._did_look_up, *self._look_ups])]
            self.taken_again = session
            return []
        self._current_session = session
        if session is not None:
            self._waiting = PendingNotes()
            self._look_ups = []
            self.beginning = ()
            return []
        if answer.declared:
            self.vouched.declared_domains = answer.declared
        begins = self._end_beginning()
        refusals = self._record_results(batch, answer)
        if begins:
            self._continue_from(answer.found)
        return refusals

    def _record_results(self, batch: Batch, answer: NotesReply) -> list[Rejected]:
        last_position = batch[-1].note.position if batch else {}
        acceptances = [result for result in answer.results if isinstance(result, Accepted)]
        if acceptances:
            exclusions = [acceptance.exclusion for acceptance in acceptances]
            self.excluded = next((exclusion for exclusion in exclusions if exclusion), None)
        has_join = any(pending.is_change and pending.note.state == "live" for pending in batch)
        refusals: list[Rejected] = []
        notes_ahead: list[PendingNote] = []
        for pending, result in zip(batch, answer.results, strict=True):
            if isinstance(result, Accepted):
                self._record_accepted(pending.note, result)
                self._rows_covered = max(self._rows_covered, pending.written)
                continue
            refused_note = replace(pending, note=self._extras.detach(pending.note))
            refusals += self._refuse(refused_note, result, last_position, has_join=has_join)
            if is_too_far_ahead(result) and not pending.is_change:
                notes_ahead.append(pending)
        self._rejoin(notes_ahead)
        return refusals

    def drop_batch(self, error: Rejected) -> None:
        self._in_flight = ()
        if self._end_beginning():
            self._waiting = PendingNotes()
        self.queue_refusal(error)

    def queue_refusal(self, error: Rejected) -> None:
        self._refused[type(error)] = error

    def _take_join(self) -> Batch:
        self.beginning = tuple(self._look_ups)
        note = self._extras.attach(Note(self.writer, domain=self.vouched.last_domain))
        self._in_flight = (PendingNote(note, self.last_ticket, self.last_ticket),)
        return self._in_flight

    def _end_beginning(self) -> bool:
        begins = bool(self.beginning)
        self.beginning = ()
        return begins

    def _continue_from(self, ends: tuple[FoundPosition, ...]) -> None:
        if not ends:
            self._waiting = PendingNotes()
        self._did_look_up = [*dict.fromkeys([*self._did_look_up, *self._look_ups[: len(ends)]])]
        del self._look_ups[: len(ends)]
        for found_position in ends:
            self.vouched.learn(found_position.position)
            for domain, time in found_position.max_times.items():
                with suppress(InvalidNote):
                    self.vouched.declare(domain, time)
        self._waiting.move(self.vouched.position)

    @property
    def fenced(self) -> Fenced | None:
        if self._current_session is None:
            return None
        return Fenced(self.writer, self._current_session, self.written - self._rows_covered)

    @property
    def takes_over(self) -> bool:
        return self._extras.takes_over

    @property
    def durable_through(self) -> int:
        """The last ticket before the oldest unanswered call."""
        tickets = self._waiting.first_tickets
        tickets += [pending.first_ticket for pending in self._in_flight]
        return min(tickets, default=self.last_ticket + 1) - 1

    @property
    def late_rows(self) -> int:
        return self._extras.total

    def lower(self, domain: str | None) -> int | None:
        return self._lowers.get(domain)

    def pop_refused(self) -> Rejected | None:
        if not self._refused:
            return None
        oldest_key = next(iter(self._refused))
        return self._refused.pop(oldest_key)

    def change_state(self, state: State, position: Mapping[int, int]) -> None:
        vouched_times = self.vouched
        vouched_times.move(position)
        self.state = state
        self._was_live = self._was_live or state == "live"
        ticket = self.last_ticket + 1
        self.last_ticket = ticket
        note = Note(self.writer, None, vouched_times.position, None, None, state)
        self._waiting.change(note, ticket, self.written)

    def _split_change(self, change: PendingNote, room: int, *, follows: bool) -> list[PendingNote]:
        """Return the notes of a change of state: one for each domain with late rows, at least one.

        An unknown writer joins first, unless the change `follows` other notes, which join it.
        """
        is_live = change.note.state == "live"
        is_member = self._is_known or follows
        notes: list[Note] = []
        if self._was_live and not is_live and (self._must_join or not is_member):
            notes.append(replace(change.note, state="live"))
        domains = self._extras.late_domains[: room - len(notes)]
        for domain in domains or [self.vouched.last_domain]:
            notes.append(replace(change.note, domain=domain))
        return [replace(change, note=note) for note in notes]

    def _record_accepted(self, note: Note, result: Accepted) -> None:
        is_live = note.state == "live"
        self._is_awaited = is_live
        self._extras.takes_over = False
        if result.took_over:
            self._extras.took_over = result.took_over
        if is_live:
            self._is_known = True
            self._must_join = False
            if note.time is None:
                self.vouched.known_times = result.times or {}
                self.vouched.known_timeout_ms = result.timeout_ms
        if result.position is not None:
            self.vouched.learn(result.position)
        self._lowers[note.domain] = result.lower

    def _refuse(
        self,
        pending: PendingNote,
        result: Refused,
        last_position: Mapping[int, int],
        *,
        has_join: bool,
    ) -> list[Rejected]:
        """Apply the refusal of a note, and return it unless the note is only sent again.

        `has_join` says whether the batch joined. The order of the steps matters:

        1. Refused event times are no longer declared, so a note that is sent again omits them.
        2. If nothing else was refused, the note is valid, and is sent again with any content.
        3. Otherwise only a change of state is sent again, in another form or after a join. A
           refused time is the caller's to note again.
        """
        note = pending.note
        unknown_domains = self._withdraw_event_times(note, result)
        if self._refuses_only_event_times(note, result):
            self._waiting.put_back(replace(pending, note=replace(note, position=last_position)))
            if not unknown_domains:
                return []
            return self._collect_refusals(pending, result)
        self._learn_from(note, result)
        may_join = self._was_live and not has_join
        if not pending.is_change or not can_be_resent(note, result, may_join=may_join):
            return self._collect_refusals(pending, result)
        self._waiting.put_back(pending)
        if _has_max_times(note):  # the caller learns of the declared times
            return self._collect_refusals(pending, result)
        return []

    def _withdraw_event_times(self, note: Note, result: Refused) -> list[str]:
        """Stop declaring refused event times, and return the domains that are unknown."""
        last = result.last
        if result.status == "too_far_ahead" and isinstance(last, int):
            self.held_back += self.vouched.take_back(note.domain, last)
        if result.status == "unknown_domain" and isinstance(last, tuple) and last:
            return self.vouched.keep(last)
        return []

    def _refuses_only_event_times(self, note: Note, result: Refused) -> bool:
        """Return whether the note would be accepted without the event times that it declares."""
        last = result.last
        if result.status == "too_far_ahead" and isinstance(last, int):
            is_time_allowed = note.time is None or note.time <= last
            return is_time_allowed and _has_max_times(note)
        if result.status == "unknown_domain" and isinstance(last, tuple) and last:
            declares_unknown = any(domain not in last for domain in note.max_times or ())
            return declares_unknown and self.vouched.is_named(note.domain, last)
        return False

    def _learn_from(self, note: Note, result: Refused) -> None:
        last = result.last
        if result.status == "unknown_domain" and isinstance(last, tuple) and last:
            self.vouched.forget(note.domain, instead=last[0])
        elif result.status == "invalid_time" and isinstance(last, int):
            self.vouched.learn_time(note.domain, last)
        elif result.status == "unknown_writer":
            self._is_known = False
            self._must_join = self._was_live
            self._is_awaited = False

    def _collect_refusals(self, pending: PendingNote, result: Refused) -> list[Rejected]:
        note = pending.note
        refusal = result.error(self.writer, first=note.takes_over)
        self._refused[note.domain, note.state] = refusal
        return [refusal]

    def _rejoin(self, pending_notes: Sequence[PendingNote]) -> None:
        """Join without a time if the note that would have joined was too far ahead.

        A known writer does not: with a wrong clock it would hold back the watermark forever.
        """
        if pending_notes and self.state == "live" and not (self or self._is_awaited):
            note = Note(self.writer, None, self.vouched.position, None, None, "live")
            first_ticket = min(pending.first_ticket for pending in pending_notes)
            self._waiting.put_back(PendingNote(note, first_ticket, self.last_ticket))


def _has_max_times(note: Note) -> bool:
    return note.max_time is not None or bool(note.max_times)
