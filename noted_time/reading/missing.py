"""Finds the writers that marks advanced without, for each window.

A missing writer's interval begins with its last time, at the first mark above it. It ends with the
last lower before a mark that counts the writer again, or that reports its removal.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from noted_time.values import MIN_INT64, WRITERS_NAMED, Absence, Mark, Missing, MissingReason

NOT_KNOWN = MIN_INT64  # less than each time that a writer may note, and than each clock

MAY_HAVE_BEEN_MEMBER: Sequence[bool | UnsetType] = UNSET, False, True
"""The values of the field, by their number in a column."""


class MissingSpan(NamedTuple):
    """An absence, and the first and the last mark that lacks the writer.

    `last_seq` is `None` if the absence has not ended.
    """

    absence: Absence
    first_seq: int
    last_seq: int | None


class MissingWriters:
    """The intervals of one domain: open ones by writer, and ended ones in the order of their ends.

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

    __slots__ = ("_ended", "_open", "_table", "known_from")

    def __init__(self, known_from: int = MIN_INT64) -> None:
        """Below `known_from`, missing writers may be unknown."""
        self.known_from = known_from
        self._table = _IntervalTable()
        self._open: dict[str, int] = {}  # the row of each writer
        self._ended = array("q")  # rows, by the last seq and by the end

    def take(
        self,
        seq: int,
        appended_at: int,
        lowers: tuple[int | None, int],
        absences: Collection[Absence],
        returned_writers: Collection[str],
    ) -> None:
        """Add the ledger's entries of mark `seq`; `lowers` are the lowers before and at it."""
        lower_before, lower = lowers
        self.known_from = self.find_known_from(lowers, absences, returned_writers)
        for name in returned_writers:
            self._end(name, lower_before, seq - 1)
        open_absences: list[Absence] = []  # kept in the order of their ends
        for absence in absences:
            if not absence.joined_later:
                open_absences.append(absence)
                if absence.reason == "narrowed":  # another absence has ended
                    self._end(absence.writer, lower_before, seq - 1)
            elif lower_before is not None and (start := _find_start(absence)) < lower_before:
                self._add_ended(
                    self._table.add(absence, start, 1, appended_at), lower_before, seq - 1
                )
        for absence in open_absences:
            if absence.reason == "removed" and self._has_outlived(absence.writer):
                self._drop_open(absence.writer)
            self.begin(absence, seq, appended_at)
            if absence.reason == "removed":
                self._end(absence.writer, lower, seq)

    def find_known_from(
        self,
        lowers: tuple[int | None, int],
        absences: Collection[Absence],
        returned_writers: Collection[str],
    ) -> int:
        """Return `known_from` with the ledger's entries of a mark, see `take`.

        They may end an interval that only the member has kept, and nothing keeps afterwards.
        """
        lower_before, lower = lowers
        ends = [lower_before for name in returned_writers if self._has_outlived(name)]
        for absence in absences:
            if absence.reason == "narrowed" and self._has_outlived(absence.writer):
                ends.append(lower_before)
            elif absence.reason == "removed" and self._has_outlived(absence.writer):
                ends.append(lower)
        return max(self.known_from, *(end for end in ends if end is not None), MIN_INT64)

    def _has_outlived(self, name: str) -> bool:
        """Return whether the writer is missing, and the ledger's entry is deleted."""
        row = self._open.get(name)
        return row is not None and self._table.opened_at[row] == NOT_KNOWN

    def begin(self, absence: Absence, seq: int, appended_at: int | None) -> None:
        """Open an interval at mark `seq`, unless one is open.

        The ledger's entry was appended at `appended_at` (service clock), or is deleted with `None`.
        """
        if absence.writer not in self._open:
            row = self._table.add(absence, _find_start(absence), seq, _to_number(appended_at))
            self._open[absence.writer] = row

    def begin_outlived(self, absence: Absence, seq: int) -> None:
        """Open the interval of an absence which its member has kept since mark `seq`.

        A later entry of the ledger, if there is one, names the same absence again.
        """
        row = self._open.get(absence.writer)
        if row is not None and self._table.first_seqs[row] > seq:
            self._drop_open(absence.writer)
        self.begin(absence, seq, appended_at=None)

    def _drop_open(self, name: str) -> None:
        self._table.drop(self._open.pop(name))

    def _end(self, name: str, end: int | None, last_seq: int) -> None:
        row = self._open.pop(name, None)
        if row is None:
            return
        if end is None or self._table.opened_at[row] == NOT_KNOWN:
            self._table.drop(row)
        else:
            self._add_ended(row, end, last_seq)

    def _add_ended(self, row: int, end: int, last_seq: int) -> None:
        self._table.end(row, end, last_seq)
        last_seqs = self._table.last_seqs
        place = len(self._ended)
        if place and last_seqs[self._ended[-1]] > last_seq:  # of an earlier slice of the entry
            place = bisect_right(self._ended, last_seq, key=last_seqs.__getitem__)
        self._ended.insert(place, row)

    def forget_before(
        self, before_served_ms: int, last_lower: int | None, members: Iterable[str]
    ) -> Collection[str]:
        """Forget old intervals, and return the writers whose intervals had not ended.

        Members' intervals that have not ended are kept.
        """
        table = self._table
        opened_at = self._table.opened_at
        old_rows = [row for row in self._ended if opened_at[row] < before_served_ms]
        expired_writers = {
            name for name, row in self._open.items() if opened_at[row] < before_served_ms
        }
        for name in expired_writers.intersection(members if expired_writers else ()):
            opened_at[self._open[name]] = NOT_KNOWN
            expired_writers.discard(name)
        if not old_rows and not expired_writers:
            return ()
        ends = [table.ends[row] for row in old_rows]
        if expired_writers and last_lower is not None:
            ends.append(last_lower)
        for name in expired_writers:
            self._drop_open(name)
        self._ended = array("q", (row for row in self._ended if opened_at[row] >= before_served_ms))
        for row in old_rows:
            table.drop(row)
        self.known_from = max(self.known_from, *ends)
        return expired_writers

    def find_at_mark(self, mark: Mark) -> Missing:
        table = self._table
        seq = mark.seq
        lower = mark.lower
        writers = table.writers
        starts = table.starts
        member_rows: list[int] = []
        later_rows: list[int] = []
        narrowed_rows: dict[str, int] = {}
        for row in chain(self._list_ended(seq), self._open.values()):
            is_below = starts[row] < lower
            if table.first_seqs[row] <= seq:
                if not table.joined_later[row]:
                    member_rows.append(row)
                elif is_below:
                    later_rows.append(row)
            if is_below and table.reasons[row] == "narrowed":
                narrowed_rows[writers[row]] = row
        if narrowed_rows:
            # one that narrowed may have been idle at earlier marks, and reports no late rows
            named_writers = {writers[row] for row in chain(member_rows, later_rows)}
            member_rows += [row for name, row in narrowed_rows.items() if name not in named_writers]
        shown_absences = tuple(
            map(table.build_absence, islice(chain(member_rows, later_rows), WRITERS_NAMED))
        )
        count = len(member_rows) + len(later_rows)
        return Missing(shown_absences, count, len(later_rows), is_known=lower > self.known_from)

    def _list_ended(self, seq: int) -> Sequence[int]:
        """Return the rows of ended intervals that mark `seq`, or a later one, lacks."""
        return self._ended[bisect_left(self._ended, seq, key=self._table.last_seqs.__getitem__) :]

    def find_between(self, lower: int, seq: int) -> tuple[set[str], set[str]]:
        """Return the members missing at marks from a lower to `seq`, and who had joined before.

        >>> missing = MissingWriters()
        >>> joined = Absence("lima", "not_joined", 7, None, {}, 5)
        >>> missing.take(3, 0, (20, 30), [joined, Absence("UA", "timed_out", 7, 10, {}, 10)], ())
        >>> missing.take(4, 0, (30, 40), (), ("UA",))
        >>> missing.find_between(20, 5), missing.find_between(31, 5)
        (({'UA'}, set()), (set(), {'lima'}))
        """
        table = self._table
        missing_members = set[str]()
        joined_writers = set[str]()
        for row in self._ended:
            if table.joined_later[row]:
                if table.ends[row] < lower:
                    joined_writers.add(table.writers[row])
            elif table.ends[row] >= lower and table.first_seqs[row] <= seq:
                missing_members.add(table.writers[row])
        return missing_members, joined_writers

    def find_seq_without(
        self, seq: int, last_seq: int, owes_rows: Callable[[str], bool] = bool
    ) -> tuple[int, list[Absence]]:
        """Return the first mark from `seq` to `last_seq` without missing members, or one with them.

        A member counts only if it `owes_rows`.
        """
        table = self._table
        member_rows = [
            row
            for row in self._list_ended(seq)
            if not table.joined_later[row] and owes_rows(table.writers[row])
        ]
        for row in member_rows:
            if table.first_seqs[row] <= seq:
                seq = table.last_seqs[row] + 1
        seq = min(seq, last_seq)
        missing_rows = [row for row in member_rows if table.last_seqs[row] >= seq]
        missing_rows += (row for name, row in self._open.items() if owes_rows(name))
        absences = [
            table.build_absence(row) for row in missing_rows if table.first_seqs[row] <= seq
        ]
        return seq, absences

    def share_names(self, names: dict[str, str]) -> None:
        """Let a writer's intervals have one string for its name, which is then in `names`."""
        open_rows = self._open.items()
        self._open = {names.setdefault(name, name): row for name, row in open_rows}
        self._table.share_names(names)

    def list_absences(self) -> Iterator[MissingSpan]:
        """Yield each absence with the marks that lack the writer."""
        table = self._table
        for row in self._ended:
            absence = table.build_absence(row)
            yield MissingSpan(absence, table.first_seqs[row], table.last_seqs[row])
        for row in self._open.values():
            yield MissingSpan(table.build_absence(row), table.first_seqs[row], None)

    def list_first_seqs(self) -> Iterator[tuple[str, int]]:
        """Yield each missing member, and the first mark without it."""
        table = self._table
        for row in chain(self._ended, self._open.values()):
            if not table.joined_later[row]:
                yield table.writers[row], table.first_seqs[row]

    @property
    def open_writers(self) -> KeysView[str]:
        """The writers whose absence has not ended, in the order of the marks that named them."""
        return self._open.keys()

    def list_newest_open(self) -> Iterator[Absence]:
        """Yield the absences that have not ended, the newest first."""
        return map(self._table.build_absence, reversed(self._open.values()))

    def find_open(self, writer: str) -> tuple[Absence, int] | None:
        """Return a writer's absence that has not ended, with `from_time`, and its first mark."""
        row = self._open.get(writer)
        if row is None:
            return None
        start = self._table.starts[row]
        from_time = None if start == MIN_INT64 else start
        absence = replace(self._table.build_absence(row), from_time=from_time)
        return absence, self._table.first_seqs[row]

    def find_in_windows(self, borders: Sequence[int]) -> Iterator[Missing]:
        """Yield who is missing from each window between two adjacent `borders`."""
        window_starts = borders[:-1]
        beyond = borders[-1]
        if not window_starts:
            return
        new_rows: list[list[int]] = [[] for _ in window_starts]
        ended_rows: list[list[int]] = [[] for _ in borders]
        starts = self._table.starts
        ends = self._table.ends
        first = bisect_right(self._ended, borders[0], key=ends.__getitem__)
        for row in self._ended[first:]:
            if starts[row] < min(beyond, ends[row]):  # an empty interval is in no window
                new_rows[max(0, bisect_right(borders, starts[row]) - 1)].append(row)
                ended_rows[min(len(window_starts), bisect_left(borders, ends[row]))].append(row)
        for row in self._open.values():
            if starts[row] < beyond:
                new_rows[max(0, bisect_right(borders, starts[row]) - 1)].append(row)
        with self._table.reading():  # other tasks run between two windows
            yield from self._sweep(window_starts, new_rows, ended_rows)

    def _sweep(
        self,
        starts: Sequence[int],
        new_rows_by_window: list[list[int]],
        ended_rows_by_window: list[list[int]],
    ) -> Iterator[Missing]:
        table = self._table
        member_rows: dict[str, list[int]] = {}
        later_rows: dict[str, list[int]] = {}
        for start, new_rows, ended_rows in zip(
            starts, new_rows_by_window, ended_rows_by_window, strict=False
        ):
            for row in ended_rows:
                by_name = later_rows if table.joined_later[row] else member_rows
                name = table.writers[row]
                by_name[name].remove(row)
                if not by_name[name]:
                    del by_name[name]
            for row in new_rows:
                by_name = later_rows if table.joined_later[row] else member_rows
                by_name.setdefault(table.writers[row], []).append(row)
            all_rows = chain(member_rows.values(), later_rows.values())
            shown_absences = tuple(
                table.build_absence(rows[0]) for rows in islice(all_rows, WRITERS_NAMED)
            )
            count = len(member_rows) + len(later_rows)
            yield Missing(shown_absences, count, len(later_rows), start >= self.known_from)


