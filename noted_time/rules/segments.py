"""The segments of a stream, their last known offsets, and the member that writes to each.

If two members write to a segment, one's position may cover rows that the other has not noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from noted_time.rules.member import Member
from noted_time.values import (
    MAX_INT64,
    InvalidScale,
    Refused,
    ScaleEvent,
    StreamSettings,
    Succession,
    TooManySegments,
    join_into,
)

NOT_NAMED = -MAX_INT64 - 2
"""The jump from it to any offset is too large."""

ANY_JUMP = MAX_INT64 + 1

LARGEST_FIRST_OFFSET = 2**62
"""High, because the log may be old."""


class KnownSegments:
    """The last known offset of each segment, at first -1, and the bounds of segments and offsets.

    One wrong offset would be in all later cuts, and each segment takes memory in all marks.

    >>> from noted_time.values.settings import StreamSettings
    >>> segments = KnownSegments(StreamSettings(max_segments=2, max_offset_jump=10))
    >>> segments.join({0: 5})
    >>> segments.admit({0: 15, 1: 70})
    >>> segments.admit({0: 16}).last
    {0: 15}
    >>> segments.admit({1: 0, 2: 0}).status
    'too_many_segments'
    """

    __slots__ = ("_not_counted", "max_jump", "max_segments", "offsets")

    def __init__(self, settings: StreamSettings) -> None:
        self.offsets: dict[int, int] = {}
        self._not_counted = 0
        self.reconfigure(settings)

    def load(self, succession: Succession, cuts: Iterable[Mapping[int, int]]) -> None:
        self.offsets |= dict.fromkeys(succession.created, -1)
        self.join(succession.final)
        for cut in cuts:
            self.join(cut)

    def reconfigure(self, settings: StreamSettings) -> None:
        self.max_segments = settings.max_segments
        jump = settings.max_offset_jump
        self.max_jump = ANY_JUMP if jump is None else jump

    def admit(self, new_offsets: Mapping[int, int]) -> Refused | None:
        last_offsets = self.offsets
        max_jump = self.max_jump
        largest_offsets = {}
        for segment, offset in new_offsets.items():
            last_offset = last_offsets.get(segment, -1)
            if last_offset >= 0:
                largest_offset = last_offset + max_jump
            else:
                largest_offset = max(max_jump, LARGEST_FIRST_OFFSET)
            if offset > largest_offset:
                largest_offsets[segment] = largest_offset
        if largest_offsets:
            return Refused("implausible_position", largest_offsets)
        if not self._add(new_offsets.keys()):
            return Refused("too_many_segments", self.max_segments)
        return None

    def scale(self, event: ScaleEvent, succession: Succession, members: Iterable[Member]) -> None:
        known_segments = self.offsets.keys()
        succession.check(event, known_segments)
        for member in members:
            for segment, offset in event.sealed.items():
                noted_offset = member.position.get(segment, 0)
                if noted_offset > offset:
                    reason = (
                        f"sealed at {offset}, but writer {member.writer!r} noted {noted_offset}"
                    )
                    raise InvalidScale(segment, reason)
        if not self._add(event.created.keys()):
            raise TooManySegments(self.max_segments)
        self.join(event.sealed)
        succession.scale(event, known_segments)

    def join(self, position: Mapping[int, int]) -> None:
        join_into(self.offsets, position)

    def stop_counting_sealed(
        self, final: Mapping[int, int], cuts: Iterable[Mapping[int, int]]
    ) -> None:
        """Stop counting the sealed segments below all `cuts`, the first kept marks."""
        first_cuts = list(cuts)
        self._not_counted = 0
        for segment, offset in final.items():
            if all(cut and cut.get(segment, 0) >= offset for cut in first_cuts):
                self._not_counted += 1

    def _add(self, segments: AbstractSet[int]) -> bool:
        new_segments = segments - self.offsets.keys()
        if (
            new_segments
            and len(self.offsets) - self._not_counted + len(new_segments) > self.max_segments
        ):
            return False
        self.offsets |= dict.fromkeys(new_segments, -1)
        return True


class SegmentWriters:
    """The member that writes to each segment, in memory that grows with segments only.

    A member stops being the writer of a sealed segment once it has reached its end.
    """

    __slots__ = ("_final", "_passed", "_shared", "_writers")

    def __init__(self, final: Mapping[int, int], cuts: Iterable[Mapping[int, int]] = ()) -> None:
        """Start with the last `cuts`; the caller updates `final`."""
        self._final = final
        self._writers: dict[int, Member] = {}
        self._shared: set[int] = set()
        self._passed: set[int] = set()
        for cut in cuts:
            self.record_writer(Member("", "finished", position=dict(cut)), cut)

    def record_writer(
        self, member: Member, segments: Iterable[int], *, is_returning: bool = False
    ) -> None:
        for segment in segments:
            writer = self._writers.setdefault(segment, member)
            if writer is not member:
                self._add_second_writer(segment, writer, member, is_returning=is_returning)

    def _add_second_writer(
        self, segment: int, writer: Member, member: Member, *, is_returning: bool
    ) -> None:
        writer_offset = writer.position.get(segment, 0)
        member_offset = member.position.get(segment, 0)
        if writer.state == "finished" and (is_returning or writer_offset <= member_offset):
            self._writers[segment] = member
        elif self._final.get(segment) in (writer_offset, member_offset):
            self._passed.add(segment)
            if member_offset < writer_offset:
                self._writers[segment] = member
        elif member.state != "finished" or writer_offset < member_offset:
            self._shared.add(segment)

    def writer(self, segment: int) -> Member | None:
        return self._writers.get(segment)

    def is_noted(self, cut: Mapping[int, int]) -> bool:
        """Return whether each row below the cut was noted by the member that wrote it."""
        if any(cut.get(segment) for segment in self._shared):
            return False
        for segment in self._passed:
            if cut.get(segment, 0) > self._writers[segment].position.get(segment, 0):
                return False
        return True

    def may_pass(self, member: Member) -> bool:
        """Return whether a cut may cover rows of the member that it did not note."""
        for segment, offset in member.position.items():
            if segment in self._shared:
                return True
            if segment in self._passed and offset < self._final[segment]:
                return True
        return False

    def is_needed(self, member: Member) -> bool:
        """Return whether only this member shows that a segment may have rows it did not note."""
        if member.state == "finished":
            return False
        for segment in member.position:
            if self._writers[segment] is member and segment not in self._shared:
                return True
        return False
