"""What one reader of a group has reported, and the position of the group.

Reports coalesce: the latest offset of each segment wins. The group's position is that of the last
answer, with the reader's own segments as last reported.

Two sides use it without locks: the caller sets how far it read, and one thread or task reports it.
Each side replaces what it owns as a whole, so the other always sees a consistent value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True, eq=False)
class LeaveRequest:
    """A request to go offline with the segments at `position`; `is_done` once it succeeded."""

    position: Mapping[int, int]
    is_done: bool = False


class _Reported(NamedTuple):
    """How far the reader has read since it is online, or its request to leave.

    `turn` counts how often it released segments.
    """

    own: Mapping[int, int]
    leaving: LeaveRequest | None
    turn: int = 0


class _Acknowledged(NamedTuple):
    """The group's position as of the last answer, and which of the reader's offsets it has.

    `acknowledged` is `None` if the controller does not know the reader. What was acknowledged in an
    earlier `turn` counts no more: another reader may have reported the segments since.
    """

    answered: Mapping[int, int] | None
    acknowledged: Mapping[int, int] | None
    turn: int = 0


class Reports:
    """The unanswered reports of one reader; no thread, no clock, no network.

    >>> reports = Reports()
    >>> reports.position is None, reports.take()
    (True, {})
    >>> reports.record_answer({1: 7})
    >>> reports.report({0: 10}); reports.report({0: 12})
    >>> reports.position
    {1: 7, 0: 12}
    >>> reports.take()
    {0: 12}

    A report whose outcome is unknown is repeated, with what was read meanwhile:

    >>> reports.report({2: 5}); reports.put_back()
    >>> reports.take()
    {0: 12, 2: 5}

    All of it is reported again if the controller no longer knows the reader:

    >>> reports.record_answer({0: 12, 1: 7, 2: 5}); reports.take()
    {}
    >>> reports.announce(); reports.take()
    {0: 12, 2: 5}

    A segment that was released is not among it. Once it is this reader's again it is reported,
    also at the same offset, because another reader may have reported it meanwhile:

    >>> reports.record_answer({0: 12, 1: 7, 2: 5}); reports.release({0}); reports.take()
    {2: 5}
    >>> reports.record_answer({0: 14, 1: 7, 2: 5}); reports.report({0: 12}); reports.take()
    {0: 12}
    """

    def __init__(self) -> None:
        self._said = _Reported({}, None)
        self._known = _Acknowledged(None, None)
        self._under_way: Mapping[int, int] = {}
        self._combined: tuple[_Reported, _Acknowledged, Mapping[int, int] | None] | None = None

    # The caller

    def report(self, position: Mapping[int, int]) -> None:
        """Report how far the reader has read in these segments; it is online again."""
        said = self._said
        left = said.leaving is not None and said.leaving.is_done
        own = {**({} if left else said.own), **position}
        self._said = said._replace(own=own, leaving=None)

    def leave(self, position: Mapping[int, int]) -> LeaveRequest:
        """Request to go offline with the segments reset to `position`."""
        leaving = LeaveRequest(position)
        self._said = self._said._replace(leaving=leaving)
        return leaving

    def release(self, segments: Collection[int]) -> None:
        """Report nothing more of these segments, because another reader may have them now."""
        said = self._said
        own = {s: offset for s, offset in said.own.items() if s not in segments}
        self._said = said._replace(own=own, turn=said.turn + 1)

    @property
    def position(self) -> Mapping[int, int] | None:
        """The position of the group, `None` before the first answer."""
        said, known = self._said, self._known
        combined = self._combined
        if combined is None or combined[0] is not said or combined[1] is not known:
            combined = self._combined = (said, known, _combine(said, known))
        return combined[2]

    # The thread or task that reports

    @property
    def leaving(self) -> LeaveRequest | None:
        """The request to go offline, if it is the reader's latest and not done yet."""
        leaving = self._said.leaving
        return None if leaving is None or leaving.is_done else leaving

    @property
    def is_online(self) -> bool:
        """Whether the reader takes part in the group, or is about to."""
        return self._said.leaving is None

    @property
    def due(self) -> bool:
        """Whether there is something to report, even for a reader that is about to leave."""
        said, known = self._said, self._known
        if said.leaving is not None and said.leaving.is_done:
            return False
        return known.acknowledged is None or bool(_find_unreported(said, known))

    def announce(self) -> None:
        """Report all of it again: the controller does not know the reader."""
        self._known = self._known._replace(acknowledged=None)

    def take(self) -> Mapping[int, int]:
        """Return what has to be reported now."""
        said, known = self._said, self._known
        if known.turn != said.turn:
            forgotten: Mapping[int, int] | None = None if known.acknowledged is None else {}
            self._known = known = known._replace(acknowledged=forgotten, turn=said.turn)
        self._under_way = _find_unreported(said, known)
        return self._under_way

    def record_answer(self, position: Mapping[int, int]) -> None:
        """Record the position of the group, which includes the report under way."""
        acknowledged = {**(self._known.acknowledged or {}), **self._under_way}
        self._known = self._known._replace(answered=dict(position), acknowledged=acknowledged)
        self._under_way = {}

    def record_refresh(self, position: Mapping[int, int]) -> None:
        """Record the position of the group, with nothing under way."""
        self._known = self._known._replace(answered=dict(position))

    def put_back(self) -> None:
        """Report again what may or may not have arrived."""
        acknowledged = self._known.acknowledged
        if acknowledged is not None:
            kept = {s: o for s, o in acknowledged.items() if s not in self._under_way}
            self._known = self._known._replace(acknowledged=kept)
        self._under_way = {}

    def record_offline(
        self, leaving: LeaveRequest, position: Mapping[int, int] | None = None
    ) -> None:
        """Record that the reader is offline, and the position of the group if it is known."""
        answered = self._known.answered if position is None else dict(position)
        self._known = self._known._replace(answered=answered, acknowledged=None)
        leaving.is_done = True


def _find_unreported(said: _Reported, known: _Acknowledged) -> Mapping[int, int]:
    acknowledged = (known.acknowledged or {}) if known.turn == said.turn else {}
    return {s: offset for s, offset in said.own.items() if acknowledged.get(s) != offset}


def _combine(said: _Reported, known: _Acknowledged) -> Mapping[int, int] | None:
    if known.answered is None:
        return None
    return {**known.answered, **({} if said.leaving else _find_unreported(said, known))}
