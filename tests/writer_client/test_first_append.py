"""The first append of a process, when pandas is still being imported."""

import subprocess
import sys
from pathlib import Path

from tests.support.processes import environment

PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from writer_client import SegmentLogWriter

logs = [SegmentLogWriter(sys.argv[1], "flights", segments=[n], event_time="time") for n in range(8)]
ready = Barrier(len(logs))


def append(log):
    ready.wait()
    return log.append([{"time": 1, "name": "a"}])


with ThreadPoolExecutor(len(logs)) as threads:
    assert list(threads.map(append, logs)) == [1] * len(logs)
"""


def test_threads_may_append_before_pandas_is_imported(tmp_path: Path) -> None:
    """One of them has pyarrow import pandas; the others find it half imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