class _IntervalTable:
    """Intervals as columns of numbers, by row: 80 bytes each and the name, where structs take 500.

    The row of a dropped interval is used again once no reader needs it.

    An interval has the times from its start to its end, exclusive, and the marks from its first seq
    to its last one. Its entry in the ledger was appended at `opened_at` (service clock), which is
    `NOT_KNOWN` once the entry is deleted.

    >>> table = _IntervalTable()
    >>> row = table.add(Absence("UA", "timed_out", 7, None), start=10, first_seq=2, opened_at=5)
    >>> table.end(row, 30, last_seq=4)
    >>> table.starts[row], table.ends[row], table.build_absence(row).describe()
    (10, 30, 'UA: timed out')
    >>> with table.reading():
    ...     table.drop(row)
    ...     other = table.add(Absence("AA", "removed", 8, 20), start=20, first_seq=5, opened_at=6)
    ...     table.build_absence(row).describe()
    'UA: timed out'
    >>> table.add(Absence("DL", "removed", 8, 20), start=20, first_seq=5, opened_at=6) == row
    True
    """

    __slots__ = (
        "_began_at",
        "_dropped_rows",
        "_free_rows",
        "_last_times",
        "_may_have_been_member",
        "_reader_count",
        "_reason_by_name",
        "ends",
        "first_seqs",
        "joined_later",
        "last_seqs",
        "opened_at",
        "reasons",
        "starts",
        "writers",
    )

    def __init__(self) -> None:
        self.writers: list[str] = []
        self.reasons: list[MissingReason] = []
        self.joined_later = bytearray()
        self.starts = array("q")
        self.ends = array("q")
        self.first_seqs = array("q")
        self.last_seqs = array("q")
        self.opened_at = array("q")
        self._began_at = array("q")
        self._last_times = array("q")
        self._may_have_been_member = bytearray()
        self._reason_by_name: dict[str, MissingReason] = {}
        self._free_rows = array("q")
        self._dropped_rows = array("q")  # during a reading
        self._reader_count = 0

    def add(self, absence: Absence, start: int, first_seq: int, opened_at: int) -> int:
        """Add an interval that has not ended, and return its row."""
        if not self._free_rows:
            self._add_free_rows()
        row = self._free_rows.pop()
        reason = absence.reason
        self.writers[row] = absence.writer
        # a string for each reason, not for each interval
        self.reasons[row] = self._reason_by_name.setdefault(reason, reason)
        self.joined_later[row] = absence.joined_later
        self.starts[row] = self.ends[row] = start
        self.first_seqs[row] = self.last_seqs[row] = first_seq
        self.opened_at[row] = opened_at
        self._began_at[row] = _to_number(absence.began_at)
        self._last_times[row] = _to_number(absence.last_time)
        self._may_have_been_member[row] = MAY_HAVE_BEEN_MEMBER.index(absence.may_have_been_member)
        return row

    def end(self, row: int, end: int, last_seq: int) -> None:
        self.ends[row] = end
        self.last_seqs[row] = last_seq

    def drop(self, row: int) -> None:
        if self._reader_count:
            self._dropped_rows.append(row)
        else:
            self.writers[row] = ""
            self._free_rows.append(row)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep the writers and absences of all rows meanwhile, also of dropped ones."""
        self._reader_count += 1
        try:
            yield
        finally:
            self._reader_count -= 1
            if not self._reader_count:
                dropped_rows = self._dropped_rows
                self._dropped_rows = array("q")
                for row in dropped_rows:
                    self.drop(row)

    def share_names(self, names: dict[str, str]) -> None:
        self.writers = [names.setdefault(name, name) for name in self.writers]

    def build_absence(self, row: int) -> Absence:
        return Absence(
            self.writers[row],
            self.reasons[row],
            _from_number(self._began_at[row]),
            _from_number(self._last_times[row]),
            may_have_been_member=MAY_HAVE_BEEN_MEMBER[self._may_have_been_member[row]],
        )

    def _add_free_rows(self) -> None:
        """Lengthen all columns by a sixteenth."""
        length = len(self.writers)
        count = length // 16 + 1
        self.writers += [""] * count
        self.reasons += ["removed"] * count
        self.joined_later += bytes(count)
        self._may_have_been_member += bytes(count)
        numbers = (
            self.starts,
            self.ends,
            self.first_seqs,
            self.last_seqs,
            self.opened_at,
            self._began_at,
            self._last_times,
        )
        for column in numbers:
            column.frombytes(bytes(count * column.itemsize))
        self._free_rows.extend(range(length + count - 1, length - 1, -1))


def _to_number(time: int | None) -> int:
    return NOT_KNOWN if time is None else time


def _from_number(number: int) -> int | None:
    return None if number == NOT_KNOWN else number


def _find_start(absence: Absence) -> int:
    start = absence.from_time
    if isinstance(start, int):
        return start
    return MIN_INT64
