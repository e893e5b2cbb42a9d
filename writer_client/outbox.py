"""What one writer has noted and the controller has not yet answered, coalesced.

Notes are monotone, so the latest of each key says all that the earlier ones said, only less
tightly: the outbox keeps one note a key and at most one change of state, whatever the rate. Three
rules make that sound:

* Every note carries the writer's *whole* position at the moment it was made, not what the caller
  named then. A key's note never stands on segments that an earlier, coalesced note told of, and a
  stream that was made again learns the whole position from the next note.
* Notes leave in the order of their last making, so positions rise along the way.
* A note without time (joined, idle, left) comes last and is withdrawn by any later one, which says
  more: it carries the newer state and a position that reaches it. What is sent is therefore always
  a tail of what was noted, never a reordering.

A batch whose outcome is unknown is put back in front and coalesced with what came meanwhile. It may
be applied twice, which is no harm: notes that go nowhere are accepted. Nor is it any when the first
one arrives last, since each post has a higher number (see `connection`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any

from noted_time.cut import MAX_INT64, MIN_INT64, StreamCut, join_into
from noted_time.errors import InvalidNote, Rejected
from noted_time.note import MAX_NOTES_PER_REQUEST, Note
from noted_time.settings import checked_name
from noted_time.wire import position_from_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from noted_time.note import State

OFFSETS_PER_REQUEST = 20_000
"""Keeps a request below the controller's 1 MiB, at no more than 45 bytes an offset."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A note that waits, and the ticket of the oldest call that it speaks for."""

    note: Note
    since: int


