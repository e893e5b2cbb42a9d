"""Rows of marks have the offsets that moved; readers get whole cuts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import func, select

from controller.store.port import Reading, Store
from controller.store.records import AppendedMark, ChangeSet
from controller.store.schema import RECORD_TABLES
from controller.store.sql import SqlStore
from noted_time import Conflict, Mark, StreamCut
from tests.support.properties import costly
from tests.support.stored import build_changes, commit, mark
from tools.trials.memory_store import MemoryStore

MANY = 4096
DOMAINS = ("default", "ship_time")


def make_mark(seq: int, offsets: dict[int, int], domain: str = "default") -> AppendedMark:
    """Return the mark number `seq` with that cut."""
    appended_mark = mark(seq, domain=domain)
    return replace(appended_mark, mark=replace(appended_mark.mark, cut=StreamCut(offsets)))


def make_moving_marks(segments: int, upto: int) -> list[AppendedMark]:
    """Return marks of many segments that each move one segment."""
    offsets = dict.fromkeys(range(segments), 1_000_000)
    return [make_mark(seq, {**offsets, 0: 1_000_000 + seq}) for seq in range(1, upto + 1)]


def read_cut_lengths(store: SqlStore) -> list[int]:
    """Return the length of the stored cut of each mark."""
    columns = RECORD_TABLES[AppendedMark].c
    lengths = select(func.length(columns.cut)).order_by(columns.seq)
    return [length for (length,) in store._rows(lengths)]


def read_all(store: Reading) -> tuple[dict[str, list[AppendedMark]], list[Mapping[str, Mark]]]:
    """Return all marks of the stream, and the last ones of its summary."""
    marks = {domain: list(store.marks("id-1", domain)) for domain in DOMAINS}
    return marks, [summary.last_marks for summary in store.summaries(["flights"])]


@pytest.fixture
def sql_store(make_durable: Callable[[], SqlStore]) -> Iterator[SqlStore]:
    """A new store of each kind with rows."""
    with closing(make_durable()) as store:
        yield store


@pytest.mark.parametrize("at_once", [1, 100], ids=["each alone", "in one batch"])
def test_unmoved_segments_take_no_space_in_rows_of_marks(sql_store: SqlStore, at_once: int) -> None:
    """Each of a hundred marks stores only the one segment of 4,096 that moved."""
    marks = make_moving_marks(MANY, 100)
    sql_store.commit(build_changes())
    for first in range(0, 100, at_once):
        sql_store.commit(ChangeSet(*marks[first : first + at_once]))

    first_row, *other_lengths = read_cut_lengths(sql_store)
    assert (first_row > 10 * MANY, max(other_lengths) < 20) == (True, True)
    assert list(sql_store.marks("id-1", "default")) == marks


def test_whole_cuts_at_most_double_rows(sql_store: SqlStore) -> None:
    """This holds for a chain of any length, and the last cut is read from few rows."""
    marks = make_moving_marks(170, 200)
    sql_store.commit(build_changes())
    for appended_mark in marks:
        sql_store.commit(ChangeSet(appended_mark))

    are_whole = [length > 20 for length in read_cut_lengths(sql_store)]
    assert (are_whole[:20], sum(are_whole)) == ([True, *[False] * 18, True], 11)
    expected = {"default": marks, "ship_time": []}, [{"default": marks[-1].mark}]
    assert read_all(sql_store) == expected


def test_first_kept_mark_has_all_segments(sql_store: SqlStore) -> None:
    """The dropped marks include the row that named the segments."""
    marks = make_moving_marks(MANY, 9)
    sql_store.commit(build_changes(*marks[:8]))

    batch = ChangeSet(*marks[8:])
    batch.drop_marks("id-1", "default", 5)
    sql_store.commit(batch)

    lengths = read_cut_lengths(sql_store)
    assert [length > 20 for length in lengths] == [True, False, False, False]
    assert list(sql_store.marks("id-1", "default")) == marks[5:]


def test_mark_is_compared_with_last_mark_of_another_store(
    make_pair: Callable[[], tuple[Store, Store]],
) -> None:
    store, other_store = make_pair()
    offsets = dict.fromkeys(range(40), 5)
    marks = [make_mark(seq, {**offsets, 0: 5 + seq % 2}) for seq in (1, 2, 3)]
    with closing(store), closing(other_store):
        store.commit(build_changes(*marks[:1]))
        commit(other_store, *marks[1:2])
        with pytest.raises(Conflict):
            commit(store, *marks[1:2])
        commit(store, *marks[2:])

        expected = {"default": marks, "ship_time": []}, [{"default": marks[-1].mark}]
        assert read_all(other_store) == expected


segments = st.sampled_from([0, 1, 2, 3, 200])
domains = st.sampled_from(DOMAINS)
moved = st.tuples(
    domains, st.dictionaries(segments, st.integers(1, 2), max_size=3), st.sets(segments, max_size=1)
)
forgotten = st.tuples(st.just("id-1"), domains, st.integers(0, 20))
steps = st.tuples(st.booleans(), st.lists(moved, max_size=4), st.lists(forgotten, max_size=2))


@costly(4)
@given(taken=st.lists(steps, max_size=12))
def test_marks_are_read_as_written_after_appends_and_drops(
    make_pair: Callable[[], tuple[Store, Store]], taken: list[Any]
) -> None:
    """Two stores append to one database. Conflicts change nothing, and marks may drop segments."""
    pair = make_pair()
    model = MemoryStore()
    last = {domain: make_mark(0, dict.fromkeys(range(100), 1), domain) for domain in DOMAINS}
    with closing(pair[0]), closing(pair[1]):
        for store in (pair[0], model):
            store.commit(build_changes())
        for by, moves, of_marks in taken:
            marks = []
            for domain, ahead, removed_segments in moves:
                before = last[domain].mark
                offsets = {
                    segment: offset
                    for segment, offset in {**before.cut.offsets, **ahead}.items()
                    if segment not in removed_segments
                }
                last[domain] = make_mark(before.seq + 1, offsets, domain)
                marks.append(last[domain])
            with pytest.raises(Conflict):
                commit(pair[by], *marks, make_mark(99, {}))
            batch = ChangeSet(*marks)
            for chain in of_marks:
                batch.drop_marks(*chain)
            for store in (pair[by], model):
                store.commit(batch)

            assert [read_all(store) for store in pair] == [read_all(model)] * 2
