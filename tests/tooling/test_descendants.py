"""No process outlives the run of tests, or the command, that it was started for."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.processes import environment
from tests.support.waiting import wait_until

STARTS = """
import subprocess, sys
from demo.trials.descendants import end_with_this_process
end_with_this_process()
end_with_this_process()
children = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2)]
print(*(child.pid for child in children), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held() -> Iterator[set[int]]:
    """Return an empty set; processes that are added to it are killed whatever the test finds."""
    added: set[int] = set()
    yield added
    for pid in added:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def listed() -> dict[int, tuple[int, str]]:
    """Return the parent and the command line of each process of this machine."""
    lines = subprocess.check_output(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], text=True)
    rows = (line.split(None, 2) for line in lines.splitlines())
    return {int(row[0]): (int(row[1]), row[2]) for row in rows if "<defunct>" not in row[2]}


def run(root: Path, *words: str) -> subprocess.Popen[str]:
    """Run a program of Python, in the directory of this clone."""
    pipe = subprocess.PIPE
    command = [sys.executable, *words]
    return subprocess.Popen(
        command, cwd=root, env=environment(), stdin=pipe, stdout=pipe, text=True
    )


@pytest.mark.parametrize("is_killed", [False, True])
def test_children_end_with_their_parent(root: Path, held: set[int], *, is_killed: bool) -> None:
    """Whether it ends by itself and leaves them behind, or is killed."""
    with run(root, "-c", STARTS) as program:
        assert program.stdout
        held |= {int(pid) for pid in program.stdout.readline().split()}
        assert len(held & listed().keys()) == 2
        if is_killed:
            program.kill()

    wait_until(lambda: not held & listed().keys())
