"""Streams over a range of time have each of its rows once, and end at its end."""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from noted_time import BacklogPolicy, Rejected
from spark_integration import Batches, CatchUp, Columns, ReadRange
from spark_integration.log.options import Option
from spark_integration.marks.time_range import TimeRange
from spark_integration.scan.files import LogFile, find_first_offsets
from tests.support.disorder import disorder, replay
from tests.support.log_reading import build_query, open_reader, read_batches
from tests.support.noted_stream import NotedStream, table

SECOND = 1000
EVERY_OPTION = (
    Batches(20),
    Columns(late="keep"),
    CatchUp(BacklogPolicy(behind_ms=SECOND), max_rows_per_trigger=30),
)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", [(), (Batches(7),), EVERY_OPTION])
def test_streams_over_consecutive_ranges_give_each_row_once(
    flights: NotedStream, seed: int, options: tuple[Option, ...]
) -> None:
    """Two writers share a segment, rows are up to 8 s late, and each batch is a restart."""
    steps = disorder(seed, events=25)
    replay(flights, steps)
    bounds = [None, 3 * SECOND, 8 * SECOND, 8 * SECOND + 1, None]
    found = []
    for start, end in pairwise(bounds):
        query = build_query(flights, ReadRange(start, end), *options, on_seal="hold")
        rows = [row for batch in read_batches(query) for row in batch.rows]
        assert all((start or 0) <= time < (end or time + 1) for time, _ in rows)
        found += rows

    assert sorted(found) == sorted(row for step in steps for row in step.rows)


def test_beginning_of_the_log_is_not_read(flights: NotedStream) -> None:
    """The first batch begins at the first file whose statistics include such a time."""
    for second in range(10):
        flights.append(0, (second * SECOND, "a"), (second * SECOND + 400, "b"))
        flights.note((second + 1) * SECOND)
    (batch,) = read_batches(build_query(flights, ReadRange(7 * SECOND + 100)))

    assert batch.end.begin == {0: 14}
    assert [time for time, _ in batch.rows] == [7400, 8000, 8400, 9000, 9400]


def test_nothing_beyond_the_cut_of_the_end_is_read(flights: NotedStream) -> None:
    """A query without a later mark stops at the last one.

    A late row is in no range, as in no window.
    """
    query = build_query(flights, ReadRange(end_at=2 * SECOND))
    flights.append(0, (100, "a"))
    flights.note(SECOND)
    flights.append(0, (1500, "b"), (2500, "beyond the end"))
    first = read_batches(query)
    flights.note(3 * SECOND)
    flights.append(0, (1600, "late"))
    flights.note(4 * SECOND)
    later = read_batches(query, first[-1].end)

    assert [batch.rows for batch in (*first, *later)] == [[(100, "a")], [(1500, "b")]]
    assert [batch.watermark for batch in (*first, *later)] == [SECOND - 1, 2 * SECOND]


def test_finished_range_does_not_change(flights: NotedStream) -> None:
    """Later rows and notes do not change it, and it is not behind."""
    flights.append(0, (100, "a"), (2500, "b"))
    flights.note(2 * SECOND)
    query = build_query(flights, ReadRange(end_at=2 * SECOND))
    (batch,) = read_batches(query)
    flights.note(7 * SECOND)
    flights.append(0, (7100, "c"))
    flights.note(9 * SECOND)
    reader = open_reader(query)
    reader.latestOffset(batch.end.to_json(), reader.getDefaultReadLimit())
    latest = reader.reportLatestOffset()
    reader.stop()

    assert read_batches(query, batch.end) == []
    assert latest is not None
    assert (latest["segments"], latest["last_lower"]) == ({"0": 2}, 2 * SECOND)
    assert (latest["watermark"], latest["because"]) == (
        2 * SECOND,
        "the range is read to its end_at",
    )


