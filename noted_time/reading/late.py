"""Keeps the reports of late rows (rows below the watermark), and finds the affected windows.

If there are too many, adjacent reports of a writer are merged, then the oldest are deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

from noted_time.values import (
    MAX_INT64,
    MIN_INT64,
    WRITERS_NAMED,
    Late,
    LatePlace,
    LateReport,
    LateWriter,
)

MOST_REPORTS = 10_000
"""For each stream, shared equally by its domains: about 4 MB."""


class LateReports:
    """The late-row reports of one domain, merged by writer and hours of event time and arrival.

    >>> late = LateReports()
    >>> _ = late.add(LateReport("pos", 3, 5, 8, first_seen_at=100, last_seen_at=100))
    >>> _ = late.add(LateReport("pos", 1, 7, 12, first_seen_at=200, last_seen_at=200))
    >>> late.find_between(0, 10).writers  # doctest: +NORMALIZE_WHITESPACE
    (LateWriter(writer='pos', rows=4, min_time=5, max_time=12, last_seen_at=200,
                may_lie_outside=True, may_have_more=False),)
    """

    __slots__ = ("_reports", "known_from", "seen_from_served_ms")

    def __init__(
        self,
        reports: Iterable[LateReport] = (),
        known_from: int = MIN_INT64,
        seen_from_served_ms: int = MIN_INT64,
    ) -> None:
        """Keep late-row reports.

        Late rows below `known_from`, and reports that were seen before `seen_from_served_ms` on the
        service clock, may be unknown.
        """
        self.known_from = known_from
        self.seen_from_served_ms = seen_from_served_ms
        self._reports = {each.place: each for each in reports}

    def __iter__(self) -> Iterator[LateReport]:
        return iter(self._reports.values())

    def __len__(self) -> int:
        return len(self._reports)

    def add(
        self, report: LateReport, most: int = MOST_REPORTS, *, is_correction: bool = False
    ) -> Mapping[LatePlace, LateReport | None]:
        """Return the new content of each changed place, `None` if its report was deleted.

        A correction replaces the writer's reports without a least time.
        """
        changed = self.drop_without_least(report.writer) if is_correction else set()
        changed.add(self._put(report))
        if len(self) > most:
            changed |= self._merge(most * 3 // 4)
        if len(self) > most:
            oldest = sorted(self, key=_get_seen_order)
            changed |= self._forget(oldest[: len(self) - most * 3 // 4])
        return {place: self._reports.get(place) for place in changed}

    def forget_before(self, at: int) -> Iterable[LatePlace]:
        """Delete the reports that were received before `at` on the service clock."""
        dated = ((each, each.seen_served_ms) for each in self)
        return self._forget([each for each, served in dated if served is not None and served < at])

    def since(self, since_served_ms: int) -> LateReports:
        """Return the reports with a least time that were seen since a service moment.

        A report whose service moment is not known may be one of them.
        """
        recent = self._list_seen_since(since_served_ms)
        return LateReports((each for each in recent if each.min_time is not None), self.known_from)

    def writers_without_least(self, since_served_ms: int) -> list[str]:
        """Return the writers of reports without a least time, seen since a service moment."""
        recent = self._list_seen_since(since_served_ms)
        return sorted({each.writer for each in recent if each.min_time is None})

    def has_all_since(self, since_served_ms: int) -> bool:
        """Return whether all reports that were seen since a service moment are kept."""
        return self.seen_from_served_ms <= since_served_ms

    def _list_seen_since(self, since_served_ms: int) -> Iterator[LateReport]:
        for each in self:
            if each.seen_served_ms is None or each.seen_served_ms >= since_served_ms:
                yield each

    def _put(self, report: LateReport) -> LatePlace:
        place = report.place
        known = self._reports.get(place)
        self._reports[place] = known.join(report) if known else report
        return place

    def drop_without_least(self, writer: str) -> set[LatePlace]:
        places = {each.place for each in self if each.writer == writer and each.min_time is None}
        for each in places:
            del self._reports[each]
        return places

    def _forget(self, reports: Iterable[LateReport]) -> set[LatePlace]:
        places = set()
        for each in reports:
            places.add(each.place)
            del self._reports[each.place]
            self.known_from = max(self.known_from, min(each.max_time, MAX_INT64 - 1) + 1)
            # if the moment is not known, no changes before the deletion are
            seen_served_ms = MAX_INT64 - 1 if each.seen_served_ms is None else each.seen_served_ms
            self.seen_from_served_ms = max(self.seen_from_served_ms, seen_served_ms + 1)
        return places

    def _merge(self, most: int) -> set[LatePlace]:
        changed: set[LatePlace] = set()
        of_writers: defaultdict[tuple[str, bool], list[LateReport]] = defaultdict(list)
        for each in sorted(self, key=attrgetter("first", "max_time", "first_seen_at")):
            of_writers[each.writer, each.min_time is None].append(each)
        for reports in sorted(of_writers.values(), key=len, reverse=True):
            if len(self) <= most:
                break
            for one, other in zip(reports[::2], reports[1::2], strict=False):
                changed |= {one.place, other.place}
                pop = self._reports.pop
                changed.add(self._put(pop(one.place).join(pop(other.place))))
        return changed

    def find_between(self, start: int, end: int) -> Late:
        """Return the late rows that may have a time from `start` to `end`, exclusive."""
        return self._select(self, start, end)

    def find_dated(self, start: int, end: int) -> Late:
        """Return only rows whose least time is known."""
        return self._select((each for each in self if each.min_time is not None), start, end)

    def find_in_windows(self, borders: Sequence[int]) -> Iterator[Late]:
        first, beyond = borders[0], borders[-1]
        overlapping = [each for each in self if each.first < beyond and each.max_time >= first]
        for start, end in pairwise(borders):
            yield self._select(overlapping, start, end)

    def _select(self, reports: Iterable[LateReport], start: int, end: int) -> Late:
        sums = sum_by_writer(
            each for each in reports if each.first < end and each.max_time >= start
        )
        sums.sort(key=lambda each: (-each.rows, each.writer))
        writers = tuple(
            LateWriter(
                each.writer,
                each.rows,
                each.min_time,
                each.max_time,
                each.last_seen_at,
                each.first < start or each.max_time >= end,
                each.may_have_more,
            )
            for each in sums[:WRITERS_NAMED]
        )
        return Late(writers, len(sums), start >= self.known_from)


def _get_seen_order(report: LateReport) -> tuple[bool, int]:
    if report.seen_served_ms is None:
        return False, report.last_seen_at
    return True, report.seen_served_ms


def sum_by_writer(reports: Iterable[LateReport]) -> list[LateReport]:
    sums: dict[str, LateReport] = {}
    for each in reports:
        known = sums.get(each.writer)
        sums[each.writer] = known.join(each) if known else each
    return [*sums.values()]
