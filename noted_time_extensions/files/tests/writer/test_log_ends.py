"""How an observer finds the ends and the times of a file log."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import InvalidName, Rejected, Unreachable
from noted_time.observing import TimeForm
from noted_time.values import EPOCH
from noted_time_extensions.files import LogEnds, LogTimes
from noted_time_extensions.files.layout import file_name, segment_directory
from noted_time_extensions.files.tests.support.appending import append
from tests.support.properties import costly
from tests.writer_client.scripted import Now
from writer_client import Seen


def write(root: Path, segment: int, start: int, rows: int) -> Path:
    """Write a file at an offset, as an archive of a compacted topic has."""
    directory = segment_directory(root, "flights", segment)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / file_name("flights", segment, start)
    pq.write_table(pa.table({"time": list(range(rows))}), path)
    return path


def test_ends_match_the_last_files(tmp_path: Path) -> None:
    """Offsets may have gaps."""
    ends = LogEnds(tmp_path, "flights")
    ends_seen = [ends().ends]
    append(tmp_path, "flights", 0, 1, 2)
    ends_seen.append(ends().ends)
    append(tmp_path, "flights", 0, 3)
    write(tmp_path, 7, 90, 5)
    ends_seen.append(ends().ends)

    assert ends_seen == [{}, {0: 2}, {0: 3, 7: 95}]


@costly(5)
@given(
    course=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.3, 0.7, 5.0]), st.booleans()),
        max_size=12,
    )
)
def test_no_append_is_missed_between_looks(
    tmp_path: Path, course: list[tuple[int, float, bool]]
) -> None:
    """Modification times may have whole seconds, which several appends share."""
    shutil.rmtree(tmp_path / "flights", ignore_errors=True)
    clock = Now(0)
    counts = dict[int, int]()
    ends = LogEnds(tmp_path, "flights", monotonic=clock)
    for segment, elapsed_ms, looks in course:
        append(tmp_path, "flights", segment, 1)
        counts[segment] = counts.get(segment, 0) + 1
        for directory in (tmp_path / "flights", segment_directory(tmp_path, "flights", segment)):
            os.utime(directory, (int(clock.now), int(clock.now)))
        if looks:
            assert ends().ends == dict(sorted(counts.items()))
        clock.now += elapsed_ms

    assert ends().ends == dict(sorted(counts.items()))


def test_unchanged_directory_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unchanged segment costs one look at its modification time."""
    clock = Now(0)
    ends = LogEnds(tmp_path, "flights", monotonic=clock)
    append(tmp_path, "flights", 0, 1)
    for _ in range(2):
        ends()
        clock.now += 2.5
    listed_paths: list[object] = []
    monkeypatch.setattr(os, "listdir", listed_paths.append)

    assert (ends().ends, listed_paths) == ({0: 1}, [])


def test_unreadable_layout_is_named_while_it_exists(tmp_path: Path) -> None:
    """Otherwise the log would look empty."""
    clock = Now(0)
    ends = LogEnds(tmp_path, "flights", monotonic=clock)
    (tmp_path / "flights" / "year=2026").mkdir(parents=True)
    for _ in range(3):
        with pytest.raises(Rejected, match="flights/year=2026: may have rows"):
            ends()
        clock.now += 2.5


def test_missing_root_is_an_error(tmp_path: Path) -> None:
    """It may be unmounted; a missing stream is empty."""
    assert LogEnds(tmp_path, "flights")().ends == {}
    with pytest.raises(Unreachable, match="elsewhere does not exist"):
        LogEnds(tmp_path / "elsewhere", "flights")()
    with pytest.raises(InvalidName):
        LogEnds(tmp_path, "a/b")


def test_a_recreated_log_ends_where_it_ends_now(tmp_path: Path) -> None:
    """Its file may have the same name in another directory."""
    ends = LogEnds(tmp_path, "flights")
    append(tmp_path, "flights", 0, 1, 2, 3)
    before = ends().ends
    shutil.rmtree(tmp_path / "flights")
    ends_without_files = ends().ends
    append(tmp_path, "flights", 0, 1)

    assert [before, ends_without_files, ends().ends] == [{0: 3}, {}, {0: 1}]


def test_times_are_read_from_new_files_only(tmp_path: Path) -> None:
    """Each look returns the largest new time of each segment."""
    times = LogTimes(tmp_path, "flights", "time")
    append(tmp_path, "flights", 0, 5, 9, 7)
    append(tmp_path, "flights", 0, 4)
    append(tmp_path, "flights", 3, 8)
    looks_seen = [times(), times()]
    append(tmp_path, "flights", 3, 6)
    looks_seen.append(times())

    assert looks_seen == [
        Seen({0: 4, 3: 1}, {0: 9, 3: 8}, 9),
        Seen({0: 4, 3: 1}),
        Seen({0: 4, 3: 2}, {3: 6}, 6),
    ]


