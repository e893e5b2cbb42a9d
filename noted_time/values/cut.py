"""Stream cuts, marks, the time window of a position, and the order of segments that scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from operator import index
from typing import Annotated, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

from noted_time.json_types import OFFSETS_SCHEMA, SEGMENT_PATTERN, Offsets
from noted_time.values.errors import InvalidScale, Rejected
from noted_time.values.times import MAX_INT64, Int64

SEGMENTS_PER_POSITION = 4096
"""The limit for one position, and for all notes of a writer."""

# ids have at most 18 digits, so that a pattern can check them as names in JSON
SegmentNumber = Annotated[int, Meta(ge=0, lt=10**18)]
Offset = Annotated[int, Meta(ge=0, le=MAX_INT64)]
SEGMENT_NAMES = {"propertyNames": {"pattern": SEGMENT_PATTERN}}
Position = Annotated[
    Mapping[SegmentNumber, Offset],
    Meta(max_length=SEGMENTS_PER_POSITION, extra_json_schema=OFFSETS_SCHEMA),
]


class StreamCut:
    """A position in all segments of a stream: one exclusive int64 offset per segment.

    A missing segment has the offset 0. Cuts are only partly ordered:

    >>> a, b = StreamCut({0: 9, 1: 1}), StreamCut({0: 2, 1: 5})
    >>> a.reaches(b), b.reaches(a)
    (False, False)
    >>> a.join(b)
    StreamCut({0: 9, 1: 5})
    """

    # not a Struct, whose JSON would be {"offsets": {…}}
    __slots__ = ("offsets",)

    def __init__(self, offsets: Mapping[int, int]) -> None:
        for segment, offset in offsets.items():
            if not 0 <= segment <= MAX_INT64:
                raise Rejected(f"segment {segment} is not an integer from 0 to {MAX_INT64}")
            if not 0 <= offset <= MAX_INT64:
                raise Rejected(f"offset {offset} of segment {segment} is not from 0 to {MAX_INT64}")
        self.offsets = offsets

    def reaches(self, other: StreamCut) -> bool:
        """Return whether this cut is at or above `other` in every segment."""
        return reaches(self.offsets, other.offsets)

    def join(self, other: StreamCut) -> StreamCut:
        """Return the least cut that reaches both."""
        joined_offsets = dict(self.offsets)
        join_into(joined_offsets, other.offsets)
        return StreamCut(joined_offsets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamCut) and self.offsets == other.offsets

    def __repr__(self) -> str:
        return f"StreamCut({dict(self.offsets)})"

    def __hash__(self) -> int:
        return hash(frozenset(self.offsets.items()))


class Mark(Struct, frozen=True):
    """The aggregate of the notes at one moment (PDP-33).

    All events with time < `lower` of every vouching writer are below `cut`. The marks of a domain
    form a chain: `lower` rises strictly, and each cut reaches the one before.

    - `upper`: the largest event time that was declared.
    - `written_at`: when the mark was written (Unix ms), for people. No decision depends on it.
    - `excluded`: the writers that this mark was the first to exclude, at most 100 of them.
    - `excluded_count`: how many there are, if these are not all.
    - `upper_is_bound`: whether no event of any writer below the cut has a time above the upper.
    - `final`: whether the stream is sealed and no rows are beyond the cut.
    """

    seq: int
    lower: Int64
    upper: Int64
    cut: StreamCut
    written_at: Int64 = 0
    excluded: tuple[str, ...] = ()
    upper_is_bound: bool = False
    final: bool = False
    excluded_count: int | UnsetType = UNSET


class SegmentWaited(Struct, frozen=True):
    """A segment that a reader has read up to `offset`, while the next cut is at `needed`.

    Both offsets are exclusive. `writer` noted the segment up to `needed`.
    """

    segment: int
    offset: int
    needed: int
    writer: str | None = None


class TimeWindow(NamedTuple):
    """The bounds of time that a position in the stream implies.

    - Every event with time < `lower` (of a writer that vouches correctly) was read before the
      position.
    - No event read before the position has a time > `upper`.
    - A bound is `None` if no mark gives it.
    - `sealed`: the stream is sealed, and all of it was read.
    """

    lower: int | None
    upper: int | None
    lower_seq: int | None = None
    upper_seq: int | None = None
    sealed: bool = False


def convert_position(position: Mapping[int, int]) -> Mapping[int, int]:
    """Return a position with plain integers instead of numpy's, for JSON."""
    try:
        plain_offsets = {index(segment): index(offset) for segment, offset in position.items()}
    except (TypeError, AttributeError) as error:
        message = f"a position is a dict, segment → offset, both integers; not {position!r:.80}"
        raise Rejected(message) from error
    return StreamCut(plain_offsets).offsets


