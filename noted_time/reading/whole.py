"""Finds from when on a reader has all rows of a log whose first rows were deleted."""

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

    def resolve(self, marks: MarkHistory, *, bounded: bool = True) -> WholeFrom:
        if not self.is_pending or self.begins is None:
            return self
        if not any(self.begins.values()):
            return WHOLE_LOG
        first = marks.first_reaching(self.begins)
        if first is None:
            return self
        if first.upper_is_bound and bounded:
            return WholeFrom(time=first.upper + 1)
        return WholeFrom(unknown=NO_BOUND.format(first.seq))


WHOLE_LOG = WholeFrom(time=MIN_INT64)


def combine_whole(results: Iterable[WholeFrom | None]) -> WholeFrom:
    """Combine the results of several logs; `None` is not checked.

    >>> combine_whole([WholeFrom(time=5), WholeFrom(unknown="compacted"), WholeFrom()]).is_pending
    True
    """
    checked = [each for each in results if each is not None]
    return max(checked, key=lambda w: (w.is_pending, w.unknown, w.time or 0), default=WHOLE_LOG)
