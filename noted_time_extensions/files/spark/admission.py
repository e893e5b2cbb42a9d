"""Counts, limits and divides the unread rows of a log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from noted_time import Rejected
from noted_time.extending import Version
from noted_time_extensions.files.spark.forms import ColumnForms, SliceForm
from noted_time_extensions.files.spark.log_files import FilesBySegment, LogFile

ROWS_WORTH_A_TASK = 50_000  # starting a Python task costs about 10 ms


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows `first` to `last` (exclusive) of one file; of an object, of its planned `version`.

    `form` says how their event times are read.
    """

    path: str
    first: int
    last: int
    version: Version | None = None
    form: SliceForm | None = None

    @property
    def rows(self) -> int:
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class Unread:
    """The files of each segment, and the offset where its unread rows start."""

    files: FilesBySegment
    start: Mapping[int, int]

    def count_rows(self) -> dict[int, int]:
        rows: dict[int, int] = {}
        for segment, run in self.files.items():
            rows[segment] = _count_rows(run, self.start.get(segment, 0))
        return rows

    def find_ends(self, rows: Mapping[int, int]) -> dict[int, int]:
        """Return the offset of each segment after so many unread rows."""
        ends: dict[int, int] = {}
        for segment, run in self.files.items():
            ends[segment] = advance_offset(run, self.start.get(segment, 0), rows[segment])
        return ends

    def limit_to_cut(self, cut: Mapping[int, int]) -> Unread:
        files: dict[int, list[LogFile]] = {}
        for segment, run in self.files.items():
            end = max(cut.get(segment, 0), self.start.get(segment, 0))
            files[segment] = select_below(run, end)
        return Unread(files, self.start)


def select_below(files: list[LogFile], cut: int) -> list[LogFile]:
    """Return the files below a cut; unused offsets at its end become an empty file."""
    files_below = files[: bisect_left(files, cut, key=attrgetter("start"))]
    if files_below and files_below[-1].end > cut:
        return [*files_below[:-1], replace(files_below[-1], end=cut)]
    if len(files_below) < len(files):
        files_below.append(replace(files[len(files_below)], start=cut, end=cut))
    return files_below


def compute_shares(rows: Mapping[int, int], limit: int) -> dict[int, int]:
    """Divide `limit` rows over the segments in proportion to their available rows.

    >>> compute_shares({0: 300, 1: 100}, 100)
    {0: 75, 1: 25}
    >>> compute_shares({0: 1, 1: 1, 2: 1}, 2)
    {0: 1, 1: 1, 2: 0}
    """
    total = sum(rows.values())
    if total <= limit:
        return dict(rows)
    shares: dict[int, int] = {}
    rows_passed = 0
    rows_taken = 0
    for segment, available_rows in rows.items():
        rows_passed += available_rows
        rows_due = _divide_up(rows_passed * limit, total)
        shares[segment] = rows_due - rows_taken
        rows_taken = rows_due
    return shares


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)


def find_slices(
    files: Sequence[LogFile], start: int, end: int | None, segment: int, forms: ColumnForms
) -> Iterator[Slice]:
    for file in select_unread(files, start):
        last = file.end if end is None else min(file.end, end)
        first = max(file.start, start)
        if first < last:
            first_row = first - file.start
            end_row = last - file.start
            part = Slice(str(file.path), first_row, end_row, version=file.version)
            yield from divide_by_form(file, segment, part, forms)


def divide_by_form(file: LogFile, segment: int, part: Slice, forms: ColumnForms) -> Iterator[Slice]:
    """Yield the rows of a slice of a file, divided where the form of their event times changes."""
    for first, end, form in forms.list_spans(
        segment, file.start + part.first, file.start + part.last
    ):
        yield replace(part, first=first - file.start, last=end - file.start, form=form)


def advance_offset(files: Sequence[LogFile], start: int, rows: int) -> int:
    """Return the offset after the first `rows` rows at or above `start`.

    Unused offsets are read with the row before them, once the next file shows their end.
    """
    end = start
    for file in select_unread(files, start):
        if rows == 0:
            return max(end, file.start)
        first = max(file.start, start)
        end = min(file.end, first + rows)
        rows -= end - first
        if end < file.end:
            return end
    return end


def check_there(files: Sequence[LogFile], start: int, end: int) -> None:
    """Raise `Rejected` if unread rows were deleted; a log read from 0 may start anywhere."""
    last = files[-1].end if files else start
    if start > 0:
        check_begins(files, start)
    if last < max(start, end):
        why = f"the segment ends at {last}" if files else "no file of the segment has them"
        raise Rejected(f"offsets {last} to {max(start, end)} are missing: {why}")


def check_begins(files: Sequence[LogFile], start: int) -> None:
    first = files[0].start if files else start
    if start < first:
        raise Rejected(f"offsets {start} to {first} are missing: before {files[0].path.name}")


def _count_rows(files: Sequence[LogFile], start: int) -> int:
    return sum(file.end - max(file.start, start) for file in select_unread(files, start))


def select_unread(files: Sequence[LogFile], start: int) -> Sequence[LogFile]:
    """Return the files with rows at or above an offset."""
    return files[bisect_right(files, start, key=attrgetter("end")) :]


def divide_into_tasks(
    work: list[Slice], cores: int, least: int = ROWS_WORTH_A_TASK
) -> list[list[Slice]]:
    """Divide slices into equal tasks, at most one per core.

    >>> [[(each.path, each.first, each.last) for each in task] for task in
    ...  divide_into_tasks([Slice("a", 0, 30), Slice("b", 0, 10)], cores=2, least=1)]
    [[('a', 0, 20)], [('a', 20, 30), ('b', 0, 10)]]
    """
    total = sum(part.rows for part in work)
    task_count = max(1, min(cores, total // least))
    tasks: list[list[Slice]] = [[] for _ in range(task_count)]
    rows_passed = 0
    for part in work:
        first = part.first
        while first < part.last:
            task = rows_passed * task_count // total
            task_end = _divide_up((task + 1) * total, task_count)
            last = min(part.last, first + task_end - rows_passed)
            tasks[task].append(replace(part, first=first, last=last))
            rows_passed += last - first
            first = last
    return [task for task in tasks if task]