def test_checkpoint_keeps_the_start_and_end_of_its_range(flights: NotedStream) -> None:
    """Another start is ignored, and another end is refused."""
    flights.append(0, *((second * SECOND, str(second)) for second in range(6)))
    flights.note(6 * SECOND)
    first = read_batches(build_query(flights, ReadRange(2 * SECOND), Batches(3)))[0]
    later = read_batches(build_query(flights, ReadRange(5 * SECOND, 5 * SECOND + 1)), first.end)

    assert [row[1] for batch in (first, *later) for row in batch.rows] == ["2", "3", "4", "5"]
    for end_at in (None, 6 * SECOND):
        with pytest.raises(Rejected, match="start a query with a new checkpoint"):
            read_batches(build_query(flights, ReadRange(0, end_at)), later[-1].end)


def test_end_without_kept_marks_is_refused(flights: NotedStream) -> None:
    """The first kept mark may be far beyond the first mark at the end."""
    for second in range(1, 6):
        flights.append(0, (second * SECOND - 1, str(second)))
        flights.note(second * SECOND)
    first = read_batches(build_query(flights, ReadRange(None, 3 * SECOND), Batches(1)))[0]
    flights.marks.truncate({0: 4})

    assert len(read_batches(build_query(flights, ReadRange(None, 4 * SECOND + 1)))) == 1
    for start in (None, first.end):
        with pytest.raises(Rejected, match=r"marks \d to 3 are no longer kept.*the lower 4000"):
            read_batches(build_query(flights, ReadRange(None, 3 * SECOND)), start)


def test_end_of_a_sealed_stream_is_read(flights: NotedStream) -> None:
    """The stream is sealed before the range ends, and no mark covers its last rows."""
    flights.append(0, (100, "a"))
    flights.note(SECOND)
    flights.append(0, (1500, "b"))
    flights.marks.seal(cut={0: 2})
    query = build_query(flights, ReadRange(0, 5 * SECOND))
    found = read_batches(query)

    assert [row[1] for batch in found for row in batch.rows] == ["a", "b"]
    assert found[-1].watermark == 5 * SECOND


def test_segment_without_statistics_is_read_from_its_beginning(flights: NotedStream) -> None:
    """The log may also end before the start cut, or be empty."""
    path = flights.append_table(0, table((1, "a"), (9, "b")), write_statistics=False)
    files = {0: [LogFile(path, 0, 2)], 1: []}

    assert find_first_offsets(files, "time", 5, {0: 7, 1: 40}) == {0: 0}


@pytest.mark.parametrize(
    ("from_cut", "final", "sentence"),
    [
        ({0: 40}, {}, "segment 0: offsets 40 to 50 are missing"),
        ({}, {}, "segment 0: offsets 0 to 50 are missing"),
        ({0: 60, 1: 3}, {1: 9}, "segment 1: offsets 3 to 9 are missing"),
    ],
)
def test_deleted_rows_of_the_range_fail_the_query(
    from_cut: dict[int, int], final: dict[int, int], sentence: str
) -> None:
    """Rows above the start cut must exist, or all rows if it is unknown.

    Sealed segments are checked, too.
    """
    files = {0: [LogFile(Path("late"), 50, 60)], 1: []}

    with pytest.raises(Rejected, match=sentence):
        find_first_offsets(files, "time", 5, from_cut, final)


def test_start_without_kept_marks_and_files_is_refused(flights: NotedStream) -> None:
    """The remaining marks do not show where the rows of the range begin."""
    paths = []
    for second in range(1, 6):
        paths.append(flights.append(0, (second * SECOND - 1, str(second))))
        flights.note(second * SECOND)
    flights.marks.truncate({0: 4})
    paths[0].unlink()

    assert len(read_batches(build_query(flights))) == 1
    with pytest.raises(
        Rejected, match=r"offsets 0 to 1 are missing.* start_at 2500 or later: leave start_at out"
    ):
        read_batches(build_query(flights, ReadRange(2500)))


def test_rows_without_a_time_are_in_no_range() -> None:
    """They are read without bounds."""
    instant = pa.timestamp("us", "UTC")
    rows = pa.record_batch({"at": pa.array([1000, 2000, None, 3000], instant)})

    def count_kept(times: TimeRange) -> list[int]:
        return [batch.num_rows for batch in times.filter_rows(iter([rows]), "at")]

    asked = [TimeRange(), TimeRange(2), TimeRange(None, 2), TimeRange(2, 3)]
    assert [count_kept(times) for times in asked] == [[4], [2], [1], [1]]
