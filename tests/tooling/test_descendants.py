"""No process outlives the run of tests, or the command, that it was started for."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from examples.trials import kafka
from tests.support import postgres
from tests.support.processes import environment
from tests.support.waiting import wait_until

KINDS = (
    "exec(eval(sys.stdin",
    "kafka.Kafka",
    "bin/postgres",
    "SparkSubmit",
    "pyspark.daemon",
    "multiprocessing.forkserver",  # and its forks, which are controllers
)
HOLDING = Path("tests", "tooling", "programs", "holding.py")

STARTS = """
import subprocess, sys
from examples.descendants import end_with_this_process
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


def descendants(ancestor: int) -> dict[int, str]:
    """Return the command line of each process that a process started, or that these did."""
    processes, found = listed(), {ancestor}
    while more := {pid for pid, (parent, _) in processes.items() if parent in found} - found:
        found |= more
    return {pid: processes[pid][1] for pid in found if pid in processes}


def run(root: Path, *words: str) -> subprocess.Popen[str]:
    """Run a program of Python, in the directory of this clone."""
    pipe = subprocess.PIPE
    command = [sys.executable, *words]
    return subprocess.Popen(
        command, cwd=root, env=environment(), stdin=pipe, stdout=pipe, text=True
    )


@pytest.mark.acceptance
@pytest.mark.skipif(not kafka.installed(), reason=kafka.MISSING)
@pytest.mark.skipif(not postgres.binaries(), reason="needs PostgreSQL")
def test_a_run_of_tests_that_is_killed_leaves_no_process_behind(
    root: Path, tmp_path: Path, held: set[int]
) -> None:
    """A broker, a database, Spark with its Java and its Python, a controller, and pytest's own."""
    own = ("-n", "1", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'run'}")
    with run(root, "-m", "pytest", *own, str(HOLDING)) as tests:
        held.add(tests.pid)
        wait_until(lambda: [*tmp_path.glob("run/**/held")] or tests.poll() is not None)
        assert tests.poll() is None, tests.communicate()[0]
        found = descendants(tests.pid)
        held |= found.keys()
        tests.kill()

    lacking = [kind for kind in KINDS if not any(kind in each for each in found.values())]
    assert lacking == [], found
    wait_until(lambda: not found.keys() & listed().keys())


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
