"""A range of event times as a part of a log: where its rows begin, and which of them it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noted_time import Rejected
from noted_time.values import format_time
from spark_integration.marks.watermark import build_instant
from spark_integration.scan.files import LogFile, read_row_groups

EMPTY_POSITION: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Event times from `start_at` to `end_at`, exclusive, in Unix ms; `None` bounds nothing.

    A query has read all of a range once it has let in a mark with a lower at or above its end. Its
    watermark ends there, wherever that mark lies:

    >>> hour = TimeRange(end_at=60)
    >>> [(hour.are_read(lower), hour.cap(lower)) for lower in (50, 60, 75)]
    [(False, 50), (True, 60), (True, 60)]
    """

    start_at: int | None = None
    end_at: int | None = None

    def are_read(self, lower: int | None) -> bool:
        """Whether a query that has let in a mark with this lower has read all of the range."""
        return lower is not None and self.end_at is not None and lower >= self.end_at

    def cap(self, time: int | None) -> int | None:
        """Return a time, or the end of the range if it lies beyond."""
        return time if time is None or self.end_at is None else min(time, self.end_at)

    def continue_as(self, asked: TimeRange) -> TimeRange:
        """Return the range of a checkpoint, this one, when a query continues from it.

        It has begun already, whatever `start_at` is asked for now. Rows beyond its end were left
        out, so another end is refused (`Rejected`); one that had none gets it.

        >>> TimeRange(0).continue_as(TimeRange(5, 60))
        TimeRange(start_at=0, end_at=60)
        """
        if self.end_at not in {None, asked.end_at}:
            raise Rejected(
                f"the query was started with end_at={format_time(self.end_at)}, and left out what "
                f"lies beyond: for end_at={format_time(asked.end_at)}, start one with a new "
                "checkpoint"
            )
        return replace(self, end_at=asked.end_at)

    def filter_rows(
        self, batches: Iterator[pa.RecordBatch], event_time: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each batch within the range; a row without a time is in none."""
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
"""No bound on either side: it includes rows without a time."""


def find_first_offsets(
    files: Mapping[int, Sequence[LogFile]],
    event_time: str,
    start_at: int,
    from_cut: Mapping[int, int],
    final: Mapping[int, int] = EMPTY_POSITION,
) -> dict[int, int]:
    """Return where each segment's rows at or above `start_at` begin at the earliest.

    That is its first row group whose statistics allow for such a time, whichever writers share the
    segment. Marks say that such rows begin at `from_cut` at the earliest, which is empty if they do
    not tell: raises `Rejected` if files above it were deleted. A segment of `final` ends there:
    if it has no file, all its rows were deleted.
    """
    begun = {segment: run for segment, run in files.items() if run}
    firsts = {segment: run[0].start for segment, run in begun.items()}
    for segment, first in {**final, **firsts}.items():
        known = from_cut.get(segment, 0)
        if known < first:
            raise Rejected(
                f"segment {segment}: offsets {known} to {first} are gone, which may have held rows "
                f"of start_at {format_time(start_at)} or later: leave it out to begin with what "
                "there is"
            )
    return {
        segment: _find_first_offset(run, event_time, start_at) for segment, run in begun.items()
    }


def _find_first_offset(run: Sequence[LogFile], event_time: str, start_at: int) -> int:
    for file in run:
        for group in read_row_groups(pq.read_metadata(file.path), event_time):
            if group.most is None or group.most >= start_at:
                return file.start + group.first
    return run[-1].end