def reaches(cut: Mapping[int, int], other: Mapping[int, int]) -> bool:
    return all(cut.get(segment, 0) >= offset for segment, offset in other.items())


def join_into(cut: dict[int, int], other: Mapping[int, int]) -> None:
    """Raise `cut` in place to the least cut that reaches both."""
    for segment, offset in other.items():
        if offset > cut.get(segment, -1):
            cut[segment] = offset


def find_gained(position: Mapping[int, int], known_offsets: Mapping[int, int]) -> dict[int, int]:
    """Return the offsets of `position` beyond the known ones.

    >>> find_gained({0: 9, 1: 5, 2: 0}, known_offsets={0: 9, 1: 4})
    {1: 5, 2: 0}
    """
    return {
        segment: offset
        for segment, offset in position.items()
        if offset > known_offsets.get(segment, -1)
    }


def find_behind(position: Mapping[int, int], known_offsets: Mapping[int, int]) -> dict[int, int]:
    """Return the known offsets beyond `position`.

    >>> find_behind({0: 8, 1: 5}, known_offsets={0: 9, 1: 4})
    {0: 9}
    """
    return {
        segment: known_offsets[segment]
        for segment, offset in position.items()
        if offset < known_offsets.get(segment, 0)
    }


def find_missing_offsets(
    position: Mapping[int, int], cut: Mapping[int, int]
) -> list[SegmentWaited]:
    offsets = (
        (segment, position.get(segment, 0), needed_offset) for segment, needed_offset in cut.items()
    )
    return [
        SegmentWaited(*offset_triple)
        for offset_triple in offsets
        if offset_triple[1] < offset_triple[2]
    ]


class ScaleEvent(Struct, frozen=True):
    """Segments sealed at their final offsets, and their successors: segment → predecessors."""

    sealed: Offsets
    created: Mapping[int, tuple[int, ...]]


class Succession(Struct):
    """All scale events of a stream so far.

    A position with a successor, even at offset 0, implies that its predecessors are complete. So
    normalised cuts are compared segment by segment across splits and merges (PDP-33):

    >>> succession = Succession()
    >>> succession.scale(ScaleEvent({0: 500}, {2: (0,), 3: (0,)}), known_segments={0, 1})
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
        whole_position = dict(position)
        for segment in position:
            whole_position.update(self._implied.get(segment, {}))
        return whole_position

    @property
    def created(self) -> Iterable[int]:
        """The segments that scale events created."""
        return self._implied.keys()

    def is_read(self, segment: int, position: Mapping[int, int]) -> bool:
        """Return whether a segment is sealed and a normalised position is at its end."""
        return segment in self.final and position.get(segment, 0) >= self.final[segment]

    def unread_before(self, segment: int, position: Mapping[int, int]) -> int:
        """Return how many predecessors of a segment are not read to the end."""
        final_offsets = self._implied.get(segment, {})
        return sum(
            position.get(predecessor, 0) < final for predecessor, final in final_offsets.items()
        )

    def beyond_the_end(self, position: Mapping[int, int]) -> dict[int, int]:
        """Return the final offsets of the sealed segments that `position` exceeds."""
        final = self.final
        return {
            segment: final[segment]
            for segment, offset in position.items()
            if segment in final and offset > final[segment]
        }

    def check(self, event: ScaleEvent, known_segments: AbstractSet[int]) -> None:
        """Raise `InvalidScale` if the event contradicts earlier events or segments of notes."""
        for segment, offset in event.sealed.items():
            self._check_sealed(segment, offset, known_segments)
        for segment, predecessors in event.created.items():
            self._check_created(segment, predecessors, event)

    def scale(self, event: ScaleEvent, known_segments: AbstractSet[int]) -> None:
        """Add the event, or raise `InvalidScale` without a change."""
        self.check(event, known_segments)
        self.final.update(event.sealed)
        for segment, predecessors in event.created.items():
            final_offsets = {predecessor: self.final[predecessor] for predecessor in predecessors}
            for predecessor in predecessors:
                final_offsets.update(self._implied.get(predecessor, {}))
            self._implied[segment] = final_offsets

    def _check_sealed(self, segment: int, offset: int, known_segments: AbstractSet[int]) -> None:
        if segment in self.final:
            raise InvalidScale(segment, f"already sealed at {self.final[segment]}")
        if segment not in known_segments and segment not in self._implied:
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
