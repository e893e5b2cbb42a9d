"""Processes that run until they are ended, with all their children."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tools.trials.waiting import PATIENCE_S, wait_until


class Daemon:
    """A process that runs until it is ended, with all its children."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        variables: Mapping[str, str],
        *,
        printed: Path | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start it; `printed` is the file of its output, by default the log."""
        self._log = log
        with log.open("ab") as log_file, (printed or log).open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log_file,
                env=dict(variables),
                cwd=cwd,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def running(self) -> bool:
        """Return true, or raise `AssertionError` with the end of its log if it has ended."""
        assert self._process.poll() is None, f"{self._log}:\n{self._log.read_text()[-3000:]}"
        return True

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Wait until it is ready, or raise `AssertionError` if it ends before."""
        wait_until(lambda: self.running() and is_ready())

    def poll(self) -> int | None:
        """Return its exit status, `None` while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, and all of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill it (-9), and all of its group."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_S)
        self.kill()
