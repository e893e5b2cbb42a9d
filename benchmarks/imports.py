"""The CPU time of an import in a new Python, with compiled modules."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BASE_LIMIT = Target("value", "at most", 90)
CLIENT_LIMIT = Target("ratio", "at most", 1.5)
IMPORTS = (
    ("import noted_time", "pass", BASE_LIMIT),
    ("import writer_client", "pass", BASE_LIMIT),
    ("import reader_client", "pass", BASE_LIMIT),
    ("from writer_client import WriterClient", "import httpx", CLIENT_LIMIT),
    ("from reader_client import ReaderClient", "import httpx", CLIENT_LIMIT),
)


def measure(run: Run, imports: Iterable[tuple[str, str, Target]] = IMPORTS) -> list[Figure]:
    """Measure each import and, in turn, a Python without our packages."""
    figures = []
    for code, floor, target in imports:
        run.say(code)
        _measure_cpu_ms(code, run.directory)
        code_samples = []
        floor_samples = []
        for _ in range(run.repeats(full=11, quick=3)):
            code_samples.append(_measure_cpu_ms(code, run.directory))
            floor_samples.append(_measure_cpu_ms(floor, run.directory))
        figure = Figure(
            f"CPU of `{code}`",
            "ms",
            Samples(tuple(code_samples)),
            Samples(tuple(floor_samples)),
            "Python alone" if floor == "pass" else floor,
            target,
        )
        figures.append(figure)
    return figures


def _measure_cpu_ms(code: str, cache_directory: Path) -> float:
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache_directory)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=env)  # noqa: S603 - our own line
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