Batch = tuple[Pending, ...]


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
    >>> outbox.answered(batch, [{"status": "accepted", "lower": 4}] * 2)
    >>> outbox.lower(None), outbox.durable_through
    (4, 3)
    """

    def __init__(self, writer: str) -> None:
        """Begin empty; raises `InvalidName`."""
        self.writer = checked_name("writer", writer)
        self.state: State = "left"
        self._position: dict[int, int] = {}
        self._times: dict[str | None, int] = {}
        self._largest: dict[str | None, int] = {}
        self._declared: dict[str | None, int] = {}
        self._lowers: dict[str | None, int | None] = {}
        self._timed: dict[str | None, Pending] = {}
        self._change: Pending | None = None
        self._in_flight: Batch = ()
        self._some_key: str | None = None
        self._calls = 0
        self._refused: dict[object, Rejected] = {}

    # What the writer says; each returns a ticket for `durable_through`

    def note(
        self,
        time: int,
        position: Mapping[int, int],
        *,
        key: str | None = None,
        max_time: int | None = None,
    ) -> int:
        """Note that all events with a time of `key` below `time` lie below the position.

        Raises `InvalidNote` where time or position goes back behind what was noted here before,
        `Rejected` for numbers outside int64; nothing is noted then.
        """
        self._check_time(time, key)
        if max_time is not None:
            _check_int64("max_time", max_time)
        self._move(position)
        if max_time is not None:
            self._declare(key, max_time)
        self._times.pop(key, None)
        self._times[key] = time
        since = self._withdraw(key)
        note = Note(self.writer, time, self._position, key, self._largest.get(key), "live")
        self._timed[key] = Pending(note, since)
        self.state = "live"
        return self._calls

    def join(self, position: Mapping[int, int]) -> int:
        """Say that the writer is there and time must wait for it."""
        return self._changed("live", position)

    def idle(self, position: Mapping[int, int]) -> int:
        """Say that nobody need wait for the writer until it notes again."""
        return self._changed("idle", position)

    def left(self, position: Mapping[int, int]) -> int:
        """Say that the writer is done and its position is final."""
        return self._changed("left", position)

    def wrote(self, event_time: int | None, key: str | None, position: Mapping[int, int]) -> None:
        """Remember what was written; the next note tells of it.

        A writer that is not live joins by it: time has to wait for what it goes on to write.
        """
        if event_time is not None:
            self._declare(key, event_time)
        if self.state == "live":
            self._move(position)
        else:
            self.join(position)

    @property
    def position(self) -> dict[int, int]:
        """The whole position of the writer so far: segment → exclusive offset."""
        return dict(self._position)

    def time(self, key: str | None) -> int | None:
        """Return the last time noted for `key`."""
        return self._times.get(key)

    # What the sender does

    def __bool__(self) -> bool:
        return bool(self._timed) or self._change is not None

    def take(self) -> Batch:
        """Return the next notes to post; they stay the outbox's until answered or put back."""
        room = OFFSETS_PER_REQUEST // (len(self._position) + 1)
        room = max(1, min(room, MAX_NOTES_PER_REQUEST))
        taken = list(self._timed.items())[:room]
        for key, _ in taken:
            del self._timed[key]
        batch = [pending for _, pending in taken]
        if self._change is not None and not self._timed and len(batch) < room:
            batch += self._told(self._change, room - len(batch))
            self._change = None
        self._in_flight = tuple(batch)
        return self._in_flight

    def put_back(self, batch: Batch) -> None:
        """Take a batch back whose outcome is unknown; what was noted meanwhile goes on from it.

        If it was applied, the controller knows the position of its last note and would refuse the
        earlier ones as behind. So all come back with that position: a weaker claim, still true.
        """
        self._in_flight = ()
        later, self._timed = self._timed, {}
        for pending in batch:
            note = replace(pending.note, position=batch[-1].note.position)
            self._put_back(replace(pending, note=note), later)
        self._timed.update(later)

    def answered(self, batch: Batch, results: Sequence[Mapping[str, Any]]) -> None:
        """Learn what became of each note of the batch, in order."""
        self._in_flight = ()
        for pending, result in zip(batch, results, strict=True):
            if result["status"] == "accepted":
                self._accepted(pending.note, result)
            else:
                self._refuse(pending, result)
        self._rejoin(batch, results)

    def dropped(self, error: Rejected) -> None:
        """Give the batch under way up: the controller would refuse it again as it is."""
        self._in_flight = ()
        self.complain(error)

    def complain(self, error: Rejected) -> None:
        """Have the caller told of an error with the next refusals."""
        self._refused[type(error)] = error

    # What is known

    @property
    def calls(self) -> int:
        """The ticket of the last call."""
        return self._calls

    @property
    def durable_through(self) -> int:
        """The last ticket up to which everything was answered (accepted or refused)."""
        waiting = [*self._timed.values(), *self._in_flight]
        if self._change is not None:
            waiting.append(self._change)
        return min((pending.since for pending in waiting), default=self._calls + 1) - 1

    def lower(self, key: str | None) -> int | None:
        """Return the lower of the key's last mark as of the last answer."""
        return self._lowers.get(key)

    def pop_refused(self) -> Rejected | None:
        """Return the oldest refusal that nobody was told of yet, `None` where there is none."""
        return self._refused.pop(next(iter(self._refused))) if self._refused else None

    # How it comes about

    def _changed(self, state: State, position: Mapping[int, int]) -> int:
        self._move(position)
        self._calls += 1
        since = self._change.since if self._change else self._calls
        self._change = Pending(Note(self.writer, None, self._position, None, None, state), since)
        self.state = state
        return self._calls

    def _withdraw(self, key: str | None) -> int:
        """Take out what a new note of `key` stands for; returns the oldest ticket of it.

        Withdrawing a change is sound: the note that replaces it is live, later, and its position
        reaches the change's.
        """
        self._calls += 1
        since = self._calls
        old = self._timed.pop(key, None)
        if old is not None:
            since = min(since, old.since)
        if self._change is not None:
            since = min(since, self._change.since)
            self._change = None
        return since

    def _told(self, change: Pending, room: int) -> list[Pending]:
        """Return the change as notes: one for each largest event time not yet told, or one."""
        keys = self._untold()[:room] or [next(reversed(self._times), self._some_key)]
        return [replace(change, note=self._of_key(change.note, key)) for key in keys]

    def _untold(self) -> list[str | None]:
        largest, declared = self._largest, self._declared
        return [k for k, time in largest.items() if time > declared.get(k, MIN_INT64 - 1)]

    def _of_key(self, note: Note, key: str | None) -> Note:
        return replace(note, key=key, max_time=self._largest.get(key))

    def _put_back(self, pending: Pending, later: dict[str | None, Pending]) -> None:
        note = pending.note
        if _is_change(note):
            self._put_change_back(pending, later)
        elif note.key in later:
            newer = later[note.key]
            later[note.key] = replace(newer, since=min(newer.since, pending.since))
        else:
            self._timed[note.key] = pending

    def _put_change_back(self, pending: Pending, later: dict[str | None, Pending]) -> None:
        if later:
            first = next(iter(later))
            since = min(later[first].since, pending.since)
            later[first] = replace(later[first], since=since)
        elif self._change is not None:
            since = min(self._change.since, pending.since)
            self._change = replace(self._change, since=since)
        else:
            note = replace(pending.note, key=None, max_time=None)
            self._change = replace(pending, note=note)

    def _accepted(self, note: Note, result: Mapping[str, Any]) -> None:
        if note.max_time is not None:
            self._declared[note.key] = note.max_time
        self._lowers[note.key] = result.get("lower")

    def _refuse(self, pending: Pending, result: Mapping[str, Any]) -> None:
        note, status, last = pending.note, result["status"], result.get("last")
        if status == "too_far_ahead" and isinstance(last, int):
            self._take_back(note.key, last)
        elif status == "unknown_key" and last and note.key not in last:
            self._forget_key(note.key, instead=last[0])
        again = _is_change(note) and self._can_be_said_otherwise(note, status)
        if again:
            self._put_change_back(pending, self._timed)
        if not again or note.max_time is not None:
            behind = position_from_wire(last) if isinstance(last, dict) else last
            self._refused[note.key, note.state] = InvalidNote(self.writer, status, behind)

    def _can_be_said_otherwise(self, note: Note, status: str) -> bool:
        """Whether a change of state was refused for what was only added to it here.

        That is a largest event time, or the key, which a change of state does not have.
        """
        if status == "unknown_key":
            return self._some_key != note.key
        return status == "too_far_ahead"

    def _take_back(self, key: str | None, largest: int) -> None:
        """Forget times of `key` above the largest allowed, which were refused or will be.

        What is said next goes on from before them, so that one wrong time spoils no later note.
        """
        if self._times.get(key, largest) > largest:
            del self._times[key]
        if self._largest.get(key, largest) > largest:
            del self._largest[key]
            if key in self._timed:
                pending = self._timed[key]
                self._timed[key] = replace(pending, note=replace(pending.note, max_time=None))

    def _rejoin(self, batch: Batch, results: Sequence[Mapping[str, Any]]) -> None:
        """Say that the writer is there where the note that was to say so was too far ahead."""
        refused = [p.since for p, r in zip(batch, results, strict=True) if _is_too_far(p, r)]
        if refused and self.state == "live" and not self:
            note = Note(self.writer, None, self._position, None, None, "live")
            self._change = Pending(note, min(refused))

    def _forget_key(self, key: str | None, *, instead: str) -> None:
        self._some_key = instead
        self._times.pop(key, None)
        self._largest.pop(key, None)

    def _check_time(self, time: int, key: str | None) -> None:
        if key is not None:
            checked_name("key", key)
        _check_int64("time", time)
        last = self._times.get(key)
        if last is not None and time < last:
            raise InvalidNote(self.writer, "invalid_time", last)

    def _declare(self, key: str | None, event_time: int) -> None:
        _check_int64("event time", event_time)
        if event_time > self._largest.get(key, MIN_INT64 - 1):
            self._largest[key] = event_time

    def _move(self, position: Mapping[int, int]) -> None:
        known = self._position
        # Plain ints whatever they were (numpy's are common), as JSON takes no others.
        offsets = StreamCut({index(s): index(offset) for s, offset in position.items()}).offsets
        behind = {s: known[s] for s, offset in offsets.items() if offset < known.get(s, 0)}
        if behind:
            raise InvalidNote(self.writer, "invalid_position", behind)
        if any(offset > known.get(s, -1) for s, offset in offsets.items()):
            # A new dict: the notes that wait share the old one.
            self._position = dict(known)
            join_into(self._position, offsets)


def _is_too_far(pending: Pending, result: Mapping[str, Any]) -> bool:
    return result["status"] == "too_far_ahead" and not _is_change(pending.note)


def _is_change(note: Note) -> bool:
    return note.time is None


def _check_int64(what: str, value: int) -> None:
    if not MIN_INT64 <= value <= MAX_INT64:
        message = f"{what} {value} is not an int64"
        raise Rejected(message)
