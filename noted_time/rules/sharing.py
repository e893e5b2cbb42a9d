"""Which member writes to which segment, and where a cut may cover what its writer has not noted.

A position covers a segment up to an offset, whoever wrote the rows below it. Where one member
alone writes to the segment, it noted all of them; where two do, the position of one may cover rows
of the other that are not noted yet. A writer names a segment before it writes to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.rules.member import Member

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Sharing:
    """The member that writes to each segment: memory for each segment, not for each member.

    A segment whose writer finished may have another one. A member at the end of a sealed segment
    writes no more to it: to name a successor is not to write to its predecessors, but covers all of
    them, and so what their writers have still to note.
    """

    __slots__ = ("_final", "_passed", "_shared", "_writers")

    def __init__(self, final: Mapping[int, int], cuts: Iterable[Mapping[int, int]] = ()) -> None:
        """Begin with the ends of sealed segments, which grow elsewhere, and with the last cuts.

        What no member names of these was written by members that are forgotten.
        """
        self._final = final
        self._writers: dict[int, Member] = {}
        self._shared: set[int] = set()
        self._passed: set[int] = set()
        for cut in cuts:
            self.name(Member("", "finished", position=dict(cut)), cut)

    def name(self, member: Member, segments: Iterable[int], *, again: bool = False) -> None:
        """Take in that a member names these segments, or that it is back and may write `again`."""
        for segment in segments:
            writer = self._writers.setdefault(segment, member)
            if writer is not member:
                self._name_too(segment, writer, member, again=again)

    def _name_too(self, segment: int, writer: Member, member: Member, *, again: bool) -> None:
        noted, offset = writer.position.get(segment, 0), member.position.get(segment, 0)
        if writer.state == "finished" and (again or noted <= offset):
            self._writers[segment] = member
        elif self._final.get(segment) in (noted, offset):
            self._passed.add(segment)
            if offset < noted:
                self._writers[segment] = member
        elif member.state != "finished" or noted < offset:
            self._shared.add(segment)

    def is_noted(self, cut: Mapping[int, int]) -> bool:
        """Whether all that the cut covers was noted by who wrote it."""
        return not any(cut.get(segment) for segment in self._shared) and not any(
            cut.get(segment, 0) > self._writers[segment].position.get(segment, 0)
            for segment in self._passed
        )

    def may_pass(self, member: Member) -> bool:
        """Whether a cut may cover rows of the member that it did not note."""
        return any(
            segment in self._shared or (segment in self._passed and offset < self._final[segment])
            for segment, offset in member.position.items()
        )

    def is_needed(self, member: Member) -> bool:
        """Whether the member alone tells that more was written to a segment than it noted."""
        return member.state != "finished" and any(
            self._writers[segment] is member and segment not in self._shared
            for segment in member.position
        )
