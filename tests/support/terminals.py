"""Programs on a terminal."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


def run_on_terminal(
    words: Sequence[str], environment: Mapping[str, str], *, cwd: Path, typed_text: str = ""
) -> tuple[int, str]:
    """Run a program, and return its status and the output of the terminal."""
    ours, its = os.openpty()
    os.write(ours, typed_text.encode())
    with subprocess.Popen(
        words, cwd=cwd, env={**environment, "TERM": "dumb"}, stdin=its, stdout=its, stderr=its
    ) as process:
        os.close(its)
        output = b""
        with suppress(OSError):  # Linux's end of a terminal
            while more := os.read(ours, 4096):
                output += more
    os.close(ours)
    return process.returncode, output.decode()
