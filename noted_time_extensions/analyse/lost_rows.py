"""Finds rows that the marks of a stream lost, and whether their writers had vouched.

Each row is judged by the last mark whose cut does not cover it. If the row's time is below the
mark's lower, the row is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noted_time.extending import (
    BROKEN_VERDICT,
    UNKNOWN_VERDICT,
    NotedMarks,
    Owners,
    WriterPromise,
    group_rows,
)
from noted_time_extensions.analyse.curves import WindowWaits, measure_waits, window_ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.int64]


class LocatedRows(NamedTuple):
    """Rows by columns: event time (Unix ms), position in the log, and optionally a name."""

    times: Times
    segments: NDArray[Any]
    offsets: Times
    names: NDArray[Any] | None = None

    def writers(self, promises: Mapping[str, WriterPromise], owners: Owners) -> NDArray[Any]:
        """Return the writer of each row, or `""` if it is not known.

        If any name is a writer, names are writers; otherwise the segment's owner is.

        >>> promises, owners = {"a": WriterPromise(())}, {1: ("a", 5)}
        >>> rows = LocatedRows(np.zeros(3, int), np.array([0, 1, 1]), np.array([5, 4, 5]))
        >>> rows.writers(promises, owners).tolist()
        ['', '', 'a']
        """
        if self.names is not None:
            is_writer = np.isin(self.names, [*promises])
            if np.any(is_writer):
                return np.where(is_writer, self.names, "")
        row_writers = np.full(len(self.times), "", object)
        for segment, (owner, first_offset) in owners.items():
            is_owned = (self.segments == segment) & (self.offsets >= first_offset)
            row_writers[is_owned] = owner
        return row_writers


class LostRows(NamedTuple):
    """The number of lost rows with one name and verdict."""

    name: str
    verdict: str
    rows: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """The cost of marks, with the numbers of the `lost` rows.

    Verdicts on a lost row:

    - `BROKEN_VERDICT`: the writer had vouched for the time at a mark that did not cover the row.
    - `UNKNOWN_VERDICT`: the writer may not have vouched yet.
    - Other verdicts: the row is late by contract. The verdict is why the mark excluded the writer.

    `not_judged` counts the rows below the first kept cut, unless it is the stream's first.
    """

    lost: NDArray[np.int64]
    names: NDArray[Any]
    verdicts: NDArray[np.object_]
    not_judged: int
    waits: WindowWaits

    def rows(self, times: Times) -> list[LostRows]:
        """Return the lost rows by name and verdict: broken promises first, then the most rows."""
        times_by_group: dict[tuple[str, str], list[int]] = {}
        lost_times = times[self.lost].tolist()
        for name, verdict, time in zip(self.names.tolist(), self.verdicts, lost_times, strict=True):
            times_by_group.setdefault((name, verdict), []).append(time)
        all_lost_rows = []
        for (name, verdict), group_times in times_by_group.items():
            first_ms = min(group_times)
            last_ms = max(group_times)
            all_lost_rows.append(LostRows(name, verdict, len(group_times), first_ms, last_ms))
        all_lost_rows.sort(key=_rank_lost_rows)
        return all_lost_rows


def _rank_lost_rows(lost_rows: LostRows) -> tuple[bool, int, str]:
    return (lost_rows.verdict != BROKEN_VERDICT, -lost_rows.rows, lost_rows.name)


def judge(
    marks: NotedMarks,
    rows: LocatedRows,
    promises: Mapping[str, WriterPromise],
    owners: Owners,
    window_ms: int = 0,
) -> Judgement:
    """Judge rows by at least one mark; without a promise, a writer's verdict is not known.

    Windows that the first kept mark closes are not counted.
    """
    lowers = np.asarray(marks.lowers)
    last_marks = marks.find_marks_below(rows.segments, rows.offsets)
    is_late = (last_marks >= 0) & (lowers[last_marks] > rows.times)
    lost_numbers = np.flatnonzero(is_late)
    writers = rows.writers(promises, owners)[lost_numbers].astype(str)
    seqs = last_marks[lost_numbers] + marks.first_seq
    verdicts = _find_verdicts(writers, promises, seqs, rows.times[lost_numbers])
    is_judged = np.full(len(last_marks), fill_value=True)
    if marks.first_seq > 1:
        is_judged = last_marks >= 0
    beyond = int(window_ms == 0)
    ends = np.unique(window_ends(rows.times[is_judged & ~is_late], window_ms))
    open_ends = ends[ends + beyond > lowers[0]]
    if rows.names is None:
        names = np.char.add("segment ", rows.segments[lost_numbers].astype(str))
    else:
        names = rows.names[lost_numbers]
    return Judgement(
        lost_numbers,
        np.where(writers == "", names, writers),
        verdicts,
        int(np.count_nonzero(~is_judged)),
        measure_waits(lowers, np.asarray(marks.written), open_ends, beyond),
    )


def _find_verdicts(
    writers: NDArray[Any], promises: Mapping[str, WriterPromise], seqs: Times, times: Times
) -> NDArray[np.object_]:
    """Return the verdict on each lost row, by its writer, the mark that lost it and its time."""
    verdicts = np.full(len(writers), UNKNOWN_VERDICT, object)
    if not len(writers):
        return verdicts
    for rows_of_writer in group_rows(writers):
        promise = promises.get(str(writers[rows_of_writer[0]]))
        if promise is not None:
            verdicts[rows_of_writer] = promise.verdicts(seqs[rows_of_writer], times[rows_of_writer])
    return verdicts
