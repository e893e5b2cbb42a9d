"""The reports of one reader of a group, and the known position of the group.

The caller and the reporting thread replace their values as a whole, so no locks are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True, eq=False)
class LeaveRequest:
    """A request to go offline at `position`."""

    position: Mapping[int, int]
    is_done: bool = False


class _Reported(NamedTuple):
    own: Mapping[int, int]

    leaving: LeaveRequest | None
    releases: int = 0


class _Acknowledged(NamedTuple):
    answered: Mapping[int, int] | None

    acknowledged: Mapping[int, int] | None  # `None` if the controller does not know the reader
    releases: int = 0


class Reports:
    """The unanswered reports of one reader, without I/O.

    >>> reports = Reports()
    >>> reports.position is None, reports.take()
    (True, {})
    >>> reports.record_answer({1: 7})
    >>> reports.report({0: 10}); reports.report({0: 12})
    >>> reports.position
    {1: 7, 0: 12}
    >>> reports.take()
    {0: 12}

    A report without an answer is repeated, together with new offsets:

    >>> reports.report({2: 5}); reports.put_back()
    >>> reports.take()
    {0: 12, 2: 5}

    When a reader gets a released segment back, even an unchanged offset is reported, because
    another reader may have reported the segment:

    >>> reports.record_answer({0: 12, 1: 7, 2: 5}); reports.release({0}); reports.take()
    {2: 5}
    >>> reports.record_answer({0: 14, 1: 7, 2: 5}); reports.report({0: 12}); reports.take()
    {0: 12}
    """

    def __init__(self) -> None:
        self._latest = _Reported({}, None)
        self._known = _Acknowledged(None, None)
        self._under_way: Mapping[int, int] = {}
        self._combined: tuple[_Reported, _Acknowledged, Mapping[int, int] | None] | None = None

    def report(self, position: Mapping[int, int]) -> None:
        latest = self._latest
        has_left = latest.leaving is not None and latest.leaving.is_done
        own = {**({} if has_left else latest.own), **position}
        self._latest = latest._replace(own=own, leaving=None)

    def leave(self, position: Mapping[int, int]) -> LeaveRequest:
        leaving = LeaveRequest(position)
        self._latest = self._latest._replace(leaving=leaving)
        return leaving

    def release(self, segments: Collection[int]) -> None:
        latest = self._latest
        own = {s: offset for s, offset in latest.own.items() if s not in segments}
        self._latest = latest._replace(own=own, releases=latest.releases + 1)

    @property
    def position(self) -> Mapping[int, int] | None:
        latest, known = self._latest, self._known
        combined = self._combined
        if combined is None or combined[0] is not latest or combined[1] is not known:
            combined = self._combined = (latest, known, _combine(latest, known))
        return combined[2]

    @property
    def leaving(self) -> LeaveRequest | None:
        leaving = self._latest.leaving
        return None if leaving is None or leaving.is_done else leaving

    @property
    def is_online(self) -> bool:
        return self._latest.leaving is None

    @property
    def due(self) -> bool:
        """Whether there are offsets to report, which a leaving reader does first."""
        latest, known = self._latest, self._known
        if latest.leaving is not None and latest.leaving.is_done:
            return False
        return known.acknowledged is None or bool(_find_unreported(latest, known))

    def announce(self) -> None:
        self._known = self._known._replace(acknowledged=None)

    def take(self) -> Mapping[int, int]:
        latest, known = self._latest, self._known
        if known.releases != latest.releases:
            offsets: Mapping[int, int] | None = None if known.acknowledged is None else {}
            self._known = known = known._replace(acknowledged=offsets, releases=latest.releases)
        self._under_way = _find_unreported(latest, known)
        return self._under_way

    def record_answer(self, position: Mapping[int, int]) -> None:
        acknowledged = {**(self._known.acknowledged or {}), **self._under_way}
        self._known = self._known._replace(answered=dict(position), acknowledged=acknowledged)
        self._under_way = {}

    def record_refresh(self, position: Mapping[int, int]) -> None:
        self._known = self._known._replace(answered=dict(position))

    def put_back(self) -> None:
        acknowledged = self._known.acknowledged
        if acknowledged is not None:
            kept = {s: o for s, o in acknowledged.items() if s not in self._under_way}
            self._known = self._known._replace(acknowledged=kept)
        self._under_way = {}

    def record_offline(
        self, leaving: LeaveRequest, position: Mapping[int, int] | None = None
    ) -> None:
        answered = self._known.answered if position is None else dict(position)
        self._known = self._known._replace(answered=answered, acknowledged=None)
        leaving.is_done = True


def _find_unreported(latest: _Reported, known: _Acknowledged) -> Mapping[int, int]:
    acknowledged = (known.acknowledged or {}) if known.releases == latest.releases else {}
    return {s: offset for s, offset in latest.own.items() if acknowledged.get(s) != offset}


def _combine(latest: _Reported, known: _Acknowledged) -> Mapping[int, int] | None:
    if known.answered is None:
        return None
    return {**known.answered, **({} if latest.leaving else _find_unreported(latest, known))}
