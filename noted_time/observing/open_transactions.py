"""Tracks open transactions, whose records readers cannot see yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noted_time.values import LogFact


class OpenTransactions:
    """The segments with an open transaction; `now` is in Unix ms.

    A poll must read the high watermarks *before* `ends`, the last stable offsets.

    >>> open_transactions = OpenTransactions()
    >>> open_transactions.take({0: 9, 1: 5}, {0: 4, 1: 5}, now=100)
    (LogFact(kind='open_transaction', segment=0, offset=4, time=100, by=None, count=None),)
    >>> open_transactions.take({0: 9, 1: 5}, {0: 4, 1: 5}, now=200) == _
    True
    """

    def __init__(self) -> None:
        self._facts: dict[int, LogFact] = {}
        self._unread: set[int] = set()

    def take(
        self, high: Mapping[int, int], ends: Mapping[int, int], *, now: int
    ) -> Sequence[LogFact]:
        former_facts = self._facts
        self._facts = {}
        for segment, end in ends.items():
            if end < high[segment]:
                former_fact = former_facts.get(segment)
                since = now
                if former_fact is not None and former_fact.offset == end:
                    since = former_fact.time
                self._facts[segment] = LogFact("open_transaction", segment, end, since)
        return tuple(sorted(self._facts.values(), key=lambda fact: (fact.time, fact.segment)))

    def find_active(self, high: Mapping[int, int], position: Mapping[int, int]) -> set[int]:
        """Return the segments, not idle, that are not read up to the high watermark or were not.

        Call it once per poll.
        """
        before = self._unread
        self._unread = {segment for segment, end in high.items() if position[segment] < end}
        return before | self._unread
