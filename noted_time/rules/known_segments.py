"""Which segments a stream has, how far each is known to be written, and what a note may add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.values import MAX_INT64, Refused, TooManySegments, join_into

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from noted_time.values import StreamSettings

NOT_NAMED = -MAX_INT64 - 2
"""The offset of a segment that a member has not named: any other is a jump from here."""

ANY_JUMP = MAX_INT64 + 1
"""Further than from the least offset to the largest."""

LARGEST_FIRST_OFFSET = 2**62
"""The first offset of a segment may be any up to here, as its log may be old."""


class KnownSegments:
    """The last offset known of each segment of one stream, and what bounds both (S17).

    One wrong offset would be in all later cuts, and each segment is in the memory of all marks. A
    segment has the offset -1 between its first mention and the first offset that is taken.

    >>> from noted_time.values.settings import StreamSettings
    >>> segments = KnownSegments(StreamSettings(max_segments=2, max_offset_jump=10))
    >>> segments.join({0: 5})
    >>> segments.admit({0: 15, 1: 70})
    >>> segments.admit({0: 16}).last
    {0: 15}
    >>> segments.admit({1: 0, 2: 0}).status
    'too_many_segments'
    """

    __slots__ = ("_settled", "jump", "most", "offsets")

    def __init__(self, settings: StreamSettings) -> None:
        """Begin without segments."""
        self.offsets: dict[int, int] = {}
        self._settled = 0
        self.reconfigure(settings)

    def reconfigure(self, settings: StreamSettings) -> None:
        """Take changed settings; what is there stays."""
        self.most = settings.max_segments
        jump = settings.max_offset_jump
        self.jump = ANY_JUMP if jump is None else jump

    def admit(self, gained: Mapping[int, int]) -> Refused | None:
        """Add the segments of a note, or return why its offsets are not taken."""
        known, jump = self.offsets, self.jump
        beyond = {}
        for segment, offset in gained.items():
            last = known.get(segment, -1)
            largest = last + jump if last >= 0 else max(jump, LARGEST_FIRST_OFFSET)
            if offset > largest:
                beyond[segment] = largest
        if beyond:
            return Refused("implausible_position", beyond)
        if not self._add(gained.keys()):
            return Refused("too_many_segments", self.most)
        return None

    def create(self, segments: AbstractSet[int]) -> None:
        """Take the successors of a scale event; raises `TooManySegments`, and changes nothing."""
        if not self._add(segments):
            raise TooManySegments(self.most)

    def join(self, position: Mapping[int, int]) -> None:
        """Take in what is known of offsets already."""
        join_into(self.offsets, position)

    def settle(self, final: Mapping[int, int], cuts: Iterable[Mapping[int, int]]) -> None:
        """Count no more the sealed segments that all of these cuts have whole.

        They are those of the first marks kept: no later mark costs anything for such a segment.
        """
        firsts = list(cuts)
        self._settled = sum(
            all(cut.get(segment, -1) >= offset for cut in firsts)
            for segment, offset in final.items()
        )

    def _add(self, segments: AbstractSet[int]) -> bool:
        """Add those that are new, if there is room for all of them."""
        new = segments - self.offsets.keys()
        if new and len(self.offsets) - self._settled + len(new) > self.most:
            return False
        self.offsets |= dict.fromkeys(new, -1)
        return True
