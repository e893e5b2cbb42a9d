"""Batches that are run again, and appended once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.writer_client.appending import files, rows
from writer_client import Batch, SegmentLogWriter
from writer_client.segment_files import SegmentFiles


def writer(root: Path) -> SegmentLogWriter:
    """Return a writer of the stream `flights`, as each run of a program makes one."""
    return SegmentLogWriter(root, "flights", event_time="time")


def numbers(root: Path) -> list[int]:
    """Return the times of all rows, in order."""
    return [row["time"] for row in rows(root)]


def held(root: Path) -> list[Batch | None]:
    """Return which batch each file names."""
    return [Batch.from_metadata(pq.read_metadata(path).metadata) for _, _, path in files(root)]


def test_a_batch_that_is_run_again_is_not_appended_again(tmp_path: Path) -> None:
    """By the same writer or by the next run's, also after appends of others."""
    first, again = writer(tmp_path), writer(tmp_path)
    appended = [first.append_once([{"time": 1}], Batch("q", 7))]
    first.append([{"time": 2}])
    appended += [each.append_once([{"time": 1}], Batch("q", 7)) for each in (first, again)]
    appended += [again.append_once([{"time": 3}], Batch("q", 8))]

    assert (appended, numbers(tmp_path)) == ([True, False, False, True], [1, 2, 3])
    assert again.position == {0: 3}


def test_batches_of_different_sources_have_numbers_of_their_own(tmp_path: Path) -> None:
    """So a query with a new checkpoint, which begins at 0, loses nothing."""
    log = writer(tmp_path)
    appended = [log.append_once([{"time": n}], Batch(f"q{n}", 0)) for n in range(3)]

    assert (appended, numbers(tmp_path)) == ([True] * 3, [0, 1, 2])


def test_a_batch_without_rows_leaves_no_file(tmp_path: Path) -> None:
    """Nothing is left to append, now or again."""
    log = writer(tmp_path)
    appended = log.append_once(pa.table({"time": pa.array([], pa.int64())}), Batch("q", 0))

    assert (appended, files(tmp_path)) == (False, [])


def test_only_the_files_of_a_batch_name_it(tmp_path: Path) -> None:
    """What is appended next takes the schema of the file before, but not its batch."""
    log = writer(tmp_path)
    log.append_once([{"time": 1}], Batch("q", 0))
    log.append([{"time": 2}])
    writer(tmp_path).append([{"time": 3}])

    assert held(tmp_path) == [Batch("q", 0), None, None]


def test_two_runs_at_the_same_time_append_each_batch_once(tmp_path: Path) -> None:
    """The one that was taken for dead, and the one that was started in its place."""

    def run(_: int) -> int:
        log = writer(tmp_path)
        return sum(log.append_once([{"time": n}], Batch("q", n)) for n in range(40))

    with ThreadPoolExecutor(3) as pool:
        appended = list(pool.map(run, range(3)))

    assert (sum(appended), numbers(tmp_path)) == (40, list(range(40)))


def test_a_batch_that_another_run_appends_at_the_last_moment_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the files were looked through, before its own is linked."""
    first = writer(tmp_path)
    link = SegmentFiles._linked

    def overtaken(self: SegmentFiles, hidden: Path, count: int) -> bool:
        monkeypatch.setattr(SegmentFiles, "_linked", link)
        writer(tmp_path).append_once([{"time": 1}], Batch("q", 0))
        return link(self, hidden, count)

    monkeypatch.setattr(SegmentFiles, "_linked", overtaken)

    assert first.append_once([{"time": 1}], Batch("q", 0)) is False
    assert numbers(tmp_path) == [1]
