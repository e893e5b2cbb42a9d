"""Finds since when a reader has every row of a log whose first rows were deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from noted_time.reading.history import MarkHistory
from noted_time.values import MIN_INT64, format_time

NO_BOUND = "the upper of mark {}, the first after the deleted rows, is not a bound of their times"
PENDING_REASON = "no mark's cut reaches the first offsets of the log yet"


class WholeFrom(Struct, frozen=True, omit_defaults=True):
    """The earliest `time` (Unix ms) after all deleted rows, for a reader of the whole log.

    It is *pending* until a mark's cut reaches `begins`, the first offsets that segments still had.
    That mark's upper bounds the times of all deleted rows.

    >>> from noted_time.values import Mark, StreamCut
    >>> cuts = [(10, 14, {0: 20}), (20, 29, {0: 40})]
    >>> marks = MarkHistory(
    ...     Mark(n, lower, upper, StreamCut(cut), upper_is_bound=True)
    ...     for n, (lower, upper, cut) in enumerate(cuts, 1)
    ... )
    >>> WholeFrom({0: 15}).resolve(marks).time, WholeFrom({0: 30}).resolve(marks).time
    (15, 30)
    >>> WholeFrom({0: 41}).resolve(marks).is_pending, WholeFrom({0: 0}).resolve(marks) == WHOLE_LOG
    (True, True)
    """

    begins: Mapping[int, int] | None = None
    time: int | None = None
    unknown: str = ""

    @property
    def is_pending(self) -> bool:
        return self.time is None and not self.unknown

    @property
    def sentence(self) -> str:
        if self.time is not None:
            return f"windows that begin before {format_time(self.time)} may lack rows"
        return f"it is not known which windows may lack rows: {self.unknown or PENDING_REASON}"

    def resolve(self, marks: MarkHistory, *, has_bound: bool = True) -> WholeFrom:
        if not self.is_pending or self.begins is None:
            return self
        if not any(self.begins.values()):
            return WHOLE_LOG
        first_mark = marks.first_reaching(self.begins)
        if first_mark is None:
            return self
        if first_mark.upper_is_bound and has_bound:
            return WholeFrom(time=first_mark.upper + 1)
        return WholeFrom(unknown=NO_BOUND.format(first_mark.seq))


WHOLE_LOG = WholeFrom(time=MIN_INT64)


def combine_whole(results: Iterable[WholeFrom | None]) -> WholeFrom:
    """Combine the results of several logs; `None` is not checked.

    >>> combine_whole([WholeFrom(time=5), WholeFrom(unknown="compacted"), WholeFrom()]).is_pending
    True
    """
    checked_results = [result for result in results if result is not None]
    return max(
        checked_results,
        key=lambda result: (result.is_pending, result.unknown, result.time or 0),
        default=WHOLE_LOG,
    )
