"""Writers of a stream that goes on without who comes back until it has caught up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.scaling import ScaledStream
from tests.support.load import SEGMENTS, LoadWriter

if TYPE_CHECKING:
    import random

    from tests.chaos.history import Json


@dataclass
class ExcludedWriter(LoadWriter):
    """A writer that is not waited for by joining: it has to note a time above the lower.

    So it writes nothing before an answer told it that it did. Every note has a time, as one
    without might tell of a lower that has passed it by.
    """

    is_counted: bool = False

    def next_notes(self) -> list[Json]:
        """Write and note where time waits for it, else note what may bring it back."""
        if self.state == "live" and self.is_counted:
            return super().next_notes()
        return [self._note(domain, self._next_time(domain)) for domain in self.stream.domains]

    def answered(self, note: Json, result: Json) -> None:
        """Take in that the note is durable, and whether time waits for its writer from there."""
        super().answered(note, result)
        lower = result["lower"]
        self.is_counted = "time" in note and (lower is None or note["time"] > lower)


@dataclass(repr=False)
class ExcludingStream(ScaledStream):
    """A stream of one domain, with some time between two marks, and `returning_writer` `exclude`.

    (Where every note makes a mark, the lower that answers may be the note's own time.)
    """

    def writer(self, chance: random.Random) -> LoadWriter:
        """Make a new writer."""
        made = ExcludedWriter(self, f"w{len(self.writers)}", range(SEGMENTS), chance)
        self.writers.append(made)
        return made
