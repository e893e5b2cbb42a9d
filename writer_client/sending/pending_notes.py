"""The notes that wait to be posted: one for each domain, and at most one change of state.

A signal handler may interrupt a call. So its last step adds a note by one assignment, and tickets
order the notes.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from noted_time.values import Note


class PendingNote(Struct, frozen=True):
    """A note with the tickets of the calls that it covers."""

    note: Note
    first_ticket: int  # the oldest ticket covered
    made: int  # the ticket of this note
    written: int = 0  # rows so far

    @property
    def is_change(self) -> bool:
        return self.note.time is None


Batch = tuple[PendingNote, ...]


class PendingNotes:
    """The latest note of each domain and change of state."""

    def __init__(self) -> None:
        self._timed: dict[str | None, PendingNote] = {}
        self._change: PendingNote | None = None

    def __bool__(self) -> bool:
        return bool(self._timed) or self._change is not None

    def __contains__(self, domain: object) -> bool:
        return domain in self._timed

    @property
    def first_tickets(self) -> list[int]:
        tickets = [pending.first_ticket for pending in self._timed.values()]
        if self._change is not None:
            tickets.append(self._change.first_ticket)
        return tickets

    def note(self, note: Note, ticket: int, row_count: int) -> None:
        first_ticket = ticket
        for earlier_note in (self._timed.get(note.domain), self._change):
            if earlier_note is not None:
                first_ticket = min(first_ticket, earlier_note.first_ticket)
        self._timed[note.domain] = PendingNote(note, first_ticket, ticket, row_count)

    def change(self, note: Note, ticket: int, row_count: int) -> None:
        first_ticket = ticket if self._change is None else self._change.first_ticket
        self._change = PendingNote(note, first_ticket, ticket, row_count)

    def take(self, room: int) -> tuple[list[PendingNote], PendingNote | None]:
        """Take at most `room` notes, and the change of state if it has room behind them."""
        waiting = sorted(self._timed.values(), key=_get_ticket)
        change = self._change
        if change is not None and waiting and waiting[-1].made > change.made:
            change = None
            self._change = None
        batch = waiting[:room]
        for pending in batch:
            del self._timed[pending.note.domain]
        if len(batch) < len(waiting) or room - len(batch) < 2:  # noqa: PLR2004 - a change may need two notes
            return batch, None
        self._change = None
        return batch, change

    def put_back(self, pending: PendingNote) -> None:
        if pending.is_change:
            self._put_change_back(pending)
            return
        newer = self._timed.get(pending.note.domain)
        if newer is None:
            self._timed[pending.note.domain] = pending
        else:
            self._cover_by(newer, pending)

    def move(self, position: Mapping[int, int]) -> None:
        for domain, pending in list(self._timed.items()):
            self._timed[domain] = replace(pending, note=replace(pending.note, position=position))
        if self._change is not None:
            note = replace(self._change.note, position=position)
            self._change = replace(self._change, note=note)

    def _put_change_back(self, pending: PendingNote) -> None:
        later_notes = [note for note in self._timed.values() if note.made > pending.made]
        change = self._change
        if later_notes:
            self._cover_by(min(later_notes, key=_get_ticket), pending)
        elif change is not None and change.made > pending.made:
            self._change = replace(
                change, first_ticket=min(change.first_ticket, pending.first_ticket)
            )
        else:
            self._change = replace(pending, note=replace(pending.note, domain=None))

    def _cover_by(self, newer: PendingNote, older: PendingNote) -> None:
        first_ticket = min(newer.first_ticket, older.first_ticket)
        self._timed[newer.note.domain] = replace(newer, first_ticket=first_ticket)


def _get_ticket(pending: PendingNote) -> int:
    return pending.made
