"""What one reader of a group has reported, and where the group stands together.

Reports coalesce: the latest offset of each segment wins. The group's position is that of the last
answer, with the reader's own segments as it last said them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reports:
    """The reports of one reader on their way; no thread, no clock, no network.

    >>> reports = Reports()
    >>> reports.position is None, reports.take()
    (True, {})
    >>> reports.answered({1: 7})
    >>> reports.report({0: 10}); reports.report({0: 12})
    >>> reports.position
    {1: 7, 0: 12}
    >>> reports.take()
    {0: 12}

    A report whose outcome is unknown is made again, with what was read meanwhile:

    >>> reports.report({2: 5}); reports.put_back()
    >>> reports.take()
    {0: 12, 2: 5}
    """

    def __init__(self) -> None:
        """Begin without an answer, and with the reader to be announced."""
        self.due = True
        self.position: dict[int, int] | None = None
        self._answered: dict[int, int] | None = None
        self._pending: dict[int, int] = {}
        self._under_way: dict[int, int] = {}

    def report(self, position: Mapping[int, int]) -> None:
        """Report how far the reader has read in these segments."""
        self._pending.update(position)
        self.due = True
        self._combine()

    def announce(self) -> None:
        """Have the reader reported again: the controller does not know it."""
        self.due = True

    def take(self) -> dict[int, int]:
        """Return what is to be reported now."""
        self._under_way, self._pending = self._pending, {}
        self.due = False
        return self._under_way

    def answered(self, position: Mapping[int, int]) -> None:
        """Learn the position of the group, which holds what was under way."""
        self._under_way = {}
        self._answered = dict(position)
        self._combine()

    def put_back(self) -> None:
        """Take back what may not have arrived."""
        self._pending = self._under_way | self._pending
        self._under_way = {}
        self.due = True

    def _combine(self) -> None:
        if self._answered is not None:
            self.position = self._answered | self._under_way | self._pending
