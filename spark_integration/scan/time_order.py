"""Divides a batch over the segments, so that rows are nearly in order of time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from noted_time import MarkHistory, Succession
from spark_integration.scan.admission import Unread, compute_shares


def divide_by_time(
    unread: Unread, limit: int, marks: MarkHistory, succession: Succession
) -> dict[int, int]:
    """Return how many rows of each segment to read, at most `limit` in total (PDP-28).

    - The batch ends at the cut of the last mark whose unread rows are within the limit.
    - If the next mark has too many rows, each segment reads a share of the rows below its cut.
    - Beyond the last mark, each segment reads a share of its other rows.
    - A successor is not read before its predecessors are read to their ends.

    >>> from pathlib import Path
    >>> from noted_time import Mark, MarkHistory, StreamCut, Succession
    >>> from spark_integration.scan.admission import Unread
    >>> from spark_integration.scan.files import LogFile
    >>> files = {0: [LogFile(Path("a"), 0, 90)], 1: [LogFile(Path("b"), 0, 90)]}
    >>> cuts = {10: {0: 20}, 20: {0: 40, 1: 10}, 30: {0: 80, 1: 90}}
    >>> marks = MarkHistory(Mark(n, t, t, StreamCut(cuts[t])) for n, t in enumerate(cuts))
    >>> log = Unread(files, {})
    >>> [divide_by_time(log, limit, marks, Succession()) for limit in (10, 50, 100, 175)]
    [{0: 10, 1: 0}, {0: 40, 1: 10}, {0: 40, 1: 10}, {0: 85, 1: 90}]
    """
    seq = _find_last_mark(unread, limit, marks)
    rows = dict.fromkeys(unread.files, 0)
    if seq >= marks.first_seq:
        rows = unread.count_rows_below(marks.mark(seq).cut.offsets)
    if seq == marks.last_seq:
        return _add_shares(unread, rows, unread.count_rows(), limit, succession)
    if any(rows.values()):
        return rows
    within = unread.count_rows_below(marks.mark(seq + 1).cut.offsets)
    return _add_shares(unread, rows, within, limit, succession)


def _find_last_mark(unread: Unread, limit: int, marks: MarkHistory) -> int:
    """Return the seq of the last mark with at most `limit` unread rows, or before the first.

    Steps double, because the mark is near and counting takes time.
    """

    def is_too_large(seq: int) -> bool:
        return sum(unread.count_rows_below(marks.mark(seq).cut.offsets).values()) > limit

    fits, beyond, step = marks.first_seq - 1, marks.first_seq + len(marks), 1
    while fits + step < beyond:
        if is_too_large(fits + step):
            beyond = fits + step
        else:
            fits, step = fits + step, step * 2
    return fits + bisect_left(range(fits + 1, beyond), x=True, key=is_too_large)


def _add_shares(
    unread: Unread,
    planned: Mapping[int, int],
    upto: Mapping[int, int],
    limit: int,
    succession: Succession,
) -> dict[int, int]:
    rows = dict(planned)
    while (unused := limit - sum(rows.values())) > 0:
        ends = _find_complete_ends(unread, rows, succession)
        open_ = {
            segment: upto[segment] - rows[segment]
            for segment in upto
            if upto[segment] > rows[segment] and not succession.unread_before(segment, ends)
        }
        if not open_:
            break
        for segment, more in compute_shares(open_, unused).items():
            rows[segment] += more
    return rows


def _find_complete_ends(
    unread: Unread, rows: Mapping[int, int], succession: Succession
) -> Mapping[int, int]:
    if not succession:
        return {}
    deleted = {s: end for s, end in succession.final.items() if s not in unread.files}
    return {**deleted, **unread.find_ends(rows)}
