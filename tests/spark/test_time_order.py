"""Which rows a micro-batch takes if rows come by time; no Spark runs here."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Mark, MarkHistory, ScaleEvent, StreamCut, StreamSettings, Succession
from spark_integration.scan.admission import Unread
from spark_integration.scan.files import LogFile
from spark_integration.scan.time_order import divide_by_time
from tests.core.acts import DOMAINS, Act, histories, lived, streams


def files_of(bounds: list[int]) -> list[LogFile]:
    """Return files that begin and end at these offsets, one after another."""
    return [LogFile(Path(str(first)), first, last) for first, last in pairwise(bounds)]


ALL_TROUBLE = histories("waits", "scales", "restarts", "late")


@given(settings=streams, history=ALL_TROUBLE, limit=st.integers(1, 20), file_rows=st.integers(1, 9))
def test_batches_by_time_read_every_row_and_cross_no_mark(
    settings: StreamSettings, history: list[Act], limit: int, file_rows: int
) -> None:
    """As much as the limit allows; what is read lies between two marks, across scaling too.

    No successor is begun before its predecessors are read to their ends.
    """
    world = lived(settings, history)
    succession = world.stream.succession
    marks = [made.mark for made in world.made if made.domain == DOMAINS[0]]
    ends = {s: end for s, end in world.ends.items() if end}
    files = {s: files_of([*range(0, end, file_rows), end]) for s, end in ends.items()}
    batches: list[dict[int, int]] = []
    while not (unread := Unread(files, batches[-1] if batches else {})).is_empty:
        rows = divide_by_time(unread, limit, MarkHistory(marks), succession)
        fits = [m.cut for m in marks if rows_below(unread, m) <= limit]
        batches.append(unread.find_ends(rows))

        assert 0 < sum(rows.values()) <= limit
        assert not fits or StreamCut(batches[-1]).reaches(fits[-1])

    assert (batches[-1:] or [{}])[0] == ends
    assert [batch for batch in batches if not is_between(marks, batch)] == []
    assert [batch for batch in batches if is_too_early(succession, batch)] == []


def rows_below(unread: Unread, mark: Mark) -> int:
    """Return how many unread rows lie below the cut of a mark."""
    return sum(unread.count_rows_below(mark.cut.offsets).values())


def is_between(marks: list[Mark], position: dict[int, int]) -> bool:
    """Whether the first mark that a position does not reach reaches the position."""
    place = StreamCut(position)
    beyond = [mark for mark in marks if not place.reaches(mark.cut)]
    return not beyond or beyond[0].cut.reaches(place)


def is_too_early(succession: Succession, position: dict[int, int]) -> bool:
    """Whether a segment is begun whose predecessors are not read to their ends."""
    return any(succession.unread_before(s, position) for s, offset in position.items() if offset)


FILES = {0: files_of([0, 60, 100]), 1: files_of([0, 100])}
MARKS = [Mark(1, 10, 10, StreamCut({0: 50})), Mark(2, 20, 20, StreamCut({0: 80, 1: 20}))]


def planned(limit: int, start: dict[int, int], succession: Succession | None = None) -> list[int]:
    """Return how many rows of the segments 0 and 1 a batch takes."""
    rows = divide_by_time(
        Unread(FILES, start), limit, MarkHistory(MARKS), succession or Succession()
    )
    return [rows[0], rows[1]]


@pytest.mark.parametrize(
    ("limit", "start", "rows"),
    [
        (99, {}, [50, 0]),
        (100, {}, [80, 20]),
        (49, {}, [49, 0]),
        (25, {0: 50}, [15, 10]),
        (40, {0: 80, 1: 20}, [8, 32]),
        (500, {0: 80, 1: 20}, [20, 80]),
        (130, {}, [86, 44]),
    ],
)
def test_a_batch_ends_at_the_last_mark_that_fits(
    limit: int, start: dict[int, int], rows: list[int]
) -> None:
    """One too large is divided by shares within it, and so is what lies beyond the last."""
    assert planned(limit, start) == rows


def test_marks_that_are_read_already_do_not_end_a_batch() -> None:
    """Nor do those whose rows are not in the log yet: the batch takes what there is."""
    far = [*MARKS, Mark(3, 30, 30, StreamCut({0: 900, 1: 900}))]
    rows = divide_by_time(Unread(FILES, {0: 80, 1: 20}), 500, MarkHistory(far), Succession())

    assert rows == {0: 20, 1: 80}


def test_without_marks_each_segment_gives_its_share() -> None:
    """Nothing is known of the order."""
    rows = divide_by_time(Unread(FILES, {}), 50, MarkHistory(), Succession())

    assert rows == {0: 25, 1: 25}


def test_a_successor_takes_part_once_its_predecessor_is_at_its_end() -> None:
    """Beyond the last mark as well, within one batch or in the next."""
    succession = Succession()
    succession.scale(ScaleEvent({0: 100}, {1: (0,)}), known={0})
    found = [
        divide_by_time(Unread(FILES, {0: start}), 30, MarkHistory(), succession)
        for start in (60, 90, 100)
    ]

    assert found == [{0: 30, 1: 0}, {0: 10, 1: 20}, {0: 0, 1: 30}]


def test_a_predecessor_that_the_log_has_lost_keeps_no_reader_waiting() -> None:
    """A query that begins after the retention of its files reads the successors."""
    succession = Succession()
    succession.scale(ScaleEvent({7: 40}, {1: (7,)}), known={7})

    assert divide_by_time(Unread(FILES, {}), 50, MarkHistory(), succession) == {0: 25, 1: 25}
