"""Finds the complete windows of time, and the cuts between which their rows are.

A window is complete once a mark's lower is at or above its end: all its rows are below that cut. If
all writers declare their largest event times, none of its rows are below a cut whose upper is below
its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from noted_time.reading.coverage import Coverage, Uncovered
from noted_time.reading.history import MarkHistory
from noted_time.reading.late import LateReports
from noted_time.reading.units import check_time
from noted_time.values import (
    LEAST_TIME,
    MAX_INT64,
    VOUCHED_NOT_KNOWN,
    Int64,
    Late,
    LateWriter,
    Mark,
    Missing,
    MissingWriter,
    Rejected,
    StreamCut,
    VouchedBy,
)

EMPTY_CUT = StreamCut({})
UNKNOWN_COVERAGE = Uncovered()


class Tiling(Struct, frozen=True):
    """Windows of `size_ms` with a border at `origin`, or `Rejected` for an invalid size.

    >>> hours = Tiling(3_600_000)
    >>> hours.start_of(1_357_034_220_000)
    1357030800000
    >>> Tiling(10, origin=3).start_of(2)
    -7
    """

    size_ms: int
    origin: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.size_ms <= MAX_INT64:
            raise Rejected(f"size_ms is {self.size_ms}; a window lasts from 1 to {MAX_INT64} ms")

    def start_of(self, time: int) -> int:
        return time - (time - self.origin) % self.size_ms

    def first_end(self, after: int) -> int:
        """Return the end of the first complete window after a time."""
        start = self.start_of(max(after, LEAST_TIME))
        return start + self.size_ms * (2 if start < LEAST_TIME else 1)


class CompleteWindow(Struct, frozen=True):
    """A window from `start` to `end`, exclusive. Vouching writers add no more rows to it.

    Their rows are below `to_cut`, the cut of mark `seq`. If the window is `exact`, all its rows are
    at or above `from_cut`, otherwise this is empty.

    The writers in `missing` were excluded while the watermark passed the window. The writers in
    `late` wrote rows of the window below the watermark, and may add more. No writer vouches for the
    part of the window `before_first_mark`. The watermark waited for `last_writer` last, if known.
    """

    start: Int64
    end: Int64
    from_cut: StreamCut = field(name="from")
    to_cut: StreamCut = field(name="to")
    seq: int
    written_at: Int64
    excluded: tuple[str, ...] = ()
    exact: bool = False
    missing_writers: tuple[MissingWriter, ...] = field(name="missing", default=())
    missing_count: int = 0
    missing_joined_later: int = 0
    missing_is_known: bool = False
    late_writers: tuple[LateWriter, ...] = field(name="late", default=())
    late_count: int = 0
    late_is_known: bool = False
    before_first_mark: bool = False
    vouched: VouchedBy = VOUCHED_NOT_KNOWN
    last_writer: str | None = None

    @property
    def missing(self) -> Missing:
        """The writers that were excluded while the watermark passed the window."""
        return Missing(
            self.missing_writers,
            self.missing_count,
            self.missing_joined_later,
            self.missing_is_known,
        )

    @property
    def late(self) -> Late:
        """The writers with rows of the window below the watermark."""
        return Late(self.late_writers, self.late_count, self.late_is_known)


def check_windows(after: int | None, tiling: Tiling, history: MarkHistory) -> None:
    """Raise `ImplausibleTime` if `after` is in seconds, except near the first kept mark."""
    first = history.first
    if after is not None and first is not None and after + tiling.size_ms < first.lower:
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

    >>> from noted_time import Mark, MarkHistory
    >>> history = MarkHistory([
    ...     Mark(1, lower=10, upper=9, cut=StreamCut({0: 5}), upper_is_bound=True),
    ...     Mark(2, lower=20, upper=24, cut=StreamCut({0: 8}), upper_is_bound=True)])
    >>> for window in find_complete_windows(history, Tiling(10), after=0, limit=9):
    ...     print(window.start, window.end, window.from_cut, window.to_cut, window.exact)
    0 10 StreamCut({}) StreamCut({0: 5}) False
    10 20 StreamCut({0: 5}) StreamCut({0: 8}) True
    """
    first, last = history.first, history.last
    if first is None or last is None:
        return iter(())
    if after is None:
        known = None if coverage is None else coverage.first_lower
        after = first.lower if known is None else known
    start = tiling.first_end(after) - tiling.size_ms
    reached = last.lower - start + (tiling.size_ms - 1 if history.is_whole else 0)
    count = min(limit, max(0, reached // tiling.size_ms))
    starts = [start + n * tiling.size_ms for n in range(count)]
    lacking: Iterable[Uncovered] = repeat(UNKNOWN_COVERAGE)
    if coverage is not None:
        lacking = coverage.assess_windows(starts, tiling.size_ms)
    return _build_windows(history, zip(starts, lacking, strict=False), tiling.size_ms)


def find_changed_windows(
    history: MarkHistory, tiling: Tiling, coverage: Coverage, since: int, *, after: int | None
) -> Iterator[CompleteWindow]:
    """Return the complete windows with rows that were reported late at or after `since` (Unix ms).

    They begin with the window that contains `after`, and their `late` has only these reports.

    >>> from noted_time import Mark, MarkHistory
    >>> from noted_time.reading import LateReports, MissingWriters
    >>> from noted_time.values import LateReport
    >>> history = MarkHistory([Mark(1, lower=40, upper=40, cut=StreamCut({0: 5}))])
    >>> reports = [LateReport("pos", 3, 5, 12, 900, 900), LateReport("till", 1, 28, 29, 1, 1)]
    >>> coverage = Coverage(MissingWriters(), LateReports(reports), first_lower=0)
    >>> found = find_changed_windows(history, Tiling(10), coverage, 900, after=None)
    >>> [(window.start, window.end, window.late.writers[0].rows) for window in found]
    [(0, 10, 3), (10, 20, 3)]
    """
    last = history.last
    if last is None:
        return iter(())
    coverage = replace(coverage, late=coverage.late.since(since))
    earliest = tiling.first_end(LEAST_TIME if after is None else after) - tiling.size_ms
    beyond = last.lower + (tiling.size_ms if history.is_whole else 1) - tiling.size_ms
    starts = _find_starts(coverage.late, tiling, earliest, beyond)
    changed = (
        (start, each)
        for start in starts
        for each in coverage.assess_windows([start], tiling.size_ms)
    )
    return _build_windows(history, changed, tiling.size_ms)


def _find_starts(late: LateReports, tiling: Tiling, earliest: int, beyond: int) -> Iterator[int]:
    for each in sorted(late, key=attrgetter("first")):
        first = max(earliest, tiling.start_of(each.first))
        for start in range(first, min(beyond, each.most + 1), tiling.size_ms):
            yield start
            earliest = start + tiling.size_ms


def _build_windows(
    history: MarkHistory, starts: Iterable[tuple[int, Uncovered]], size_ms: int
) -> Iterator[CompleteWindow]:
    to: Mark | None = None
    for start, uncovered in starts:
        end = start + size_ms
        if to is None or to.lower < end:
            to = history.complete_to(end)
        before = history.bounded_below(start, to.seq)
        since = history.complete_to(start + 1).seq
        yield CompleteWindow(
            start=start,
            end=end,
            from_cut=EMPTY_CUT if before is None else before.cut,
            to_cut=to.cut,
            seq=to.seq,
            written_at=to.written_at,
            excluded=history.excluded_in(since, to.seq),
            exact=before is not None,
            last_writer=history.last_writer(to.seq),
            **asdict(uncovered),
        )
