"""Programs on a terminal."""

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.waiting import PATIENCE_S


def on_terminal(
    words: Sequence[str], environment: Mapping[str, str], *, cwd: Path, typed: str = ""
) -> tuple[int, str]:
    """Run a program, and return its status and what the terminal showed."""
    ours, its = os.openpty()
    os.write(ours, typed.encode())
    with subprocess.Popen(
        words, cwd=cwd, env={**environment, "TERM": "dumb"}, stdin=its, stdout=its, stderr=its
    ) as process:
        os.close(its)
        said = b""
        with suppress(OSError):  # Linux's end of a terminal
            while more := os.read(ours, 4096):
                said += more
    os.close(ours)
    return process.returncode, said.decode()


class LiveTerminal:
    """A program that draws on a terminal until the test ends it."""

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], *, cwd: Path, size: str
    ) -> None:
        """Start it with a size such as `80x24`."""
        self._ours, its = os.openpty()
        columns, _, lines = size.partition("x")
        variables = {**environment, "TERM": "xterm", "COLUMNS": columns, "LINES": lines}
        self.process = subprocess.Popen(
            words, cwd=cwd, env=variables, stdin=its, stdout=its, stderr=its
        )
        os.close(its)
        self.shown = b""

    def until(self, text: str) -> str:
        """Wait for a text beyond the last one, and return all up to it."""
        deadline = time.monotonic() + PATIENCE_S
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, f"no {text!r} in {self.shown.decode()}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self.shown += os.read(self._ours, 4096)
        before, found, self.shown = self.shown.partition(text.encode())
        return (before + found).decode()

    def end(self, signal: int | None = None) -> tuple[int, str]:
        """Send the signal, if any, and return the status and what was shown since."""
        if signal is not None:
            self.process.send_signal(signal)
        deadline = time.monotonic() + PATIENCE_S
        with suppress(OSError):  # Linux's end of a terminal
            more = b" "
            while more:
                assert time.monotonic() < deadline, f"no end after {self.shown.decode()}"
                if select.select([self._ours], [], [], 0.1)[0]:
                    more = os.read(self._ours, 4096)
                    self.shown += more
        return self.process.wait(PATIENCE_S), self.shown.decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
