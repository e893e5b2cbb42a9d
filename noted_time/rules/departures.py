"""Which writers are gone, and when each may be forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.rules.time_queue import TimeQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from noted_time.rules.member import Member


class Departures:
    """The members that left or were excluded, by the service time since which they are silent.

    An entry may be stale: a member that came back is let go when its turn comes, one that was heard
    again is queued again, so nothing scans all members.
    """

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        """Begin with nobody gone."""
        self._queue: TimeQueue[Member] = TimeQueue()

    def add(self, member: Member) -> None:
        """Remember that the member is gone; it is queued once however often it goes."""
        if not member.is_queued_as_gone:
            member.is_queued_as_gone = True
            self._queue.push(member.silent_since, member)

    def due(self, before: int, is_done_with: Callable[[Member], bool], limit: int) -> list[Member]:
        """Take out at most `limit` members that are gone and silent since before `before`.

        One that the stream is not done with is asked for again the next time.
        """
        gone: list[Member] = []
        kept: list[Member] = []
        while self._queue.due(before) and len(gone) < limit:
            member = self._queue.at_least().pop()
            if not self._queue.at_least():
                self._queue.pop()
            member.is_queued_as_gone = False
            if member.is_gone:
                again = member.silent_since >= before or not is_done_with(member)
                (kept if again else gone).append(member)
        for member in kept:
            self.add(member)
        return gone
