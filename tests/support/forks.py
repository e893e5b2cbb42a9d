"""`noted-time` forked from a process that has imported it: 0.05 s of CPU time instead of one.

The fork takes a working directory, an environment and arguments as a new process does, and ends as
one. Where it matters how Python itself starts, a test starts one.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.preloaded"])


class Forked:
    """A process that runs a module with arguments; what it does is as with `subprocess.Popen`.

    Output and errors go to files; nothing is its input.
    """

    def __init__(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], output: Path, errors: Path
    ) -> None:
        """Run ``python -m`` with these words."""
        given = ([*words], str(cwd), dict(env), str(output), str(errors))
        self._process = FORKS.Process(target=_run, args=given, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative if a signal ended it, `None` while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return its exit status, `None` while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status once it has ended."""
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("a fork", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal to it, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _run(words: list[str], cwd: str, env: dict[str, str], output: str, errors: str) -> None:
    write = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for stream, (path, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), (output, write), (errors, write)]
    ):
        opened = os.open(path, flags, 0o666)
        os.dup2(opened, stream)
        os.close(opened)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    module, *sys.argv[1:] = words
    runpy.run_module(module, run_name="__main__", alter_sys=True)
