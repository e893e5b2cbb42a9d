"""`noted-time` forked from a process that has imported it: a controller takes 0.2 s of CPU time.

In a process of its own it takes 2 s. A fork is given a directory, an environment and arguments as a
new process is, and ends as one. Where it matters how Python itself starts, a test starts one.
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
FORKS.set_forkserver_preload(
    [
        "controller.api.app",
        "controller.api.sockets.server",
        "controller.store.migrate",
        "controller.store.open",
        "controller.store.sqlite",
        "noted_time_cli.app",
    ]
)


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
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status once it has ended."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a fork", timeout or 0)
        return self.returncode

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
    printed = [os.open(each, write, 0o666) for each in (output, errors)]
    run_module(words, cwd, env, [os.open(os.devnull, os.O_RDONLY), *printed])


def run_module(words: list[str], cwd: str, env: dict[str, str], files: Sequence[int]) -> None:
    """Run a module in this process as ``python -m`` does: input, output and errors are `files`."""
    for stream, file in enumerate(files):
        os.dup2(file, stream)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    module, *sys.argv[1:] = words
    runpy.run_module(module, run_name="__main__", alter_sys=True)
