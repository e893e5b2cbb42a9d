"""Which rows the marks of a stream lost, and whether their writer had vouched that none would come.

A row is judged by the last mark whose cut it lies at or beyond in its segment: the largest lower
that a reader can have had before it read the row. The row is lost if its time is below that lower.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noted_time.analysis.curves import WindowWaits, group_rows, measure_waits, window_ends
from noted_time.values import MAX_INT64, Mark, VouchingPeriod

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Times = NDArray[np.int64]

BROKEN_VERDICT = "broken"
UNKNOWN_VERDICT = "not known"
IDLE_VERDICT = "idle"
"""The verdicts but for the reasons that the ledger has."""


class NotedMarks:
    """A gapless run of marks, numbered from 0; `first_seq` is the seq of the first, 0 of none.

    `lowers` has the lower of each, and `written` when it was written, in Unix ms.

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
        self._begun: dict[int, tuple[array[int], array[int]]] = {}
        for mark in marks:
            self.append(mark)

    def __len__(self) -> int:
        return len(self.lowers)

    def append(self, mark: Mark) -> None:
        """Add the next mark."""
        number = len(self)
        self.first_seq = self.first_seq or mark.seq
        for segment, offset in mark.cut.offsets.items():
            offsets, at = self._begun.setdefault(segment, (array("q", [0]), array("q", [0])))
            if offsets[-1] != offset:
                offsets.append(offset)
                at.append(number)
        self.lowers.append(mark.lower)
        self.written.append(mark.written_at)

    def steps(self, segment: int) -> tuple[Times, Times]:
        """Return, in order, the offsets from which on rows lie beyond more marks.

        And the number of the last of these marks, -1 for none.
        """
        offsets, at = self._begun.get(segment, (array("q", [0]), array("q", [0])))
        return np.asarray(offsets), np.append(np.asarray(at)[1:], len(self)) - 1

    def cut(self, number: int) -> dict[int, int]:
        """Return the cut of a mark."""
        begun = self._begun.items()
        return {each: offsets[bisect_right(at, number) - 1] for each, (offsets, at) in begun}

    def find_marks_below(self, segments: ArrayLike, offsets: ArrayLike) -> Times:
        """Return the number of the last mark beyond whose cut each row lies; -1 for none."""
        of, at = np.asarray(segments), np.asarray(offsets)
        found = np.empty(len(of), np.int64)
        for rows in group_rows(of) if len(of) else ():
            begins, marks = self.steps(int(of[rows[0]]))
            found[rows] = marks[np.searchsorted(begins, at[rows], "right") - 1]
        return found


class AbsencePeriod(NamedTuple):
    """The marks that went on without a writer, from `first_seq` to `last_seq`, and why.

    It begins at 0 if the writer was no member before.
    """

    first_seq: int
    last_seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class WriterPromise:
    """What a writer vouched for: the last periods in which marks counted it, and the other marks.

    >>> away = AbsencePeriod(0, 2, "not_joined"), AbsencePeriod(5, 9, "timed_out")
    >>> word = WriterPromise((VouchingPeriod(3, 20),), away)
    >>> word.verdicts(np.array([2, 3, 4, 5]), np.array([10, 10, 20, 20])).tolist()
    ['not_joined', 'broken', 'idle', 'timed_out']
    """

    periods: Sequence[VouchingPeriod]
    away: Sequence[AbsencePeriod] = ()

    def verdicts(self, seqs: Times, times: Times) -> NDArray[np.object_]:
        """Return the verdicts on lost rows, by the seq of the mark that decides, and their times.

        From the first mark of a period on, all its rows below the end of the period lie below cuts.
        """
        known_from = self.periods[0].from_seq if self.periods else MAX_INT64
        found = np.where(seqs < known_from, UNKNOWN_VERDICT, IDLE_VERDICT).astype(object)
        for first, last, reason in self.away:
            is_known = (seqs >= known_from) | (first == 0)
            found[is_known & (first <= seqs) & (seqs <= last)] = reason
        for from_seq, until in self.periods:
            found[(seqs >= from_seq) & (times < until)] = BROKEN_VERDICT
        return found


class LocatedRows(NamedTuple):
    """Rows by columns: event time in Unix ms, where each lies in the log, and its name, if any."""

    times: Times
    segments: NDArray[Any]
    offsets: Times
    names: NDArray[Any] | None = None

    def writers(
        self, words: Mapping[str, WriterPromise], owners: Mapping[int, str]
    ) -> NDArray[Any]:
        """Return the writer of each row, `""` where it is not known.

        The name of a row is that of its writer, if any row has the name of one. Else the writer is
        the owner of its segment.

        >>> words, owners = {"a": WriterPromise(())}, {1: "a"}
        >>> rows = LocatedRows(np.zeros(2, int), np.array([0, 1]), np.zeros(2, int))
        >>> rows.writers(words, owners).tolist()
        ['', 'a']
        >>> rows._replace(names=np.array(["a", "x"])).writers(words, owners).tolist()
        ['a', '']
        """
        if self.names is not None and np.any(known := np.isin(self.names, [*words])):
            return np.where(known, self.names, "")
        found = np.full(len(self.times), "", object)
        for segment, owner in owners.items():
            found[self.segments == segment] = owner
        return found


class LostRows(NamedTuple):
    """Lost rows of one name and verdict: how many, and their least and largest time."""

    name: str
    verdict: str
    rows: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What marks cost: the numbers of the `lost` rows, the name of each, and the verdict on it.

    That is `BROKEN_VERDICT` if the writer had vouched for the row's time at a mark that did not
    cover it; `UNKNOWN_VERDICT` if it is not known from which mark on it vouched; else the row is
    late by contract, and the verdict is why the last such mark went on without the writer.
    `not_judged` are the rows below the first cut that is kept, unless that is the first there ever
    was.
    """

    lost: NDArray[np.int64]
    names: NDArray[Any]
    verdicts: NDArray[np.object_]
    not_judged: int
    waits: WindowWaits

    def rows(self, times: Times) -> list[LostRows]:
        """Return the lost rows by name and verdict, broken words first, then the most rows.

        `times` are those of all rows.
        """
        groups: dict[tuple[str, str], list[int]] = {}
        for each in zip(self.names.tolist(), self.verdicts, times[self.lost].tolist(), strict=True):
            groups.setdefault(each[:2], []).append(each[2])
        found = [LostRows(*of, len(ms), min(ms), max(ms)) for of, ms in groups.items()]
        return sorted(
            found, key=lambda each: (each.verdict != BROKEN_VERDICT, -each.rows, each.name)
        )


def judge(
    marks: NotedMarks,
    rows: LocatedRows,
    words: Mapping[str, WriterPromise],
    owners: Mapping[int, str],
    window_ms: int = 0,
) -> Judgement:
    """Judge rows by marks, of which there is one at least; a writer without a word is not known.

    A window has its result at the first mark whose lower has reached its end; those that the first
    mark kept closes are in no figure.
    """
    lowers, last = np.asarray(marks.lowers), marks.find_marks_below(rows.segments, rows.offsets)
    late = (last >= 0) & (lowers[last] > rows.times)
    lost = np.flatnonzero(late)
    seqs, times = last[lost] + marks.first_seq, rows.times[lost]
    verdicts = np.full(len(lost), UNKNOWN_VERDICT, object)
    writers = rows.writers(words, owners)[lost].astype(str)
    for of_it in group_rows(writers) if len(lost) else ():
        word = words.get(str(writers[of_it[0]]))
        if word is not None:
            verdicts[of_it] = word.verdicts(seqs[of_it], times[of_it])
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
