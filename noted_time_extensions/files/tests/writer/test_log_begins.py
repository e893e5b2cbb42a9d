"""What a writer's process finds in its log when it begins."""

import signal
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noted_time_extensions.files import SegmentLogWriter
from noted_time_extensions.files.layout import file_name, segment_directory
from noted_time_extensions.files.segment_files import SegmentFiles
from tests.support.processes import run_python
from tools.trials.served import Served
from writer_client import WriterClient
from writer_client.sending.answers import FoundPosition

CRASHING = """
import os, signal, sys
from noted_time_extensions.files import SegmentLogWriter
from writer_client import WriterClient

root, url, stream = sys.argv[1:]
client = WriterClient(stream, "UA", controller=url)
log = SegmentLogWriter(root, "flights", segments=(0, 1), client=client, event_time="time")
client.flush()
log.append([{"time": time} for time in range(1000, 10_000, 1000)], segment=0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def crash_after_appending(root: Path, served: Served, stream: str) -> None:
    """Let a process append nine rows, and be killed before it notes."""
    process = run_python("-c", CRASHING, root, served.url, stream)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("joins_first", [False, True])
def test_upper_bounds_rows_appended_before_a_crash(
    tmp_path: Path, served: Served, stream: str, *, joins_first: bool
) -> None:
    """The rows up to 9000 were never noted."""
    crash_after_appending(tmp_path, served, stream)
    with WriterClient(stream, "UA", controller=served.url) as client:
        if joins_first:
            client.join()
            client.flush()
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        log.note_time(1000)
    (mark,) = served.call("GET", f"/{stream}/marks")["marks"]

    assert (mark["lower"], mark["upper"], mark["upper_is_bound"]) == (1000, 9000, True)
    assert mark["cut"] == {"0": 9}


def test_only_rows_not_yet_noted_are_scanned(tmp_path: Path, served: Served, stream: str) -> None:
    """A writer learns the noted position when it begins."""
    scanned_positions = []

    def look_up(position: Mapping[int, int]) -> FoundPosition:
        scanned_positions.append(position)
        return FoundPosition({}, {})

    with WriterClient(stream, "UA", controller=served.url) as client:
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        log.append([{"time": 900}])
        log.note_time(50)
    SegmentLogWriter(tmp_path, "flights", event_time="time").append([{"time": 700}])
    with WriterClient(stream, "UA", controller=served.url) as client:
        client.begin(look_up)
        client.flush()
    files = SegmentFiles(tmp_path, "flights", 0)

    assert (scanned_positions, files.find_largest_time("time", beyond=1)) == ([{0: 1}], 700)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("kind", "largest"),
    [
        (pa.int64(), 7_000_001),
        (pa.timestamp("ms"), 7_000_001),
        (pa.timestamp("us", "UTC"), 7_001),
        (pa.timestamp("ns"), 8),
    ],
    ids=str,
)
def test_the_largest_time_is_found_with_statistics_and_without(
    tmp_path: Path, kind: pa.DataType, largest: int, *, statistics: bool
) -> None:
    """Times of any unit are rounded up to ms; nulls are skipped."""
    times = pa.array([3, None, 7_000_001, 5], pa.int64()).cast(kind)
    files = SegmentFiles(tmp_path, "flights", 0)
    path = segment_directory(tmp_path, "flights", 0) / file_name("flights", 0, 0)
    pq.write_table(pa.table({"t": times}), path, write_statistics=statistics, row_group_size=2)
    files.find_end()

    largest_times = [files.find_largest_time("t", beyond=beyond) for beyond in (0, 3, 4)]
    assert (largest_times, files.find_largest_time("other", beyond=0)) == (
        [largest, largest, None],
        None,
    )


PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from noted_time_extensions.files import SegmentLogWriter

logs = [SegmentLogWriter(sys.argv[1], "flights", segments=[n], event_time="time") for n in range(8)]
ready = Barrier(len(logs))


def append(log):
    ready.wait()
    return log.append([{"time": 1, "name": "a"}])


with ThreadPoolExecutor(len(logs)) as threads:
    assert list(threads.map(append, logs)) == [1] * len(logs)
"""


def test_threads_may_append_before_pandas_is_imported(tmp_path: Path) -> None:
    """Pyarrow imports pandas in one thread; the others find it half imported."""
    process = run_python("-c", PROGRAM, tmp_path)

    assert (process.returncode, process.stderr) == (0, "")
