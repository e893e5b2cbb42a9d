"""Finds the complete windows of time, and the cuts between which their rows are.

A window is complete once a mark's lower is at or above its end: all its rows are below that cut. If
all writers declare their largest event times, none of its rows are below a cut whose upper is below
its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise, repeat
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from noted_time.reading.coverage import Coverage, Gaps
from noted_time.reading.history import MarkHistory
from noted_time.reading.late import LateReports
from noted_time.reading.units import check_time
from noted_time.values import (
    DAY_MS,
    HOUR_MS,
    LEAST_TIME,
    MAX_INT64,
    UNITS_MS,
    UNIX_MS,
    UTC_ZONE,
    WEEK_MS,
    YEAR_MS,
    ClockChange,
    Int64,
    Mark,
    Rejected,
    StreamCut,
    VouchedBy,
    Zone,
    floor_time,
    format_duration,
    format_in_zone,
    has_disorder,
    list_clock_borders,
    list_clock_changes,
)

EMPTY_CUT = StreamCut({})
UNKNOWN_GAPS = Gaps()

CHECKED_AHEAD_MS = 2 * YEAR_MS
"""How far ahead of a time the changes of a zone's clock are checked."""

KEPT_TILINGS = 1024
"""How many tilings are kept with the changes of the clock that they do not allow."""

COMMON_SIZES_MS = (
    1,
    UNITS_MS["s"],
    *(minutes * UNITS_MS["m"] for minutes in (1, 5, 10, 15, 20, 30)),
    *(hours * HOUR_MS for hours in (1, 2, 3, 4, 6, 8, 12)),
    DAY_MS,
    WEEK_MS,
)
"""Sizes to use instead of another. Each change of a clock allows the least one."""


