"""Consecutive marks by columns, and which of them counted a writer.

A row is late if its time is below the lower of the last mark whose cut does not cover it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

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
        self.first_seq = 0
        self.lowers = array("q")
        self.written = array("q")
        self._steps: dict[int, tuple[array[int], array[int]]] = {}
        for mark in marks:
            self.append(mark)

    def __len__(self) -> int:
        return len(self.lowers)

    def append(self, mark: Mark) -> None:
        number = len(self)
        self.first_seq = self.first_seq or mark.seq
        for segment, offset in mark.cut.offsets.items():
            offsets, last_marks = self._steps.setdefault(
                segment, (array("q", [0]), array("q", [0]))
            )
            if offsets[-1] != offset:
                offsets.append(offset)
                last_marks.append(number)
        self.lowers.append(mark.lower)
        self.written.append(mark.written_at)

    def steps(self, segment: int) -> tuple[Times, Times]:
        """Return ascending offsets, and the last mark whose cut does not cover each, or -1."""
        offsets, last_marks = self._steps.get(segment, (array("q", [0]), array("q", [0])))
        return np.asarray(offsets), np.append(np.asarray(last_marks)[1:], len(self)) - 1

    def cut(self, number: int) -> dict[int, int]:
        steps = self._steps.items()
        return {
            segment: offsets[bisect_right(last_marks, number) - 1]
            for segment, (offsets, last_marks) in steps
        }

    def find_marks_below(self, segments: ArrayLike, offsets: ArrayLike) -> Times:
        """Return the last mark whose cut does not cover each row, or -1."""
        row_segments = np.asarray(segments)
        row_offsets = np.asarray(offsets)
        last_marks = np.empty(len(row_segments), np.int64)
        for rows in group_rows(row_segments) if len(row_segments) else ():
            step_offsets, step_marks = self.steps(int(row_segments[rows[0]]))
            last_marks[rows] = step_marks[
                np.searchsorted(step_offsets, row_offsets[rows], "right") - 1
            ]
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
        first_known_seq = self.spells[0].from_seq if self.spells else MAX_INT64
        results = np.where(seqs < first_known_seq, UNKNOWN_VERDICT, IDLE_VERDICT).astype(object)
        for first_seq, last_seq, reason in self.away:
            is_known = (seqs >= first_known_seq) | (first_seq == 0)
            results[is_known & (first_seq <= seqs) & (seqs <= last_seq)] = reason
        for spell in self.spells:
            results[(seqs >= spell.from_seq) & (times < spell.end)] = BROKEN_VERDICT
        return results


Owners = Mapping[int, tuple[str, int]]
"""By segment the writer that owns its rows, from an offset on."""


def group_rows(partitions: NDArray[Any]) -> Iterable[NDArray[np.int64]]:
    by_partition = np.argsort(partitions, kind="stable")
    names = partitions[by_partition]
    bounds = np.flatnonzero(names[1:] != names[:-1]) + 1
    return np.split(by_partition, bounds)
