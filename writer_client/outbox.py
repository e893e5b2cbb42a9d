"""What one writer has noted and the controller has not yet answered, coalesced.

Notes are monotone, so the latest of each domain says all that the earlier ones said, only less
tightly: the outbox keeps one note a domain and at most one change of state, whatever the rate.
Three rules make that sound:

* Every note carries the writer's *whole* position at the moment it was made, not what the caller
  named then. A domain's note never stands on segments that an earlier, coalesced note named, and
  a stream that was created again learns the whole position from the next note.
* Notes leave in the order of their last making, so positions rise along the way.
* A note without time (joined, idle, finished) comes last and is withdrawn by any later one, which
  says more: it carries the newer state and a position that reaches it. What is sent is therefore
  always a tail of what was noted, never a reordering. Only the join of a writer that is not known
  yet is sent all the same, as it could be neither idle nor finished otherwise.

A batch whose outcome is unknown is put back in front and coalesced with what came meanwhile. It may
be applied twice, which does no harm: notes that repeat a claim are accepted. Nor does it when the
first one arrives last, since each post has a higher number (see `exchange`). Late rows may be
counted twice then.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from noted_time.values import (
    MAX_NOTES_PER_REQUEST,
    Accepted,
    Fenced,
    InvalidNote,
    Note,
    Rejected,
    checked_name,
    gained_by,
)
from writer_client.answers import can_be_said_otherwise, holder, is_too_far_ahead
from writer_client.claims import Additions, Claims, HeldBack, check_int64
from writer_client.outcome import Exclusion
from writer_client.waiting import Pending, WaitingNotes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from noted_time.values import LateRows, Refused, Session, State
    from writer_client.answers import Answered, Found
    from writer_client.claims import Process
    from writer_client.waiting import Batch

    LookUp = Callable[[Mapping[int, int]], Found]

OFFSETS_PER_REQUEST = 20_000
"""Keeps a request below the controller's 1 MiB, at no more than 45 bytes an offset."""

OFFSETS_PER_DOMAIN = 6
"""A largest event time with the name of its domain takes as much room."""