class Tiling(Struct, frozen=True):
    """Windows of `size_ms` with a border at `origin`, or `Rejected` for an invalid size.

    With a `zone`, borders are on its clock, so days last 23 to 25 hours. Windows have no gap and do
    not overlap. `start_of` and `end_of` raise `Rejected` if some would overlap at a change of the
    clock in the two years that follow.

    >>> hours = Tiling(3_600_000)
    >>> hours.start_of(1_357_034_220_000), hours.end_of(1_357_030_800_000)
    (1357030800000, 1357034400000)
    >>> Tiling(10, origin=3).start_of(2)
    -7
    """

    size_ms: int
    origin: int = 0
    zone: Zone = UTC_ZONE

    def __post_init__(self) -> None:
        if not 1 <= self.size_ms <= MAX_INT64:
            raise Rejected(f"size_ms is {self.size_ms}; a window lasts from 1 to {MAX_INT64} ms")

    def start_of(self, time: int) -> int:
        start = self._floor(time)
        self.check_order(start, time)
        return start

    def end_of(self, start: int) -> int:
        """Return the least time above `start` that is not in its window."""
        if self.zone is UTC_ZONE:
            return start + self.size_ms
        self.check_order(start, start)
        borders = list_clock_borders(start, self.size_ms, self.zone, self.origin)
        return next(border for border in borders if self._floor(border) != start)

    def check_order(self, start: int, time: int) -> None:
        """Raise `Rejected` if a change of the clock puts times back into an earlier window.

        The changes from `start` to two years after `time` count.
        """
        if self.zone is UTC_ZONE:
            return
        checked_to = time + CHECKED_AHEAD_MS
        for change in _find_disorders(self, start // YEAR_MS, checked_to // YEAR_MS):
            if start < change.at <= checked_to:
                size = _find_nearest_size(self, start, checked_to)
                raise Rejected(
                    f"windows of {format_duration(self.size_ms)} overlap in {self.zone} when its "
                    f"clock is put back at {format_in_zone(change.at, self.zone)}: use "
                    f"{format_duration(size)}"
                )

    def show(self, time: int) -> str | None:
        """Return a time in ISO 8601 on the clock of the zone, `None` for UTC.

        Who rounds also shows: another process may have zone data of another release. Times that are
        not Unix ms are on no clock.
        """
        if self.zone is UTC_ZONE or time not in UNIX_MS:
            return None
        return format_in_zone(time, self.zone)

    def first_start(self, after: int) -> int:
        """Return the start of the window that contains a time, or of the first window."""
        start = self.start_of(max(after, LEAST_TIME))
        if start >= LEAST_TIME:
            return start
        return self.end_of(start)

    def _floor(self, time: int) -> int:
        return floor_time(time, self.size_ms, self.zone, self.origin)


@lru_cache(maxsize=KEPT_TILINGS)
def _find_disorders(tiling: Tiling, first_year: int, last_year: int) -> tuple[ClockChange, ...]:
    """Return the changes of the clock that no window may cover, in years of 365 days since 1970."""
    start = first_year * YEAR_MS
    end = (last_year + 1) * YEAR_MS
    changes = list_clock_changes(tiling.zone, start, end)
    return tuple(
        change for change in changes if has_disorder(change, tiling.size_ms, tiling.origin)
    )


def _find_nearest_size(tiling: Tiling, start: int, end: int) -> int:
    """Return the common size next to the size of a tiling that all changes of the clock allow."""
    changes = [*list_clock_changes(tiling.zone, start, end)]

    def is_allowed(size: int) -> bool:
        return not any(has_disorder(change, size, tiling.origin) for change in changes)

    sizes = [size for size in COMMON_SIZES_MS if is_allowed(size)]
    return min(sizes, key=lambda size: abs(size - tiling.size_ms))


class CompleteWindow(Gaps, frozen=True):
    """A window from `start` to `end`, exclusive. Vouching writers add no more rows to it.

    Their rows are below `to_cut`, the cut of mark `seq`. If the window is `exact`, all its rows are
    at or above `from_cut`, otherwise this is empty.

    The `missing_writers` were excluded while the watermark passed the window. The writers in
    `late_writers` wrote rows of the window below the watermark, and may add more. No writer
    vouches for the part of the window `before_first_mark`. The watermark waited for `last_writer`
    last, if known. `start_shown` and `end_shown` are in ISO 8601 on the clock of the window's zone,
    by the zone data of who cut the window. They are null in UTC.
    """

    start: Int64
    end: Int64
    from_cut: StreamCut = field(name="from")
    to_cut: StreamCut = field(name="to")
    seq: int
    written_at: Int64
    excluded: tuple[str, ...] = ()
    exact: bool = False
    vouched: VouchedBy = VouchedBy(0)
    last_writer: str | None = None
    start_shown: str | None = None
    end_shown: str | None = None


def check_windows(after: int | None, tiling: Tiling, history: MarkHistory) -> None:
    """Raise `ImplausibleTime` if `after` is in seconds, except near the first kept mark."""
    first_mark = history.first
    if after is not None and first_mark is not None and after + tiling.size_ms < first_mark.lower:
        check_time(after, history.last_lower)


def find_complete_windows(
    history: MarkHistory,
    tiling: Tiling,
    *,
    after: int | None,
    limit: int,
    coverage: Coverage | None = None,
) -> Iterator[CompleteWindow]:
    """Return at most `limit` complete windows in order, from the window that contains `after`.

    The last window's end is the next call's `after`. Without `after`, the first window contains the
    lower of the stream's first mark, or of the first kept one. A sealed stream's last window may
    contain its last lower.

    >>> from noted_time import Mark
    >>> from noted_time.reading import MarkHistory
    >>> history = MarkHistory([
    ...     Mark(1, lower=10, upper=9, cut=StreamCut({0: 5}), upper_is_bound=True),
    ...     Mark(2, lower=20, upper=24, cut=StreamCut({0: 8}), upper_is_bound=True)])
    >>> for window in find_complete_windows(history, Tiling(10), after=0, limit=9):
    ...     print(window.start, window.end, window.from_cut, window.to_cut, window.exact)
    0 10 StreamCut({}) StreamCut({0: 5}) False
    10 20 StreamCut({0: 5}) StreamCut({0: 8}) True
    """
    first_mark = history.first
    last_mark = history.last
    if first_mark is None or last_mark is None:
        return iter(())
    if after is None:
        first_lower = None if coverage is None else coverage.first_lower
        if first_lower is None:
            after = first_mark.lower
        else:
            after = first_lower
    borders = [tiling.first_start(after)]
    tiling.check_order(borders[0], max(after, last_mark.lower))
    while len(borders) <= limit:
        start = borders[-1]
        end = tiling.end_of(start)
        if not _is_complete(history, start, end):
            break
        borders.append(end)
    gaps: Iterable[Gaps] = repeat(UNKNOWN_GAPS)
    if coverage is not None:
        gaps = coverage.assess_windows(borders, history.whole_from)
    return _build_windows(history, tiling, zip(pairwise(borders), gaps, strict=False), coverage)


def find_changed_windows(
    history: MarkHistory,
    tiling: Tiling,
    coverage: Coverage,
    since_served_ms: int,
    *,
    after: int | None,
) -> Iterator[CompleteWindow]:
    """Return the complete windows with rows that were reported late since a service moment.

    They begin with the window that contains `after`. Their `late_writers` have only these reports.

    >>> from noted_time import Mark
    >>> from noted_time.reading import LateReports, MarkHistory, MissingWriters
    >>> from noted_time.values import LateReport
    >>> history = MarkHistory([Mark(1, lower=40, upper=40, cut=StreamCut({0: 5}))])
    >>> recent = LateReport("pos", 3, 5, 12, 900, 900, seen_served_ms=70)
    >>> reports = [recent, LateReport("till", 1, 28, 29, 1, 1, seen_served_ms=69)]
    >>> coverage = Coverage(MissingWriters(), LateReports(reports), first_lower=0)
    >>> found = find_changed_windows(history, Tiling(10), coverage, 70, after=None)
    >>> [(window.start, window.end, window.late.writers[0].rows) for window in found]
    [(0, 10, 3), (10, 20, 3)]
    """
    first_mark = history.first
    last_mark = history.last
    if first_mark is None or last_mark is None:
        return iter(())
    checked_from = first_mark.lower if after is None else after
    tiling.check_order(tiling.start_of(checked_from), last_mark.lower)
    coverage = replace(coverage, late_reports=coverage.late_reports.since(since_served_ms))
    earliest = LEAST_TIME if after is None else tiling.first_start(after)

    def assess_changed() -> Iterator[tuple[tuple[int, int], Gaps]]:
        for borders in _find_changed(history, coverage.late_reports, tiling, earliest):
            for gaps in coverage.assess_windows(borders, history.whole_from):
                yield borders, gaps

    return _build_windows(history, tiling, assess_changed(), coverage)


def _is_complete(history: MarkHistory, start: int, end: int) -> bool:
    """Return whether a window is complete. The last of a sealed stream contains its last lower."""
    lower = history.last_lower
    if lower is None:
        return False
    if history.is_whole:
        return start < lower
    return end <= lower


def _find_changed(
    history: MarkHistory, late: LateReports, tiling: Tiling, earliest: int
) -> Iterator[tuple[int, int]]:
    for report in sorted(late, key=attrgetter("first")):
        start = max(earliest, tiling.first_start(report.first))
        while start <= report.max_time:
            end = tiling.end_of(start)
            if not _is_complete(history, start, end):
                break
            yield start, end
            start = earliest = end


def find_answering_mark(history: MarkHistory, coverage: Coverage | None, time: int) -> Mark:
    """Return the first mark that is complete to a time, or raise `NotCompleteYet`.

    Nobody vouches for times before the first mark. In a sealed stream, the last mark has all rows.
    """
    last = history.last
    if last is not None and history.is_whole and coverage and coverage.begins_after(time):
        return last
    return history.complete_to(time)


def _build_windows(
    history: MarkHistory,
    tiling: Tiling,
    windows: Iterable[tuple[tuple[int, int], Gaps]],
    coverage: Coverage | None,
) -> Iterator[CompleteWindow]:
    for (start, end), gaps in windows:
        answering_mark = find_answering_mark(history, coverage, end)
        mark_before = history.bounded_below(start, answering_mark.seq)
        first_seq = history.complete_to(start + 1).seq
        yield CompleteWindow(
            start=start,
            end=end,
            from_cut=EMPTY_CUT if mark_before is None else mark_before.cut,
            to_cut=answering_mark.cut,
            seq=answering_mark.seq,
            written_at=answering_mark.written_at,
            excluded=history.excluded_in(first_seq, answering_mark.seq),
            exact=mark_before is not None,
            last_writer=history.last_writer(answering_mark.seq),
            start_shown=tiling.show(start),
            end_shown=tiling.show(end),
            **asdict(gaps),
        )
