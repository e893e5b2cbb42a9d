"""The sizes of micro-batches and tasks; no Spark runs here."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Rejected
from noted_time_extensions.files.spark.admission import (
    Slice,
    Unread,
    advance_offset,
    check_there,
    compute_shares,
    divide_into_tasks,
    find_slices,
    select_below,
)
from noted_time_extensions.files.spark.forms import ColumnForms
from noted_time_extensions.files.spark.log_files import LogFile

NO_FORMS = ColumnForms("flights", "time")

counts = st.dictionaries(st.integers(0, 50), st.integers(0, 10**7), max_size=8)


@st.composite
def runs(draw: st.DrawFn) -> list[LogFile]:
    """Return the files of a segment, with gaps as compacted topics have them."""
    files = []
    start = 0
    for number, (gap, rows) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=6))
    ):
        files.append(LogFile(Path(str(number)), start + gap, start + gap + rows))
        start += gap + rows
    return files


@given(counts, st.integers(1, 10**6))
def test_shares_use_the_limit_and_exceed_no_segment(rows: dict[int, int], limit: int) -> None:
    given_away = compute_shares(rows, limit)

    assert sum(given_away.values()) == min(limit, sum(rows.values()))
    assert all(0 <= given_away[segment] <= rows[segment] for segment in rows)


@given(runs(), st.integers(0, 40), st.integers(0, 40))
def test_offset_advanced_by_rows_has_these_rows_below_it(
    files: list[LogFile], start: int, rows: int
) -> None:
    """The rows may be in several files, with gaps."""
    unread_count = Unread({0: files}, {0: start}).count_rows()[0]
    end = advance_offset(files, start, min(rows, unread_count))

    slices = find_slices(files, start, end, 0, NO_FORMS)
    assert sum(file_slice.rows for file_slice in slices) == min(rows, unread_count)


GAP = [LogFile(Path("a"), 0, 3), LogFile(Path("b"), 9, 11)]
"""The files of a segment without rows at offsets 3 to 8."""


@pytest.mark.parametrize(("start", "rows", "end"), [(0, 2, 2), (0, 3, 9), (3, 0, 9), (3, 1, 10)])
def test_unused_offsets_are_read_with_the_row_before_them(start: int, rows: int, end: int) -> None:
    """So a cut at 5 is reached after the third row."""
    assert advance_offset(GAP, start, rows) == end


@pytest.mark.parametrize("cut", [0, 2, 3, 5, 9, 10, 20])
def test_position_with_all_rows_below_a_cut_reaches_it(cut: int) -> None:
    """The cut may lie among unused offsets."""
    assert advance_offset(select_below(GAP, cut), 0, 99) == min(cut, 11)


def test_files_end_at_a_cut_or_where_they_were_read() -> None:
    """Segments that the cut does not name are not read."""
    log = {0: [LogFile(Path(f"{start}"), start, start + 10) for start in (0, 10, 20)]}

    def list_spans(start: dict[int, int], cut: dict[int, int]) -> list[tuple[int, int]]:
        unread = Unread(log, start).limit_to_cut(cut)
        return [(file.start, file.end) for file in unread.files[0]]

    assert list_spans({}, {0: 15}) == [(0, 10), (10, 15)]
    assert list_spans({0: 18}, {0: 15}) == [(0, 10), (10, 18)]
    assert list_spans({}, {1: 5}) == [(0, 0)]


@pytest.mark.parametrize(("start", "end"), [(3, 11), (9, 12), (20, 0)])
def test_rows_deleted_before_they_were_read_are_named(start: int, end: int) -> None:
    """Retention was faster than the query, a planned file is missing, or the log began again."""
    with pytest.raises(Rejected, match=r"offsets \d+ to \d+ are missing"):
        check_there([LogFile(Path("b"), 9, 11)], start, end)


@pytest.mark.parametrize(("start", "end"), [(0, 11), (9, 11), (10, 0)])
def test_rows_deleted_after_they_were_read_are_not_missed(start: int, end: int) -> None:
    """A log before the first read of a query is not missed, either."""
    check_there([LogFile(Path("b"), 9, 11)], start, end)
    check_there([], start, 0)


def make_slices(*sizes: int) -> list[Slice]:
    """Return slices of these numbers of rows, each of a file of its own."""
    return [Slice(str(number), 0, size) for number, size in enumerate(sizes)]


def list_rows(slices: Iterable[Slice]) -> list[tuple[str, int]]:
    """Return the file and the number of each row."""
    rows = []
    for file_slice in slices:
        for row in range(file_slice.first, file_slice.last):
            rows.append((file_slice.path, row))
    return rows


@given(st.lists(st.integers(1, 200), max_size=9), st.integers(1, 8), st.integers(1, 50))
def test_tasks_read_every_row_once_and_in_order(sizes: list[int], cores: int, least: int) -> None:
    """The tasks together are the slices in their order."""
    work = make_slices(*sizes)
    tasks = divide_into_tasks(work, cores, least)

    assert list_rows(chain.from_iterable(tasks)) == list_rows(work)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=9), st.integers(1, 8))
def test_tasks_differ_by_one_row_at_most(sizes: list[int], cores: int) -> None:
    loads = []
    for task in divide_into_tasks(make_slices(*sizes), cores, least=1):
        loads.append(sum(file_slice.rows for file_slice in task))

    assert max(loads) - min(loads) <= 1


def test_small_batch_is_one_task() -> None:
    """Another task would cost more than it saves."""
    work = make_slices(*[1000] * 16)

    assert divide_into_tasks(work, cores=8) == [work]
