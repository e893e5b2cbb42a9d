"""Finds the writers that marks advanced without, for each window.

A missing writer's interval begins with its last time, at the first mark above it. It ends with the
last lower before a mark that counts the writer again, or that reports its removal.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from noted_time.values import MIN_INT64, WRITERS_NAMED, Absence, Mark, Missing


class _Interval(NamedTuple):
    """The times from `start` to `end`, exclusive, and the first and last mark without a writer.

    The mark after `last_seq` counts the writer again, or `last_seq` reported its removal. The
    ledger's entry was appended at `opened_at` (service clock), or is `None` once it is deleted.
    """

    absence: Absence
    start: int
    first_seq: int
    opened_at: int | None
    end: int
    last_seq: int


class MissingWriters:
    """The intervals of one domain: `open` by writer, and ended, in the order of their ends.

    >>> from noted_time import Mark, StreamCut
    >>> from noted_time.values.writer_state import Absence
    >>> missing = MissingWriters()
    >>> missing.take(2, 0, (10, 20), [Absence("UA", "timed_out", 7, 10, {}, 10)], ())
    >>> missing.take(4, 0, (30, 40), (), ("UA",))
    >>> [found.count for found in missing.find_in_windows([0, 10, 20, 30, 40])]
    [0, 1, 1, 0]
    >>> marks = [Mark(seq, 10 * seq, 0, StreamCut({})) for seq in (1, 2, 3, 4)]
    >>> [missing.find_at_mark(mark).count for mark in marks]
    [0, 1, 1, 0]

    Only intervals that began before a time are forgotten:

    >>> missing.take(5, 3, (40, 50), [Absence("DL", "timed_out", 4, 40, {}, 40)], ())
    >>> missing.take(6, 4, (50, 60), (), ("DL",))
    >>> _ = missing.forget_before(3, 60, ())
    >>> fifth = Mark(5, 50, 0, StreamCut({}))
    >>> [missing.find_at_mark(mark).count for mark in (marks[1], fifth)], missing.known_from
    ([0, 1], 30)
    """

    __slots__ = ("_ended", "known_from", "open")

    def __init__(self, known_from: int = MIN_INT64) -> None:
        """Below `known_from`, missing writers may be unknown."""
        self.known_from = known_from
        self.open: dict[str, _Interval] = {}
        self._ended: list[_Interval] = []

    def take(
        self,
        seq: int,
        at: int,
        lowers: tuple[int | None, int],
        absences: Collection[Absence],
        returned: Collection[str],
    ) -> None:
        """Add the ledger's entries of mark `seq`; `lowers` are the lowers before and at it."""
        before, lower = lowers
        self.known_from = self.find_known_from(lowers, absences, returned)
        for name in returned:
            self._end(name, before, seq - 1)
        absent: list[Absence] = []  # kept in the order of their ends
        for absence in absences:
            if not absence.joined_later:
                absent.append(absence)
                if absence.reason == "narrowed":  # another absence has ended
                    self._end(absence.writer, before, seq - 1)
            elif before is not None and (start := _find_start(absence)) < before:
                named = _drop_position(absence)
                self._ended.append(_Interval(named, start, 1, at, before, seq - 1))
        for absence in absent:
            if absence.reason == "removed" and self._has_outlived(absence.writer):
                del self.open[absence.writer]
            self.begin(absence, seq, at)
            if absence.reason == "removed":
                self._end(absence.writer, lower, seq)

    def find_known_from(
        self,
        lowers: tuple[int | None, int],
        absences: Collection[Absence],
        returned: Collection[str],
    ) -> int:
        """Return `known_from` with the ledger's entries of a mark, see `take`.

        They may end an interval that only the member has kept, and nothing keeps afterwards.
        """
        before, lower = lowers
        ends = [before for name in returned if self._has_outlived(name)]
        for absence in absences:
            if absence.reason == "narrowed" and self._has_outlived(absence.writer):
                ends.append(before)
            elif absence.reason == "removed" and self._has_outlived(absence.writer):
                ends.append(lower)
        return max(self.known_from, *(end for end in ends if end is not None), MIN_INT64)

    def _has_outlived(self, name: str) -> bool:
        """Return whether the writer is missing, and the ledger's entry is deleted."""
        return name in self.open and self.open[name].opened_at is None

    def begin(self, absence: Absence, seq: int, at: int | None) -> None:
        """Open an interval at mark `seq`, unless one is open.

        The ledger's entry was appended at `at` (service clock), or is deleted with `None`.
        """
        if absence.writer not in self.open:
            start = _find_start(absence)
            opened = _Interval(_drop_position(absence), start, seq, at, start, seq)
            self.open[absence.writer] = opened

    def begin_outlived(self, absence: Absence, seq: int) -> None:
        """Open the interval of an absence which its member has kept since mark `seq`.

        A later entry of the ledger, if there is one, names the same absence again.
        """
        known = self.open.get(absence.writer)
        if known is None or known.first_seq > seq:
            self.open.pop(absence.writer, None)
            self.begin(absence, seq, at=None)

    def _end(self, name: str, end: int | None, last_seq: int) -> None:
        interval = self.open.pop(name, None)
        if interval is not None and interval.opened_at is not None and end is not None:
            self._ended.append(interval._replace(end=end, last_seq=last_seq))

    def forget_before(
        self, at: int, last_lower: int | None, members: Iterable[str]
    ) -> Collection[str]:
        """Forget old intervals, and return the writers whose intervals had not ended.

        Members' intervals that have not ended are kept.
        """
        old = [each for each in self._ended if _is_before(each, at)]
        expired = {name for name, each in self.open.items() if _is_before(each, at)}
        for name in expired.intersection(members if expired else ()):
            self.open[name] = self.open[name]._replace(opened_at=None)
            expired.discard(name)
        if not old and not expired:
            return ()
        ends = [each.end for each in old]
        if expired and last_lower is not None:
            ends.append(last_lower)
        for name in expired:
            del self.open[name]
        self._ended = [each for each in self._ended if not _is_before(each, at)]
        self.known_from = max(self.known_from, *ends)
        return expired

    def find_at_mark(self, mark: Mark) -> Missing:
        seq = mark.seq
        ended = self._ended[bisect_left(self._ended, seq, key=attrgetter("last_seq")) :]
        intervals = (*ended, *self.open.values())
        absent = [
            each.absence
            for each in intervals
            if each.first_seq <= seq
            and not (each.absence.joined_later and mark.lower <= each.start)
        ]
        named = {each.writer for each in absent}
        # one that narrowed may have been idle at earlier marks, and reports no late rows
        narrowed = {
            each.absence.writer: each.absence
            for each in intervals
            if each.absence.reason == "narrowed" and each.start < mark.lower
        }
        absent += [absence for name, absence in narrowed.items() if name not in named]
        writers = sorted(absent, key=attrgetter("joined_later"))
        later = sum(each.joined_later for each in writers)
        shown = tuple(writers[:WRITERS_NAMED])
        return Missing(shown, len(writers), later, is_known=mark.lower > self.known_from)

    def find_between(self, lower: int, seq: int) -> tuple[set[str], set[str]]:
        """Return the members missing at marks from a lower to `seq`, and who had joined before.

        >>> missing = MissingWriters()
        >>> joined = Absence("lima", "not_joined", 7, None, {}, 5)
        >>> missing.take(3, 0, (20, 30), [joined, Absence("UA", "timed_out", 7, 10, {}, 10)], ())
        >>> missing.take(4, 0, (30, 40), (), ("UA",))
        >>> missing.find_between(20, 5), missing.find_between(31, 5)
        (({'UA'}, set()), (set(), {'lima'}))
        """
        members, joined_before = set[str](), set[str]()
        for each in self._ended:
            if each.absence.joined_later:
                if each.end < lower:
                    joined_before.add(each.absence.writer)
            elif each.end >= lower and each.first_seq <= seq:
                members.add(each.absence.writer)
        return members, joined_before

    def find_seq_without(
        self, seq: int, last: int, owes_rows: Callable[[str], bool] = bool
    ) -> tuple[int, list[Absence]]:
        """Return the first mark from `seq` to `last` without missing members, or one with them.

        A member counts only if it `owes_rows`.
        """
        ended = self._ended[bisect_left(self._ended, seq, key=attrgetter("last_seq")) :]
        members = [
            each
            for each in ended
            if not each.absence.joined_later and owes_rows(each.absence.writer)
        ]
        for each in members:
            if each.first_seq <= seq:
                seq = each.last_seq + 1
        seq = min(seq, last)
        still = (each for each in members if each.last_seq >= seq)
        opened = (each for each in self.open.values() if owes_rows(each.absence.writer))
        return seq, [each.absence for each in chain(still, opened) if each.first_seq <= seq]

    def list_absences(self) -> Iterator[tuple[Absence, int, int | None]]:
        """Yield each absence, and the first and the last mark that lacks the writer.

        The last mark is `None` if the absence has not ended.
        """
        for each in self._ended:
            yield each.absence, each.first_seq, each.last_seq
        for each in self.open.values():
            yield each.absence, each.first_seq, None

    def list_first_seqs(self) -> Iterator[tuple[str, int]]:
        """Yield each missing member, and the first mark without it."""
        for each in chain(self._ended, self.open.values()):
            if not each.absence.joined_later:
                yield each.absence.writer, each.first_seq

    def find_in_windows(self, borders: Sequence[int]) -> Iterator[Missing]:
        """Yield who is missing from each window between two adjacent `borders`."""
        starts, beyond = borders[:-1], borders[-1]
        if not starts:
            return
        begin: list[list[_Interval]] = [[] for _ in starts]
        over: list[list[_Interval]] = [[] for _ in borders]
        for each in self._ended[bisect_right(self._ended, borders[0], key=attrgetter("end")) :]:
            if each.start < min(beyond, each.end):  # an empty interval is in no window
                begin[max(0, bisect_right(borders, each.start) - 1)].append(each)
                over[min(len(starts), bisect_left(borders, each.end))].append(each)
        for each in self.open.values():
            if each.start < beyond:
                begin[max(0, bisect_right(borders, each.start) - 1)].append(each)
        yield from self._sweep(starts, begin, over)

    def _sweep(
        self, starts: Sequence[int], begin: list[list[_Interval]], over: list[list[_Interval]]
    ) -> Iterator[Missing]:
        members: dict[str, list[_Interval]] = {}
        later: dict[str, list[_Interval]] = {}
        for start, new, ended in zip(starts, begin, over, strict=False):
            for each in ended:
                by_name = later if each.absence.joined_later else members
                by_name[each.absence.writer].remove(each)
                if not by_name[each.absence.writer]:
                    del by_name[each.absence.writer]
            for each in new:
                by_name = later if each.absence.joined_later else members
                by_name.setdefault(each.absence.writer, []).append(each)
            both = chain(members.values(), later.values())
            shown = tuple(each[0].absence for each in islice(both, WRITERS_NAMED))
            count = len(members) + len(later)
            yield Missing(shown, count, len(later), start >= self.known_from)


def _is_before(interval: _Interval, at: int) -> bool:
    return interval.opened_at is None or interval.opened_at < at


def _find_start(absence: Absence) -> int:
    start = absence.from_time
    return start if isinstance(start, int) else MIN_INT64


def _drop_position(absence: Absence) -> Absence:
    return replace(absence, position=UNSET, from_time=UNSET)
