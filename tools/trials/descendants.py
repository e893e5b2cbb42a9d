"""Ends all descendants of a process, once the process itself has ended.

They inherit a mark in their environment. A watcher process reads from a pipe that only the marked
process has open, and so notices its end, even by `kill -9`. Then it ends every process with the
mark. It runs this file, which therefore imports only the standard library.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

MARK = "STARTED_UNDER"
"""The environment variable of the marks; each marked process ends its descendants."""

PROCESSES = Path("/proc")
LOOK_S = 0.1
GRACE_S = 3.0
PATIENCE_S = 60.0

_watchers: list[int] = []
"""The process id of the watcher, once there is one."""


def end_with_this_process() -> None:
    """End all that this process starts from now on when it ends.

    A second call does nothing, and nor does one on Windows.
    """
    if _watchers or os.name == "nt":
        return
    unmarked_variables = {name: value for name, value in os.environ.items() if name != MARK}
    ours, its = os.pipe()[::-1]
    quiet = [(os.POSIX_SPAWN_OPEN, file, os.devnull, os.O_WRONLY, 0) for file in (1, 2)]
    watcher = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", __file__],
        unmarked_variables,  # so an outer process's watcher does not end it
        file_actions=[(os.POSIX_SPAWN_DUP2, its, 0), *quiet],
        setpgroup=0,  # Ctrl-C is not for it
    )
    os.close(its)
    _watchers.append(watcher)
    mark = secrets.token_hex(8)
    os.environ[MARK] = f"{os.environ.get(MARK, '')} {mark}".strip()
    os.write(ours, f"{mark}\n".encode())
    os.register_at_fork(after_in_child=partial(os.close, ours))


def find_marked(mark: str) -> set[int]:
    """Return the ids of all processes with a mark."""
    if (PROCESSES / "self" / "environ").exists():
        return {
            int(file.parent.name) for file in PROCESSES.glob("[0-9]*/environ") if _has(file, mark)
        }
    ps_words = ["ps", "-A", "-E", "-ww", "-o", "pid=,command="]  # macOS
    ps_output = subprocess.check_output(ps_words, text=True, errors="replace")
    return {int(line.split()[0]) for line in ps_output.splitlines() if mark in line}


def _has(environ: Path, mark: str) -> bool:
    with suppress(OSError):  # it ended, or is another user's
        return mark.encode() in environ.read_bytes()
    return False


def _watch() -> None:
    """Wait for the end of the starting process, then end and kill the others."""
    os.chdir("/")
    mark = sys.stdin.readline().strip()
    sys.stdin.read()
    ended_at = time.monotonic()
    asked_pids = set[int]()
    while mark and (left := find_marked(mark)) and time.monotonic() < ended_at + PATIENCE_S:
        is_late = time.monotonic() > ended_at + GRACE_S
        for pid in left if is_late else left - asked_pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        asked_pids |= left
        time.sleep(LOOK_S)


if __name__ == "__main__":
    _watch()
