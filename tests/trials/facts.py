"""The facts of a trial that laws compare: rows, answers, windows and commits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Json = Mapping[str, Any]
Position = Mapping[int, int]

Row = tuple[Any, ...]
"""A row of a log in one domain: its segment, offset and time, and perhaps more."""


class Answer(NamedTuple):
    """The marks after a seq, as a follower gets them. Truncations leave those from `first` on."""

    after: int
    marks: Sequence[Json]
    first: int = 1


class Look(NamedTuple):
    """An answer with the lower, `None` before the first mark, and when it was asked and given."""

    begun: float
    ended: float
    lower: float | None

    @property
    def value(self) -> float:
        return float("-inf") if self.lower is None else self.lower

    def __str__(self) -> str:
        return f"{self.lower} at {self.begun} to {self.ended}"


class Claim(NamedTuple):
    """The times of a writer by domain, and its position."""

    times: Mapping[str, int]
    position: Position


TableRow = tuple[int, str]
"""A row of a table: its time and its unique name."""


class Commit(NamedTuple):
    """A version of a table: its claim, and all its rows."""

    complete_to: int | None
    rows: Sequence[TableRow]


@dataclass(frozen=True, slots=True)
class WindowSeen:
    """The answer to a position: its time window.

    The lower may not be below `least`, the first mark that truncations left, if that is reached.
    """

    position: Position
    window: Mapping[str, int | None]
    least: int | None = None


@dataclass(frozen=True, slots=True)
class Scaling:
    """Segments that are sealed at their ends, and their successors."""

    sealed: Position
    created: Sequence[int]

    def to_wire(self) -> dict[str, Any]:
        """Return it as the API has it."""
        return {
            "sealed": {str(segment): end for segment, end in self.sealed.items()},
            "created": {str(segment): sorted(self.sealed) for segment in self.created},
        }


def complete(position: Position, scalings: Sequence[Scaling]) -> dict[int, int]:
    """Return the position with the ends of all predecessors of the segments that it names.

    This is the slow and obvious way, because it judges the fast one:

    >>> scalings = [Scaling({0: 5}, range(2, 4)), Scaling({1: 7, 2: 0}, range(4, 5))]
    >>> complete({4: 0}, scalings)
    {4: 0, 1: 7, 2: 0, 0: 5}
    >>> complete({1: 3}, scalings)
    {1: 3}
    """
    whole_position = dict(position)
    for scaling in reversed(scalings):
        if any(segment in whole_position for segment in scaling.created):
            whole_position.update(scaling.sealed)
    return whole_position
