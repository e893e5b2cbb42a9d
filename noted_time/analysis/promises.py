"""Finds rows that the marks of a stream lost, and whether their writers had vouched.

Each row is judged by the last mark whose cut does not cover it. If the row's time is below the
mark's lower, the row is lost.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noted_time.analysis.curves import WindowWaits, group_rows, measure_waits, window_ends
from noted_time.values import MAX_INT64, Mark, Spell

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Times = NDArray[np.int64]

BROKEN_VERDICT = "broken"
UNKNOWN_VERDICT = "not known"
IDLE_VERDICT = "idle"


class NotedMarks:
    """Consecutive marks, numbered from 0; `first_seq` is the seq of the first, or 0.

    >>> from noted_time.values import StreamCut
    >>> cuts = [{0: 5}, {0: 5, 1: 3}, {0: 9, 1: 3}]
    >>> marks = NotedMarks(Mark(n, 10 * n, 0, StreamCut(cut)) for n, cut in enumerate(cuts, 1))
    >>> [each.tolist() for each in marks.steps(0)], [each.tolist() for each in marks.steps(7)]
    ([[0, 5, 9], [-1, 1, 2]], [[0], [2]])
    >>> marks.find_marks_below([0, 0, 1], [4, 5, 2]).tolist()
    [-1, 1, 0]
    """

    def __init__(self, marks: Iterable[Mark] = ()) -> None:
        self.first_seq, self.lowers, self.written = 0, array("q"), array("q")
        self._steps: dict[int, tuple[array[int], array[int]]] = {}
        for mark in marks:
            self.append(mark)

    def __len__(self) -> int:
        return len(self.lowers)

    def append(self, mark: Mark) -> None:
        number = len(self)
        self.first_seq = self.first_seq or mark.seq
        for segment, offset in mark.cut.offsets.items():
            offsets, at = self._steps.setdefault(segment, (array("q", [0]), array("q", [0])))
            if offsets[-1] != offset:
                offsets.append(offset)
                at.append(number)
        self.lowers.append(mark.lower)
        self.written.append(mark.written_at)

    def steps(self, segment: int) -> tuple[Times, Times]:
        """Return ascending offsets, and the last mark whose cut does not cover each, or -1."""
        offsets, at = self._steps.get(segment, (array("q", [0]), array("q", [0])))
        return np.asarray(offsets), np.append(np.asarray(at)[1:], len(self)) - 1

    def cut(self, number: int) -> dict[int, int]:
        steps = self._steps.items()
        return {each: offsets[bisect_right(at, number) - 1] for each, (offsets, at) in steps}

    def find_marks_below(self, segments: ArrayLike, offsets: ArrayLike) -> Times:
        """Return the last mark whose cut does not cover each row, or -1."""
        in_segments, at_offsets = np.asarray(segments), np.asarray(offsets)
        last_marks = np.empty(len(in_segments), np.int64)
        for rows in group_rows(in_segments) if len(in_segments) else ():
            begins, marks = self.steps(int(in_segments[rows[0]]))
            last_marks[rows] = marks[np.searchsorted(begins, at_offsets[rows], "right") - 1]
        return last_marks


@dataclass(frozen=True, slots=True)
class WriterPromise:
    """The last spells during which marks counted a writer, and its absences.

    An absence is the first and last mark without the writer, and the reason. The first is 0 if the
    writer was not a member before.

    >>> away = (0, 2, "not_joined"), (5, 9, "timed_out")
    >>> promise = WriterPromise((Spell(3, 20),), away)
    >>> promise.verdicts(np.array([2, 3, 4, 5]), np.array([10, 10, 20, 20])).tolist()
    ['not_joined', 'broken', 'idle', 'timed_out']
    """

    spells: Sequence[Spell]
    away: Sequence[tuple[int, int, str]] = ()

    def verdicts(self, seqs: Times, times: Times) -> NDArray[np.object_]:
        known_from = self.spells[0].from_seq if self.spells else MAX_INT64
        results = np.where(seqs < known_from, UNKNOWN_VERDICT, IDLE_VERDICT).astype(object)
        for first, last, reason in self.away:
            is_known = (seqs >= known_from) | (first == 0)
            results[is_known & (first <= seqs) & (seqs <= last)] = reason
        for each in self.spells:
            results[(seqs >= each.from_seq) & (times < each.end)] = BROKEN_VERDICT
        return results


Owners = Mapping[int, tuple[str, int]]
"""By segment the writer that owns its rows, from an offset on."""


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
        if self.names is not None and np.any(known := np.isin(self.names, [*promises])):
            return np.where(known, self.names, "")
        names = np.full(len(self.times), "", object)
        for segment, (owner, first) in owners.items():
            names[(self.segments == segment) & (self.offsets >= first)] = owner
        return names


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
        groups: dict[tuple[str, str], list[int]] = {}
        for each in zip(self.names.tolist(), self.verdicts, times[self.lost].tolist(), strict=True):
            groups.setdefault(each[:2], []).append(each[2])
        lost = [LostRows(*key, len(ms), min(ms), max(ms)) for key, ms in groups.items()]
        lost.sort(key=lambda each: (each.verdict != BROKEN_VERDICT, -each.rows, each.name))
        return lost


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
    lowers, last = np.asarray(marks.lowers), marks.find_marks_below(rows.segments, rows.offsets)
    late = (last >= 0) & (lowers[last] > rows.times)
    lost = np.flatnonzero(late)
    seqs, times = last[lost] + marks.first_seq, rows.times[lost]
    verdicts = np.full(len(lost), UNKNOWN_VERDICT, object)
    writers = rows.writers(promises, owners)[lost].astype(str)
    for rows_of_writer in group_rows(writers) if len(lost) else ():
        promise = promises.get(str(writers[rows_of_writer[0]]))
        if promise is not None:
            verdicts[rows_of_writer] = promise.verdicts(seqs[rows_of_writer], times[rows_of_writer])
    judged = last >= 0 if marks.first_seq > 1 else np.full(len(last), fill_value=True)
    single = int(window_ms == 0)
    ends = np.unique(window_ends(rows.times[judged & ~late], window_ms))
    open_ = ends[ends + single > lowers[0]]
    by_segment = np.char.add("segment ", rows.segments[lost].astype(str))
    names = by_segment if rows.names is None else rows.names[lost]
    return Judgement(
        lost,
        np.where(writers == "", names, writers),
        verdicts,
        int(np.count_nonzero(~judged)),
        measure_waits(lowers, np.asarray(marks.written), open_, single),
    )
