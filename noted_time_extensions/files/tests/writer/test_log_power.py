"""The file log after a power cut at any call of the file system."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from noted_time_extensions.files import SegmentLogWriter
from noted_time_extensions.files.tests.support.appending import rows
from tests.support.power import Acknowledged, Cut, Disk
from tests.support.processes import run_python

OPEN = """
import os, sys, time
from noted_time_extensions.files import Batch, SegmentLogWriter

def acknowledged(what):
    print(time.monotonic_ns(), what, flush=True)

def opened():
    return SegmentLogWriter(sys.argv[1], "flights", segments=(0, 1), event_time="time")

def append_once(writer):
    return writer.append_once([{"time": 0, "writer": "UA"}], Batch("query", 0), 0)

def interrupt(name, act, only=""):
    called = getattr(os, name)
    def interrupted(*given, **named):
        called(*given, **named)
        if str(given[0]).endswith(only):
            raise InterruptedError
    setattr(os, name, interrupted)
    try:
        act()
    except InterruptedError:
        setattr(os, name, called)
"""
"""Code of all programs; `interrupt` ends `act` after it called a function of `os`."""

APPENDS = """
writer = opened()
for number in range(4):
    writer.append([{"time": number, "writer": "UA"}], number % 2)
    acknowledged(number)
"""
REPEATS_A_BATCH = """
writer = opened()
interrupt("link", lambda: append_once(opened()))
assert not append_once(writer)
acknowledged(0)
"""
LOOKS_UP_THE_ENDS = """
interrupt("link", lambda: append_once(opened()))
assert opened().position == {0: 1}
acknowledged(0)
"""
FINDS_A_DIRECTORY = f"""
interrupt("mkdir", opened, only="=1")
{APPENDS}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk.new(tmp_path)


def run(disk: Disk, program: str, variables: dict[str, str]) -> list[Acknowledged]:
    """Run a program to its end, and return the rows that it acknowledged."""
    process = run_python("-c", OPEN + program, disk.root, cwd=disk.root, **variables)
    assert process.returncode == 0, process.stderr
    acknowledged_rows = []
    for line in process.stdout.splitlines():
        acknowledged_at, text = line.split()
        acknowledged_rows.append(Acknowledged(int(acknowledged_at), text))
    return acknowledged_rows


def lost(
    cut: Cut, acknowledged_rows: Sequence[Acknowledged], target: Path, *, torn: bool
) -> set[str]:
    """Return the missing acknowledged rows, and check that the log is valid and accepts more."""
    root = cut.restore(target, torn=torn)
    writer = SegmentLogWriter(root, "flights", segments=(0, 1), event_time="time")
    writer.append([{"time": 9, "writer": "UA"}], 0)
    rows_found = rows(root, 0) + rows(root, 1)
    times_found = {str(row["time"]) for row in rows_found}
    return set(cut.find_durable(acknowledged_rows)) - times_found


@pytest.mark.parametrize(
    "program",
    [APPENDS, REPEATS_A_BATCH, LOOKS_UP_THE_ENDS, FINDS_A_DIRECTORY],
    ids=["appends", "repeats a batch", "looks up the ends", "finds a directory"],
)
def test_appended_rows_survive_a_power_cut(disk: Disk, tmp_path: Path, program: str) -> None:
    """This includes files of a process that ended before it synced the directory."""
    acknowledged_rows = run(disk, program, disk.variables)

    assert acknowledged_rows
    for cut in disk.cuts():
        assert lost(cut, acknowledged_rows, tmp_path / "cut", torn=False) == set()
        assert lost(cut, acknowledged_rows, tmp_path / "cut", torn=True) == set()
