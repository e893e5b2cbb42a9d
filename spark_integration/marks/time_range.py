"""A range of event times, and its rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from noted_time import Rejected
from noted_time.values import format_time
from spark_integration.marks.watermark import build_instant


class TimeRange(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
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
        if time is None or self.end_at is None:
            return time
        return min(time, self.end_at)

    def continue_as(self, wanted_range: TimeRange) -> TimeRange:
        """Return the range of a query that continues from a checkpoint with this one.

        `start_at` stays, and `end_at` must not change, because later rows were skipped.

        >>> TimeRange(0).continue_as(TimeRange(5, 60))
        TimeRange(start_at=0, end_at=60)
        """
        if self.end_at not in {None, wanted_range.end_at}:
            raise Rejected(
                f"the query was started with end_at={format_time(self.end_at)} and skipped later "
                f"rows: to read up to end_at={format_time(wanted_range.end_at)}, start a query "
                "with a new checkpoint"
            )
        return replace(self, end_at=wanted_range.end_at)

    def filter_rows(
        self, batches: Iterator[pa.RecordBatch], event_time: str
    ) -> Iterator[pa.RecordBatch]:
        if self == ALL_TIMES:
            yield from batches
            return
        for batch in batches:
            times = batch.column(event_time)
            is_inside = pc.is_valid(times)
            if self.start_at is not None:
                start = build_instant(self.start_at)[0]
                is_inside = pc.and_(is_inside, pc.greater_equal(times, start))
            if self.end_at is not None:
                end = build_instant(self.end_at)[0]
                is_inside = pc.and_(is_inside, pc.less(times, end))
            yield batch.filter(is_inside)


ALL_TIMES = TimeRange()
