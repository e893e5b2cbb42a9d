"""Finds the rows of a range of event times in a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noted_time import Rejected
from noted_time.stores import store_of
from noted_time.values import format_time
from spark_integration.marks.watermark import build_instant
from spark_integration.scan.files import LogFile, read_row_groups

EMPTY_POSITION: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Event times from `start_at` to `end_at` (exclusive) in Unix ms; both are optional.

    The range is read once a lower reaches `end_at`, which then is the watermark:

    >>> hour = TimeRange(end_at=60)
    >>> [(hour.are_read(lower), hour.cap(lower)) for lower in (50, 60, 75)]
    [(False, 50), (True, 60), (True, 60)]
    """

    start_at: int | None = None
    end_at: int | None = None

    def are_read(self, lower: int | None) -> bool:
        return lower is not None and self.end_at is not None and lower >= self.end_at

    def cap(self, time: int | None) -> int | None:
        return time if time is None or self.end_at is None else min(time, self.end_at)

    def continue_as(self, asked: TimeRange) -> TimeRange:
        """Return the range of a query that continues from a checkpoint with this one.

        `start_at` stays, and `end_at` must not change, because later rows were skipped.

        >>> TimeRange(0).continue_as(TimeRange(5, 60))
        TimeRange(start_at=0, end_at=60)
        """
        if self.end_at not in {None, asked.end_at}:
            raise Rejected(
                f"the query was started with end_at={format_time(self.end_at)} and skipped later "
                f"rows: to read up to end_at={format_time(asked.end_at)}, start a query with a new "
                "checkpoint"
            )
        return replace(self, end_at=asked.end_at)

    def filter_rows(
        self, batches: Iterator[pa.RecordBatch], event_time: str
    ) -> Iterator[pa.RecordBatch]:
        if self == ALL_TIMES:
            yield from batches
            return
        for batch in batches:
            inside = pc.is_valid(batch.column(event_time))
            if self.start_at is not None:
                first = build_instant(self.start_at)[0]
                inside = pc.and_(inside, pc.greater_equal(batch.column(event_time), first))
            if self.end_at is not None:
                inside = pc.and_(
                    inside, pc.less(batch.column(event_time), build_instant(self.end_at)[0])
                )
            yield batch.filter(inside)


ALL_TIMES = TimeRange()


def find_first_offsets(
    files: Mapping[int, Sequence[LogFile]],
    event_time: str,
    start_at: int,
    from_cut: Mapping[int, int],
    final: Mapping[int, int] = EMPTY_POSITION,
) -> dict[int, int]:
    """Return the first offset of each segment that may have a row at or above `start_at`.

    Rows below `from_cut` are earlier; raises `Rejected` if rows above it were deleted. `final` has
    the ends of sealed segments.
    """
    begun = {segment: run for segment, run in files.items() if run}
    firsts = {segment: run[0].start for segment, run in begun.items()}
    for segment, first in {**final, **firsts}.items():
        known = from_cut.get(segment, 0)
        if known < first:
            raise Rejected(
                f"segment {segment}: offsets {known} to {first} are missing and may have had rows "
                f"of start_at {format_time(start_at)} or later: leave start_at out to begin with "
                "the rows that are there"
            )
    return {
        segment: _find_first_offset(run, event_time, start_at) for segment, run in begun.items()
    }


def _find_first_offset(run: Sequence[LogFile], event_time: str, start_at: int) -> int:
    for file in run:
        source = store_of(file.path).open(file.path, file.version)
        for group in read_row_groups(pq.read_metadata(source), event_time):
            if group.most is None or group.most >= start_at:
                return file.start + group.first
    return run[-1].end
