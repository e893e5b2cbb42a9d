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
        self._reports = {report.place: report for report in reports}

    def __iter__(self) -> Iterator[LateReport]:
        return iter(self._reports.values())

    def __len__(self) -> int:
        return len(self._reports)

    def add(
        self, report: LateReport, limit: int = MOST_REPORTS, *, is_correction: bool = False
    ) -> Mapping[LatePlace, LateReport | None]:
        """Return the new content of each changed place, `None` if its report was deleted.

        A correction replaces the writer's reports without a least time.
        """
        if is_correction:
            changed_places = self.drop_without_least(report.writer)
        else:
            changed_places = set()
        changed_places.add(self._put(report))
        if len(self) > limit:
            changed_places |= self._merge(limit * 3 // 4)
        if len(self) > limit:
            oldest = sorted(self, key=_get_seen_order)
            changed_places |= self._forget(oldest[: len(self) - limit * 3 // 4])
        return {place: self._reports.get(place) for place in changed_places}

    def forget_before(self, before_served_ms: int) -> Iterable[LatePlace]:
        """Delete the reports that were received before this moment of the service clock."""
        old_reports: list[LateReport] = []
        for report in self:
            if report.seen_served_ms is not None and report.seen_served_ms < before_served_ms:
                old_reports.append(report)
        return self._forget(old_reports)

    def since(self, since_served_ms: int) -> LateReports:
        """Return the reports with a least time that were seen since a service moment.

        A report whose service moment is not known may be one of them.
        """
        recent_reports = self._list_seen_since(since_served_ms)
        return LateReports(
            (report for report in recent_reports if report.min_time is not None), self.known_from
        )

    def writers_without_least(self, since_served_ms: int) -> list[str]:
        """Return the writers of reports without a least time, seen since a service moment."""
        recent_reports = self._list_seen_since(since_served_ms)
        return sorted({report.writer for report in recent_reports if report.min_time is None})

    def has_all_since(self, since_served_ms: int) -> bool:
        """Return whether all reports that were seen since a service moment are kept."""
        return self.seen_from_served_ms <= since_served_ms

    def _list_seen_since(self, since_served_ms: int) -> Iterator[LateReport]:
        for report in self:
            if report.seen_served_ms is None or report.seen_served_ms >= since_served_ms:
                yield report

    def _put(self, report: LateReport) -> LatePlace:
        place = report.place
        earlier_report = self._reports.get(place)
        self._reports[place] = earlier_report.join(report) if earlier_report else report
        return place

    def drop_without_least(self, writer: str) -> set[LatePlace]:
        """Delete the writer's reports without a least time, and return their places."""
        places: set[LatePlace] = set()
        for report in self:
            if report.writer == writer and report.min_time is None:
                places.add(report.place)
        for place in places:
            del self._reports[place]
        return places

    def _forget(self, reports: Iterable[LateReport]) -> set[LatePlace]:
        """Delete reports, and return their places.

        Below `known_from` and before `seen_from_served_ms`, reports are then not all known.
        """
        places = set()
        for report in reports:
            places.add(report.place)
            del self._reports[report.place]
            self.known_from = max(self.known_from, min(report.max_time, MAX_INT64 - 1) + 1)
            seen_served_ms = report.seen_served_ms
            if seen_served_ms is None:
                # it may have been seen at any moment until now
                seen_served_ms = MAX_INT64 - 1
            self.seen_from_served_ms = max(self.seen_from_served_ms, seen_served_ms + 1)
        return places

    def _merge(self, limit: int) -> set[LatePlace]:
        changed_places: set[LatePlace] = set()
        reports_by_writer: defaultdict[tuple[str, bool], list[LateReport]] = defaultdict(list)
        for report in sorted(self, key=attrgetter("first", "max_time", "first_seen_at")):
            reports_by_writer[report.writer, report.min_time is None].append(report)
        for reports in sorted(reports_by_writer.values(), key=len, reverse=True):
            if len(self) <= limit:
                break
            for first_report, next_report in zip(reports[::2], reports[1::2], strict=False):
                changed_places |= {first_report.place, next_report.place}
                pop = self._reports.pop
                changed_places.add(self._put(pop(first_report.place).join(pop(next_report.place))))
        return changed_places

    def find_between(self, start: int, end: int) -> Late:
        """Return the late rows that may have a time from `start` to `end`, exclusive."""
        return self._select(self, start, end)

    def find_dated(self, start: int, end: int) -> Late:
        """Return only rows whose least time is known."""
        return self._select((report for report in self if report.min_time is not None), start, end)

    def find_in_windows(self, borders: Sequence[int]) -> Iterator[Late]:
        start_of_all = borders[0]
        end_of_all = borders[-1]
        overlapping_reports = [
            report
            for report in self
            if report.first < end_of_all and report.max_time >= start_of_all
        ]
        for start, end in pairwise(borders):
            yield self._select(overlapping_reports, start, end)

    def _select(self, reports: Iterable[LateReport], start: int, end: int) -> Late:
        summed_reports = sum_by_writer(
            report for report in reports if report.first < end and report.max_time >= start
        )
        summed_reports.sort(key=lambda report: (-report.rows, report.writer))
        writers = tuple(
            LateWriter(
                report.writer,
                report.rows,
                report.min_time,
                report.max_time,
                report.last_seen_at,
                report.first < start or report.max_time >= end,
                report.may_have_more,
            )
            for report in summed_reports[:WRITERS_NAMED]
        )
        return Late(writers, len(summed_reports), start >= self.known_from)


def _get_seen_order(report: LateReport) -> tuple[bool, int]:
    if report.seen_served_ms is None:
        return False, report.last_seen_at
    return True, report.seen_served_ms


def sum_by_writer(reports: Iterable[LateReport]) -> list[LateReport]:
    reports_by_writer: dict[str, LateReport] = {}
    for report in reports:
        earlier_report = reports_by_writer.get(report.writer)
        reports_by_writer[report.writer] = earlier_report.join(report) if earlier_report else report
    return [*reports_by_writer.values()]
