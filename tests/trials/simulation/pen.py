"""A writer of a schedule: what it has noted, and its next note."""

from dataclasses import dataclass, field
from random import Random

from noted_time.values import Note, State


@dataclass
class Pen:
    """A writer of a stream, which may be several processes one after the other."""

    stream: str
    writer: str
    segment: int
    time: int = 0
    sequence: int = 0
    session: int = 1
    has_name: bool = False
    position: dict[int, int] = field(default_factory=dict)

    def write(self, chance: Random) -> None:
        """Have time pass, and write some rows."""
        self.time += chance.randrange(6)
        self.append(chance)

    def append(self, chance: Random) -> None:
        """Write some rows, or none."""
        offset = self.position.get(self.segment, 0) + chance.randrange(4)
        self.position = {**self.position, self.segment: offset}

    def note(self, time: int | None, state: State = "live") -> Note:
        """Return the next note."""
        self.sequence += 1
        former = tuple(str(number) for number in range(1, self.session)) or None
        return Note(
            self.writer,
            time,
            dict(self.position),
            state=state,
            sequence=self.sequence,
            session=str(self.session),
            takes_over=not self.has_name,
            took_over=former,
        )
