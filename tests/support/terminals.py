"""Programs on a terminal of their own."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def on_terminal(
    words: Sequence[str], environment: Mapping[str, str], *, cwd: Path, typed: str = ""
) -> tuple[int, str]:
    """Run a program; returns its status and what the terminal showed, which is what it printed."""
    ours, its = os.openpty()
    os.write(ours, typed.encode())
    with subprocess.Popen(
        words, cwd=cwd, env={**environment, "TERM": "dumb"}, stdin=its, stdout=its, stderr=its
    ) as process:
        os.close(its)
        said = b""
        with suppress(OSError):  # as Linux tells the end of a terminal
            while more := os.read(ours, 4096):
                said += more
    os.close(ours)
    return process.returncode, said.decode()
