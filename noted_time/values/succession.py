"""The order of segments when a stream scales."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct

from noted_time.json_types import Offsets
from noted_time.values.errors import InvalidScale
from noted_time.values.times import MAX_INT64


class ScaleEvent(Struct, frozen=True):
    """Segments sealed at their final offsets, and their successors: segment → predecessors."""

    sealed: Offsets
    created: Mapping[int, tuple[int, ...]]


class Succession(Struct):
    """All scale events of a stream so far.

    A position with a successor, even at offset 0, implies that its predecessors are complete. So
    normalised cuts are compared segment by segment across splits and merges (PDP-33):

    >>> succession = Succession()
    >>> succession.scale(ScaleEvent({0: 500}, {2: (0,), 3: (0,)}), known={0, 1})
    >>> succession.normalise({2: 0})
    {2: 0, 0: 500}
    >>> succession.normalise({1: 7})
    {1: 7}
    """

    final: dict[int, int] = {}
    _implied: dict[int, dict[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self.final or self._implied)

    def normalise(self, position: Mapping[int, int]) -> Mapping[int, int]:
        """Return `position` with every predecessor of its segments at the final offset."""
        if not any(segment in self._implied for segment in position):
            return position
        whole = dict(position)
        for segment in position:
            whole.update(self._implied.get(segment, {}))
        return whole

    @property
    def created(self) -> Iterable[int]:
        """The segments that scale events created."""
        return self._implied.keys()

    def is_read(self, segment: int, position: Mapping[int, int]) -> bool:
        """Return whether a segment is sealed and a normalised position is at its end."""
        return segment in self.final and position.get(segment, 0) >= self.final[segment]

    def unread_before(self, segment: int, position: Mapping[int, int]) -> int:
        """Return how many predecessors of a segment are not read to the end."""
        implied = self._implied.get(segment, {})
        return sum(position.get(each, 0) < final for each, final in implied.items())

    def beyond_the_end(self, position: Mapping[int, int]) -> dict[int, int]:
        """Return the final offsets of the sealed segments that `position` exceeds."""
        final = self.final
        return {s: final[s] for s, offset in position.items() if s in final and offset > final[s]}

    def check(self, event: ScaleEvent, known: AbstractSet[int]) -> None:
        """Raise `InvalidScale` if the event contradicts earlier events or segments of notes."""
        for segment, offset in event.sealed.items():
            self._check_sealed(segment, offset, known)
        for segment, predecessors in event.created.items():
            self._check_created(segment, predecessors, event)

    def scale(self, event: ScaleEvent, known: AbstractSet[int]) -> None:
        """Add the event, or raise `InvalidScale` without a change."""
        self.check(event, known)
        self.final.update(event.sealed)
        for segment, predecessors in event.created.items():
            implied = {p: self.final[p] for p in predecessors}
            for predecessor in predecessors:
                implied.update(self._implied.get(predecessor, {}))
            self._implied[segment] = implied

    def _check_sealed(self, segment: int, offset: int, known: AbstractSet[int]) -> None:
        if segment in self.final:
            raise InvalidScale(segment, f"already sealed at {self.final[segment]}")
        if segment not in known and segment not in self._implied:
            raise InvalidScale(segment, "is not known: no note or scale event has named it")
        if not 0 <= offset <= MAX_INT64:
            raise InvalidScale(segment, f"final offset {offset} is not from 0 to {MAX_INT64}")

    def _check_created(
        self, segment: int, predecessors: tuple[int, ...], event: ScaleEvent
    ) -> None:
        if segment in self.final or segment in event.sealed:
            raise InvalidScale(segment, "cannot be created: it is sealed")
        if segment in self._implied:
            raise InvalidScale(segment, "cannot be created again")
        if not 0 <= segment <= MAX_INT64:
            raise InvalidScale(segment, f"is not an integer from 0 to {MAX_INT64}")
        for predecessor in predecessors:
            if predecessor not in event.sealed:
                raise InvalidScale(predecessor, f"not sealed by the event that creates {segment}")
