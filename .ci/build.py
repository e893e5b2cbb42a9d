"""Runs the tests, every suite and the static checks, and ends with a table of what each came to.

It is called by `.ci/run`. A suite that cannot be installed fails the build, unless `ALLOWED_SKIPS`
names it. The Python that runs this needs no packages.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.install.environments import NOT_INSTALLED  # noqa: E402 - from this clone
from tools.install.suites import calls  # noqa: E402 - likewise

ALLOWED_SKIPS: dict[str, str] = {}
"""The suites that a build may skip, such as `--dbt`, each with the reason."""

AT_ONCE = 3
"""Suites that run side by side: each waits for processes, and short ones fill the end."""

LIMIT_S = 86 * 60
TEST_LIMIT_S = 40 * 60
"""How long all may take together, and the tests. What takes longer is interrupted."""

END_S = 60
"""What an interrupted program has to say why."""

COUNTS = re.compile(r"^=+ (.+) in [\d.]+s.*=+$", re.MULTILINE)
"""Pytest's last line."""

FAILED_TEST = re.compile(r"^_{3,} (.+) _{3,}$")
"""The line of pytest above what a failed test printed."""

MOST_REASONS = 12
"""The lines of a failure that the end repeats."""

ALL_SKIPPED = re.compile(r"\d+ skipped")

PRINTING = threading.Lock()


class Result(NamedTuple):
    """What a call of `./run` came to."""

    words: tuple[str, ...]
    code: int
    minutes: float
    counts: str
    failures: tuple[str, ...] = ()

    @property
    def is_skipped(self) -> bool:
        return self.code == NOT_INSTALLED or ALL_SKIPPED.fullmatch(self.counts) is not None

    @property
    def reason(self) -> str | None:
        """Return why a build may skip it, `None` if it may not."""
        for word in self.words:
            if word in ALLOWED_SKIPS:
                return ALLOWED_SKIPS[word]
        return None

    @property
    def is_failed(self) -> bool:
        if self.is_skipped:
            return self.reason is None
        return self.code != 0

    def __str__(self) -> str:
        status = "passed" if self.code == 0 else "failed"
        remark = self.counts
        if self.is_skipped:
            status = "skipped"
            remark = self.reason or "failed: it is not among ALLOWED_SKIPS of .ci/build.py"
        return f"{status:<8}{self.minutes:5.1f} min  {' '.join(self.words):<42} {remark}".rstrip()


def call(words: tuple[str, ...], until: float, *, is_shown: bool = False) -> Result:
    """Call `./run`, and print what it says: at once if `is_shown`, else when it has ended."""
    begun_s = time.monotonic()
    with subprocess.Popen(
        ["./run", *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        output_lines: Iterable[str] = process.stdout or ()
        limit = threading.Timer(max(0, until - begun_s), interrupt, [process])
        limit.start()
        lines = list(print_each(output_lines) if is_shown else output_lines)
        code = process.wait()
        limit.cancel()
    text = "".join(lines)
    if not is_shown:
        with PRINTING:
            print(text, flush=True)
    last_count = ""
    for count in COUNTS.findall(text):
        last_count = count
    minutes = (time.monotonic() - begun_s) / 60
    return Result(words, code, minutes, last_count, tuple(list_failures(text)))


def list_failures(text: str) -> Iterator[str]:
    """Yield the name of each test that failed, with the first lines of its reason."""
    name = ""
    count = 0
    for line in text.splitlines():
        header = FAILED_TEST.match(line)
        if header:
            name = header[1]
            count = 0
        elif name and line.startswith("E  ") and count < MOST_REASONS:
            if count == 0:
                yield name
            yield line
            count += 1


def print_each(lines: Iterable[str]) -> Iterator[str]:
    """Print lines as they come."""
    for line in lines:
        print(line, end="", flush=True)
        yield line


def interrupt(process: subprocess.Popen[str]) -> None:
    """Interrupt a program as Ctrl-C does, so that pytest prints what failed, and then end it."""
    print(f"ci: {process.args!r} took too long: it is interrupted", flush=True)
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()


def main() -> int:
    """Call all, and return 1 if one failed."""
    begun_s = time.monotonic()
    results = [call(("test",), begun_s + TEST_LIMIT_S, is_shown=True)]
    suites = [tuple(call_text.split()) for call_text in calls()] + [("check",)]
    with ThreadPoolExecutor(AT_ONCE) as executor:
        results += executor.map(lambda words: call(words, begun_s + LIMIT_S), suites)
    failures: list[str] = []
    for result in results:
        failures += result.failures
    if failures:
        print("\n== failures", *failures, sep="\n")
    print("\n== suites", *map(str, results), sep="\n")
    failed_names = [" ".join(result.words) for result in results if result.is_failed]
    if failed_names:
        print(f"ci: failed: {', '.join(failed_names)}")
        return 1
    print("ci: all passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