class Outbox:
    """One writer's notes on their way; no thread, no clock, no network.

    >>> outbox = Outbox("UA")
    >>> for time, offset in ((5, 10), (7, 14)):
    ...     _ = outbox.note(time, {0: offset})
    >>> outbox.idle({})
    3
    >>> batch = outbox.take()
    >>> [(p.note.time, dict(p.note.position), p.note.state) for p in batch]
    [(7, {0: 14}, 'live'), (None, {0: 14}, 'idle')]
    >>> from writer_client.answers import Answered
    >>> outbox.answered(batch, Answered((Accepted(lower=4), Accepted(lower=4))))
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
    ) -> None:
        """Begin empty, with the writer's own terms, if any; raises `InvalidName`.

        Where the `process` is given, it takes the writer's name over.
        """
        self.writer = checked_name("writer", writer)
        self.state: State = "finished"
        self.excluded: Exclusion | None = None
        self.claims = Claims(writer, domains)
        self.written = 0
        """How many rows the caller reported."""
        self.beginning: tuple[LookUp, ...] = ()
        """What is to look into the log once the batch under way was accepted, before all else."""
        self._additions = Additions(domains, timeout_ms, process)
        self._lowers: dict[str | None, int | None] = {}
        self._waiting = WaitingNotes()
        self._in_flight: Batch = ()
        self._calls = 0
        self._lives = self._known = self._must_join = self._is_awaited = False
        self.held_back: list[HeldBack] = []
        """Events whose times are left out from now on, and that were not reported yet."""
        self._refused: dict[object, Rejected] = {}
        self._look_ups: list[LookUp] = []
        self._covered = 0
        self._held: Session | None = None

    # What the writer says; each returns a ticket for `durable_through`

    def note(
        self,
        time: int,
        position: Mapping[int, int],
        *,
        domain: str | None = None,
        max_time: int | None = None,
    ) -> int:
        """Note that all events with a time of `domain` below `time` lie below the position.

        Raises `InvalidNote` if time or position goes back behind what was noted here before,
        `Rejected` for numbers outside int64; nothing is noted then.
        """
        claims = self.claims
        claims.check_time(time, domain)
        if max_time is not None:
            check_int64("max_time", max_time)
        known = claims.position
        claims.move(position)
        if max_time is not None:
            claims.declare(domain, max_time, gained_by(position, known))
        claims.note(time, domain)
        self.state, self._lives = "live", True
        self._calls = made = self._calls + 1
        note = Note(self.writer, time, claims.position, domain)
        self._waiting.note(note, made, self.written)
        return made

    def begin(self, look_up: LookUp) -> int:
        """Join, and have the ends of the writer's segments looked up before anything else is said.

        That is done after a join without a position was accepted: from then on no other process
        may note under the writer's name, so its next note covers all that another one noted.
        """
        self._look_ups.append(look_up)
        return self.join({})

    def join(self, position: Mapping[int, int]) -> int:
        """Say that the writer is there and time must wait for it."""
        return self._changed("live", position)

    def idle(self, position: Mapping[int, int]) -> int:
        """Say that time need not wait for the writer until it notes again."""
        return self._changed("idle", position)

    def finished(self, position: Mapping[int, int]) -> int:
        """Say that the writer is done and its position is final."""
        return self._changed("finished", position)

    def wrote(
        self, event_time: int | None, domain: str | None, position: Mapping[int, int]
    ) -> None:
        """Remember what was written; the next note covers it.

        A writer that is not live joins by it: time has to wait for what it writes next.
        """
        claims, known = self.claims, self.claims.position
        claims.reach(position)
        if event_time is not None:
            claims.declare(domain, event_time, gained_by(position, known))
        if self.state != "live":
            self.join({})

    def late(self, domain: str | None, rows: LateRows) -> int:
        """Count rows that were written too late; a note reports them, one of its own if need be.

        Returns how many there were so far.
        """
        self._additions.add(domain, rows)
        if domain not in self._waiting:
            self._changed("live", {})
        return self._additions.total

    # What the sender does

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Batch:
        """Return the next notes to post; they stay the outbox's until answered or put back."""
        if self._look_ups:
            return self._begins()
        each = len(self.claims.position) + OFFSETS_PER_DOMAIN * self.claims.domains
        room = OFFSETS_PER_REQUEST // (each + 1)
        room = max(2, min(room, MAX_NOTES_PER_REQUEST))
        batch, change = self._waiting.take(room)
        if change is not None:
            batch += self._as_notes(change, room - len(batch), follows=bool(batch))
        put_on, declared = self._additions.put_on, self.claims.declared
        self._in_flight = tuple(replace(each, note=put_on(declared(each.note))) for each in batch)
        return self._in_flight

    def put_back(self, batch: Batch) -> None:
        """Take a batch back whose outcome is unknown; what was noted meanwhile continues from it.

        If it was applied, the controller knows the position of its last note and would refuse the
        earlier ones as behind. So all come back with that position: a weaker claim, still true.
        What they declare is said as of when they are sent.
        """
        self._in_flight = ()
        begins = self._ends_beginning()
        for pending in batch:
            note = replace(self._additions.take_off(pending.note), position=batch[-1].note.position)
            if not begins:  # else all that was said still waits
                self._waiting.put_back(replace(pending, note=note))

    def answered(self, batch: Batch, answer: Answered) -> list[InvalidNote]:
        """Learn what became of each note of the batch, in order; returns the new refusals."""
        refused = []
        self._in_flight = ()
        self._held = holder(answer)
        if self._held is not None:
            self._waiting, self._look_ups, self.beginning = WaitingNotes(), [], ()
            return []
        begins = self._ends_beginning()
        reached = batch[-1].note.position if batch else {}
        accepted = [result for result in answer.results if isinstance(result, Accepted)]
        if accepted:
            self.excluded = next(filter(None, map(Exclusion.of, accepted)), None)
        joined = any(p.is_change and p.note.state == "live" for p in batch)
        for pending, result in zip(batch, answer.results, strict=True):
            if isinstance(result, Accepted):
                self._accepted(pending.note, result)
                self._covered = max(self._covered, pending.written)
            else:
                note = self._additions.take_off(pending.note)
                refused += self._refuse(replace(pending, note=note), result, reached, joined=joined)
        self._rejoin(batch, answer)
        if begins:
            self._begun(answer.found)
        return refused

    def dropped(self, error: Rejected) -> None:
        """Give the batch under way up, as it would be refused again."""
        self._in_flight = ()
        if self._ends_beginning():
            self._waiting = WaitingNotes()
        self.complain(error)

    def complain(self, error: Rejected) -> None:
        """Report an error to the caller with the next refusals."""
        self._refused[type(error)] = error

    # Where a process begins, and where it ends

    def _begins(self) -> Batch:
        """Return a join without a position, which waits for nothing else that was said."""
        self.beginning = tuple(self._look_ups)
        note = self._additions.put_on(Note(self.writer, domain=self.claims.last_domain))
        self._in_flight = (Pending(note, self._calls, self._calls),)
        return self._in_flight

    def _ends_beginning(self) -> bool:
        begins, self.beginning = bool(self.beginning), ()
        return begins

    def _begun(self, found: tuple[Found, ...]) -> None:
        """Go on from what was found in the log; nothing was where the join was refused."""
        if not found:
            self._waiting = WaitingNotes()
        del self._look_ups[: len(found)]
        for each in found:
            self.claims.learn(each.position)
            for domain, time in each.max_times.items():
                with suppress(InvalidNote):  # of a domain that it does not vouch for
                    self.claims.declare(domain, time)
        self._waiting.move(self.claims.position)

    @property
    def fenced(self) -> Fenced | None:
        """Who took the writer's name over, `None` if no other process did."""
        if self._held is None:
            return None
        return Fenced(self.writer, self._held, self.written - self._covered)

    @property
    def takes_over(self) -> bool:
        """Whether no note was accepted yet, so that another process may have the name."""
        return self._additions.takes_over

    # What is known

    @property
    def calls(self) -> int:
        """The ticket of the last call."""
        return self._calls

    @property
    def durable_through(self) -> int:
        """The last ticket up to which everything was answered (accepted or refused)."""
        waiting = [*self._waiting.since, *(pending.since for pending in self._in_flight)]
        return min(waiting, default=self._calls + 1) - 1

    @property
    def late_rows(self) -> int:
        """How many rows were written too late so far."""
        return self._additions.total

    def lower(self, domain: str | None) -> int | None:
        """Return the lower of the domain's last mark as of the last answer."""
        return self._lowers.get(domain)

    def pop_refused(self) -> Rejected | None:
        """Return the oldest refusal that was not returned yet, `None` if there is none."""
        return self._refused.pop(next(iter(self._refused))) if self._refused else None

    # How a change of state is sent

    def _changed(self, state: State, position: Mapping[int, int]) -> int:
        claims = self.claims
        claims.move(position)
        self.state = state
        self._lives = self._lives or state == "live"
        self._calls = made = self._calls + 1
        note = Note(self.writer, None, claims.position, None, None, state)
        self._waiting.change(note, made, self.written)
        return made

    def _as_notes(self, change: Pending, room: int, *, follows: bool) -> list[Pending]:
        """Return the change as notes: one for each domain with late rows to report, or one.

        A writer that was live, and is not known yet, joins first: only a member may leave.
        """
        domains = self._additions.late_domains
        live = change.note.state == "live"
        joins = self._lives and not live and (self._must_join or not (self._known or follows))
        first = [replace(change, note=replace(change.note, state="live"))] if joins else []
        named = domains[: room - len(first)] or [self.claims.last_domain]
        notes = [replace(change.note, domain=each) for each in named]
        return first + [replace(change, note=note) for note in notes]

    # What an answer leads to

    def _accepted(self, note: Note, result: Accepted) -> None:
        self._additions.takes_over, self._is_awaited = False, note.state == "live"
        if note.state == "live":
            self._known, self._must_join = True, False
            if note.time is None:
                self.claims.known_times = result.times or {}
                self.claims.known_timeout_ms = result.timeout_ms
        if result.position is not None:
            self.claims.learn(result.position)
        self._lowers[note.domain] = result.lower

    def _refuse(
        self, pending: Pending, result: Refused, reached: Mapping[int, int], *, joined: bool
    ) -> list[InvalidNote]:
        """Take in a refusal; `reached` is the position of the last note of the batch."""
        note, status, last = pending.note, result.status, result.last
        may_join = self._lives and not joined
        again = pending.is_change and can_be_said_otherwise(note, result, may_join=may_join)
        if status == "too_far_ahead" and isinstance(last, int):
            self._take_back(note.domain, last)
            if (note.time is None or note.time <= last) and _declares(note):
                self._waiting.put_back(replace(pending, note=replace(note, position=reached)))
                return []
        elif status == "unknown_domain" and isinstance(last, tuple) and last:
            unknown = self.claims.keep(last)
            only_declared = any(name not in last for name in note.max_times or ())
            if only_declared and self.claims.is_named(note.domain, last):
                self._waiting.put_back(replace(pending, note=replace(note, position=reached)))
                return self._complain_of(pending, result) if unknown else []
            self.claims.forget(note.domain, instead=last[0])
        elif status == "unknown_writer":
            self._known, self._must_join, self._is_awaited = False, self._lives, False
        if again:
            self._waiting.put_back(pending)
        if again and not _declares(note):
            return []
        return self._complain_of(pending, result)

    def _complain_of(self, pending: Pending, result: Refused) -> list[InvalidNote]:
        note = pending.note
        first, beyond = note.takes_over, result.beyond
        refusal = InvalidNote(self.writer, result.status, result.last, beyond, first=first)
        self._refused[note.domain, note.state] = refusal
        return [refusal]

    def _take_back(self, domain: str | None, bound: int) -> None:
        """Leave out times above the bound, also in the notes that wait."""
        self.held_back += self.claims.take_back(domain, bound)

    def _rejoin(self, batch: Batch, answer: Answered) -> None:
        """Say that the writer is there if the note that was to say so was too far ahead.

        Only where the controller does not wait for it yet: a note that is refused for good is not a
        sign of life, or a writer with a wrong clock would hold the watermark for ever.
        """
        results = zip(batch, answer.results, strict=True)
        refused = [p for p, r in results if is_too_far_ahead(r) and not p.is_change]
        if refused and self.state == "live" and not (self or self._is_awaited):
            note = Note(self.writer, None, self.claims.position, None, None, "live")
            since = min(pending.since for pending in refused)
            self._waiting.put_back(Pending(note, since, self._calls))


def _declares(note: Note) -> bool:
    return note.max_time is not None or bool(note.max_times)