def test_a_file_without_the_column_is_named_and_read_again(tmp_path: Path) -> None:
    """The times of other files still count."""
    append(tmp_path, "flights", 0, 5)
    path = write(tmp_path, 1, 0, 2)
    pq.write_table(pa.table({"other": [1, 2]}), path)
    times = LogTimes(tmp_path, "flights", "time")
    with pytest.raises(Rejected, match=r"flights\+1\+0000000000.parquet has no column time"):
        times()
    pq.write_table(pa.table({"time": [1, 2]}), path)

    assert times() == Seen({0: 1, 1: 2}, {0: 5, 1: 2}, 5)


NOON = 1_795_694_400_000


@pytest.mark.parametrize(
    "times",
    [
        [NOON // 1000, NOON // 1000 + 1, 0, -1],
        [
            datetime(1970, 1, 21, 18, 48, 1, tzinfo=UTC),
            datetime(1970, 1, 21, 18, 48, 2, tzinfo=UTC),
            EPOCH,
            EPOCH,
        ],
        [f"{NOON // 1000}", f"{NOON // 1000 + 1}", "0", "9999-12-31"],
    ],
)
def test_implausible_times_are_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, times: list[object]
) -> None:
    """Warnings name them, and their segment is not idle while they are its newest."""
    noon = {datetime: EPOCH + timedelta(milliseconds=NOON), str: f"{NOON}"}
    right = [noon.get(type(times[0]), NOON)]
    pq.write_table(pa.table({"time": right * 9}), write(tmp_path, 0, 0, 1))
    look = LogTimes(tmp_path, "flights", "time", form=TimeForm(zone=UTC))
    first = look().newest
    pq.write_table(pa.table({"time": times[:2]}), write(tmp_path, 1, 0, 1))
    pq.write_table(pa.table({"time": times[2:]}), write(tmp_path, 1, 2, 1))
    looks_seen = [look(), look()]
    pq.write_table(pa.table({"time": right}), write(tmp_path, 1, 4, 1))

    assert first == {0: NOON}
    assert [look_result.newest for look_result in (*looks_seen, look())] == [
        {1: None},
        {1: None},
        {1: NOON},
    ]
    (fact,) = looks_seen[1].because
    assert (fact.kind, fact.segment) == ("unreadable", 1)
    assert (look.unusable, look.without_time, look().because) == (2, 2, ())
    assert "0000000000.parquet: passed over 2 rows with times that look like Unix" in caplog.text


def test_segment_with_a_null_as_its_newest_time_is_not_idle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A null before a time is only counted, and so is any with the option."""
    kind = pa.schema([("time", pa.int64())])
    holding_times = LogTimes(tmp_path, "flights", "time", nulls="hold")
    passing_times = LogTimes(tmp_path, "flights", "time", nulls="pass")
    files: list[list[int | None]] = [[7, None], [None, 9], [None], [None, 9, 0]]
    newest_held = []
    newest_passed = []
    looks_seen = []
    for first, times in enumerate(files):
        rows = pa.table({"time": times}, kind)
        pq.write_table(rows, write(tmp_path, 0, 2 * first, len(times)))
        looks_seen.append(holding_times())
        newest_held.append((looks_seen[-1].newest, holding_times().newest))
        newest_passed.append((passing_times().newest, passing_times().newest))

    assert newest_held == [({0: 7}, {0: None}), ({0: 9}, {}), ({0: None}, {0: None}), ({0: 9}, {})]
    assert newest_passed == [({0: 7}, {}), ({0: 9}, {}), ({}, {}), ({0: 9}, {})]
    (fact,) = looks_seen[2].because
    assert fact.by == "--null pass"
    for log_times in (holding_times, passing_times):
        assert (log_times.null_times, log_times.unusable) == (4, 0)
    assert len(caplog.messages) == 2
    assert "0000000000.parquet: 'time' is null in 1 row. Until a later time" in caplog.text


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pa.array(["noon"]), "'noon' is not a time: write a number"),
        (pa.array([5], pa.timestamp("ms")), "`time` has timestamps without a zone"),
    ],
)
def test_a_column_without_times_is_refused(tmp_path: Path, column: pa.Array, says: str) -> None:
    """The column has text, or timestamps without a zone."""
    pq.write_table(pa.table({"time": column}), write(tmp_path, 0, 0, 1))

    with pytest.raises(Rejected, match=says):
        LogTimes(tmp_path, "flights", "time", form=TimeForm())()
