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


class _Latest(NamedTuple):
    """The latest calls of the reader."""

    reader_position: Mapping[int, int]
    leaving: LeaveRequest | None
    releases: int = 0


class _Answer(NamedTuple):
    """The last answer of the controller, `None` before it."""

    group_position: Mapping[int, int] | None
    acknowledged: Mapping[int, int] | None  # `None` if the controller does not know the reader
    releases: int = 0


class _Combination(NamedTuple):
    """The position that a call and an answer result in."""

    latest: _Latest
    answer: _Answer
    position: Mapping[int, int] | None


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
        self._latest = _Latest({}, None)
        self._answer = _Answer(None, None)
        self._under_way: Mapping[int, int] = {}
        self._combination: _Combination | None = None

    def report(self, position: Mapping[int, int]) -> None:
        latest = self._latest
        if latest.leaving is not None and latest.leaving.is_done:
            reader_position = dict(position)
        else:
            reader_position = {**latest.reader_position, **position}
        self._latest = latest._replace(reader_position=reader_position, leaving=None)

    def leave(self, position: Mapping[int, int]) -> LeaveRequest:
        leaving = LeaveRequest(position)
        self._latest = self._latest._replace(leaving=leaving)
        return leaving

    def release(self, segments: Collection[int]) -> None:
        latest = self._latest
        reader_position = drop_segments(latest.reader_position, segments)
        self._latest = latest._replace(
            reader_position=reader_position, releases=latest.releases + 1
        )

    @property
    def position(self) -> Mapping[int, int] | None:
        latest = self._latest
        answer = self._answer
        combination = self._combination
        if (
            combination is None
            or combination.latest is not latest
            or combination.answer is not answer
        ):
            combination = _Combination(latest, answer, _combine(latest, answer))
            self._combination = combination
        return combination.position

    @property
    def leaving(self) -> LeaveRequest | None:
        leaving = self._latest.leaving
        if leaving is None or leaving.is_done:
            return None
        return leaving

    @property
    def is_online(self) -> bool:
        return self._latest.leaving is None

    @property
    def due(self) -> bool:
        """Whether there are offsets to report, which a leaving reader does first."""
        latest = self._latest
        if latest.leaving is not None and latest.leaving.is_done:
            return False
        answer = self._answer
        return answer.acknowledged is None or bool(_find_unreported(latest, answer))

    def announce(self) -> None:
        self._answer = self._answer._replace(acknowledged=None)

    def take(self) -> Mapping[int, int]:
        latest = self._latest
        answer = self._answer
        if answer.releases != latest.releases:
            if answer.acknowledged is not None:
                answer = answer._replace(acknowledged={})
            answer = answer._replace(releases=latest.releases)
            self._answer = answer
        self._under_way = _find_unreported(latest, answer)
        return self._under_way

    def record_answer(self, position: Mapping[int, int]) -> None:
        offsets = {**(self._answer.acknowledged or {}), **self._under_way}
        self._answer = self._answer._replace(group_position=dict(position), acknowledged=offsets)
        self._under_way = {}

    def record_refresh(self, position: Mapping[int, int]) -> None:
        self._answer = self._answer._replace(group_position=dict(position))

    def put_back(self) -> None:
        offsets = self._answer.acknowledged
        if offsets is not None:
            offsets = drop_segments(offsets, self._under_way)
            self._answer = self._answer._replace(acknowledged=offsets)
        self._under_way = {}

    def record_offline(
        self, leaving: LeaveRequest, position: Mapping[int, int] | None = None
    ) -> None:
        if position is not None:
            self._answer = self._answer._replace(group_position=dict(position))
        self._answer = self._answer._replace(acknowledged=None)
        leaving.is_done = True


def drop_segments(position: Mapping[int, int], segments: Collection[int]) -> dict[int, int]:
    return {segment: offset for segment, offset in position.items() if segment not in segments}


def _find_unreported(latest: _Latest, answer: _Answer) -> Mapping[int, int]:
    if latest.releases != answer.releases or answer.acknowledged is None:
        return latest.reader_position
    return {
        segment: offset
        for segment, offset in latest.reader_position.items()
        if answer.acknowledged.get(segment) != offset
    }


def _combine(latest: _Latest, answer: _Answer) -> Mapping[int, int] | None:
    """Return the group's position with the unreported offsets, `None` without an answer."""
    if answer.group_position is None:
        return None
    if latest.leaving:
        return answer.group_position
    return {**answer.group_position, **_find_unreported(latest, answer)}
