"""The aggregation rules of the design, done in the slow and obvious way.

Everything ever noted is kept as it was noted, and every question is answered by reading all of it
again; nothing here is shared with the code under test but its plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noted_time import Mark, StreamCut

if TYPE_CHECKING:
    from noted_time import Note, ScaleEvent, State, StreamSettings

Position = dict[int, int]
NEVER = -(2**63) - 1
"""Minus infinity: before every int64."""


@dataclass(frozen=True)
class Noted:
    """One accepted note of a writer: `position` is all that the writer had said by then."""

    key: str
    time: int | None
    max_time: int | None
    position: Position


@dataclass
class Writer:
    """All that one writer ever noted; `began` says since when it holds which key."""

    name: str
    state: State = "left"
    left_out: bool = False
    noted_at: int = 0
    sequence: int = 0
    log: list[Noted] = field(default_factory=list)
    excluded: set[str] = field(default_factory=set)
    began: dict[str, int] = field(default_factory=dict)
    unrecorded: set[str] = field(default_factory=set)

    @property
    def position(self) -> Position:
        """The position it said so far."""
        return self.log[-1].position if self.log else {}

    def time(self, key: str) -> int:
        """Return its last time for the key."""
        times = (noted.time for noted in self.log if noted.key == key)
        return max((time for time in times if time is not None), default=NEVER)

    def counts(self, key: str) -> bool:
        """Whether time waits for it."""
        return self.state == "live" and not self.left_out and key not in self.excluded

    def highest_event(self, key: str) -> int:
        """Return the largest event time it declared, or its noted time where it declared none."""
        declared = [noted.max_time for noted in self.log if noted.key == key]
        return max((time for time in declared if time is not None), default=self.time(key))

    def position_for(self, key: str, lower: int) -> Position:
        """Return the position of its first note with time >= lower.

        Resting is a note at +infinity, at the last position given.
        """
        for noted in self.log:
            if noted.key == key and noted.time is not None and noted.time >= lower:
                return noted.position
        return {} if self.counts(key) else self.position


def join(one: Position, other: Position) -> Position:
    """Return the larger offset per segment."""
    return {s: max(one.get(s, 0), other.get(s, 0)) for s in {*one, *other}}


class Model:
    """One stream by rules 1 to 8, told what an `Aggregator` is told."""

    def __init__(self, settings: StreamSettings) -> None:
        self.settings = settings
        self.writers: dict[str, Writer] = {}
        self.marks: dict[str, list[Mark]] = {key: [] for key in settings.keys}
        self.upper: dict[str, int] = {}
        self.scales: list[ScaleEvent] = []

    # Scaling

    def complete(self, position: Position) -> Position:
        """Return the position with all predecessors of what it names at their final offsets."""
        whole = dict(position)
        for event in reversed(self.scales):
            for created, predecessors in event.created.items():
                if created in whole:
                    whole |= {p: event.sealed[p] for p in predecessors}
        return whole

    def final(self) -> Position:
        """Return the final offsets of the sealed segments."""
        return {s: offset for event in self.scales for s, offset in event.sealed.items()}

    def scale(self, event: ScaleEvent) -> bool:
        """Take the event in, unless it is wrong; returns whether it was taken."""
        final, positions = self.final(), [self.complete(w.position) for w in self.writers.values()]
        created = {s for past in self.scales for s in past.created}
        known = {s for position in positions for s in position} | created
        right = (
            all(s in known and s not in final for s in event.sealed)
            and all(p.get(s, 0) <= offset for s, offset in event.sealed.items() for p in positions)
            and not event.created.keys() & (created | final.keys() | event.sealed.keys())
            and all(p in event.sealed for ps in event.created.values() for p in ps)
        )
        if right:
            self.scales.append(event)
        return right

    # Notes

    def note(self, note: Note, now: int) -> tuple[str, object]:
        """Answer a note: ("accepted", the lower) or (the refusal, the stored value)."""
        key = note.key or "default"
        refused = self._refusal(note, key)
        if refused is not None:
            return refused
        writer = self.writers.setdefault(note.writer, Writer(note.writer))
        returns = note.state == "live" and (writer.state != "live" or writer.left_out)
        position = join(writer.position, dict(note.position))
        writer.log.append(Noted(key, note.time, note.max_time, position))
        writer.state, writer.left_out, writer.noted_at = note.state, False, now
        writer.sequence = max(writer.sequence, note.sequence or 0)
        if returns and self.settings.returning_writer == "exclude":
            out = {k for k, marks in self.marks.items() if marks and self._behind(writer, k)}
            writer.excluded |= out
            writer.unrecorded |= out
        self.settle(now)
        return "accepted", self.marks[key][-1].lower if self.marks[key] else None

    def _refusal(self, note: Note, key: str) -> tuple[str, object] | None:
        if key not in self.marks:
            return "unknown_key", self.settings.keys
        writer = self.writers.get(note.writer, Writer(note.writer))
        if note.sequence is not None and note.sequence < writer.sequence:
            return "superseded", writer.sequence
        final = self.final()
        beyond = {s: final[s] for s, o in note.position.items() if s in final and o > final[s]}
        if beyond:
            return "invalid_position", beyond
        if note.time is not None and note.time < writer.time(key):
            return "invalid_time", writer.time(key)
        stored, said = self.complete(writer.position), self.complete(dict(note.position))
        back = {s: stored[s] for s, offset in said.items() if offset < stored.get(s, 0)}
        return ("invalid_position", back) if back else None

    # Time

    def lower(self, key: str) -> int:
        """Return the last mark's lower."""
        return self.marks[key][-1].lower if self.marks[key] else NEVER

    def _behind(self, writer: Writer, key: str) -> bool:
        return writer.time(key) <= self.lower(key)

    def settle(self, now: int) -> None:
        """Note for every writer and key what has become true at `now`."""
        for writer in self.writers.values():
            if writer.state != "live":
                writer.excluded.clear()
            writer.excluded = {k for k in writer.excluded if self._behind(writer, k)}
            if not writer.left_out:
                writer.unrecorded &= writer.excluded
            held = {k for k in self.marks if writer.counts(k) and self._behind(writer, k)}
            writer.began = {k: writer.began.get(k, now) for k in held}
        for key in self.marks:
            highest = [writer.highest_event(key) for writer in self.writers.values()]
            self.upper[key] = max([self.upper.get(key, NEVER), *highest])

    def due(self, writer: Writer) -> int | None:
        """Return when the writer is left out if it stays silent, `None` if it holds nothing."""
        timeout = self.settings.writer_timeout_ms
        return min(
            (max(writer.noted_at, began) + timeout for began in writer.began.values()), default=None
        )

    def leave_out(self, writer: Writer, now: int) -> None:
        """Go on without the writer."""
        writer.left_out = True
        writer.unrecorded = set(self.marks)
        self.settle(now)

    def expire(self, now: int) -> set[str]:
        """Leave out who held time back in silence for the writer timeout; returns the names."""
        dues = {name: self.due(writer) for name, writer in self.writers.items()}
        out = {name for name, due in dues.items() if due is not None and due <= now}
        for name in out:
            self.leave_out(self.writers[name], now)
        return out

    def waiting_for(self, key: str) -> set[str]:
        """Return the names of those who hold the key."""
        return {name for name, writer in self.writers.items() if key in writer.began}

    def next_lower(self, key: str) -> int | None:
        """Return where time may go, `None` while it stands."""
        everybody = self.writers.values()
        live = [writer.time(key) for writer in everybody if writer.counts(key)]
        candidate = min(live) if live else max([NEVER, *(w.time(key) for w in everybody)])
        return candidate if candidate > self.lower(key) else None

    def advance(self, key: str, now: int) -> Mark | None:
        """Make the next mark, if the notes allow one."""
        lower = self.next_lower(key)
        if lower is None:
            return None
        mark = Mark(
            seq=len(self.marks[key]) + 1,
            lower=lower,
            upper=self.upper[key],
            cut=StreamCut(self.cut(key, lower)),
            left_out=tuple(sorted(self._went_on_without(key, lower))),
        )
        self.marks[key].append(mark)
        self.settle(now)
        return mark

    def cut(self, key: str, lower: int) -> Position:
        """Return the tight cut: everybody's position for the lower and the last mark's cut."""
        last = self.marks[key][-1].cut.offsets if self.marks[key] else {}
        cut = self.complete(dict(last))
        for writer in self.writers.values():
            cut = join(cut, self.complete(writer.position_for(key, lower)))
        return cut

    def _went_on_without(self, key: str, lower: int) -> set[str]:
        out = {
            writer.name
            for writer in self.writers.values()
            if key in writer.unrecorded and writer.time(key) < lower
        }
        for name in out:
            self.writers[name].unrecorded.discard(key)
        return out

    def reconfigure(self, settings: StreamSettings, now: int) -> None:
        """Take changed settings; who lives below the last lower is out or back accordingly."""
        self.settings = settings
        for key in settings.keys:
            self.marks.setdefault(key, [])
        for writer in self.writers.values():
            live = writer.state == "live" and not writer.left_out
            below = {key for key in self.marks if live and writer.time(key) < self.lower(key)}
            if settings.returning_writer == "hold":
                writer.excluded.clear()
            else:
                writer.unrecorded |= below - writer.excluded
                writer.excluded |= below
        self.settle(now)
