"""Shows how far an installation is, by the output of pip."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TERMINAL_INTERVAL_S = 0.5
PLAIN_INTERVAL_S = 10.0
MEGABYTE = 1_000_000
PINNED_PACKAGE = re.compile(r"^[\w.-]+(?:\[.*\])?==", re.MULTILINE)


class Installation:
    """The packages that pip has fetched and installed, of all in a lock.

    Without a lock, pip installs this project alone.
    """

    def __init__(self, home: Path, scratch: Path, lock: Path | None) -> None:
        self._home = home
        self._scratch = scratch
        self._total = len(PINNED_PACKAGE.findall(lock.read_text())) if lock else 0
        self._done_count = 0
        self._current = ""
        self._archive = ""
        self._first_count: int | None = None
        self._to_install_count = 0

    def read(self, line: str) -> None:
        """Take a line of pip's output."""
        word, _, rest = line.strip().partition(" ")
        if word == "Ignoring":
            self._total -= 1  # a package of another system
        elif word == "Requirement":
            self._done_count += 1
        elif word in {"Downloading", "Using"}:
            self._archive = rest.replace("cached ", "")
        elif word == "Collecting":
            self._finish_current()
            self._current = rest.partition(" ")[0].partition("=")[0]
        elif word == "Building" and "(" in rest:
            self._finish_current()
            self._archive = f"building {rest.split()[2]}"
        elif line.startswith("Installing collected packages: "):
            self._finish_current()
            self._to_install_count = line.count(",") + 1
            self._first_count = self._count_installed()

    def describe(self) -> str:
        if not self._total:
            return "Installing noted-time"
        if self._first_count is not None:
            installed_count = self._count_installed() - self._first_count
            return f"{max(0, installed_count)} of {self._to_install_count} packages installed"
        sentence = f"{self._done_count} of {self._total} packages fetched"
        return f"{sentence}: {self._archive}{self._describe_size()}" if self._archive else sentence

    def _finish_current(self) -> None:
        if self._current:
            self._done_count += 1
        self._current = ""
        self._archive = ""

    def _count_installed(self) -> int:
        return sum(1 for _ in self._home.glob("[Ll]ib/**/site-packages/*.dist-info"))

    def _describe_size(self) -> str:
        """Return how much of a large archive is there."""
        name, _, size = self._archive.partition(" ")
        if not size.endswith(" MB)"):
            return ""
        for file in self._scratch.glob(f"*/{name}"):
            with contextlib.suppress(OSError):  # pip may have moved it
                return f", {file.stat().st_size // MEGABYTE} MB are there"
        return ""


@contextlib.contextmanager
def showing(describe: Callable[[], str]) -> Iterator[None]:
    """Show a sentence during the block: a terminal has it in one line, a file every ten seconds."""
    is_ended = threading.Event()
    thread = threading.Thread(target=_show, args=(describe, is_ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_ended.set()
        thread.join()


def _show(describe: Callable[[], str], is_ended: threading.Event) -> None:
    if not sys.stderr.isatty():
        while not is_ended.wait(PLAIN_INTERVAL_S):
            print(f"{describe()}.", file=sys.stderr, flush=True)
        return
    while not is_ended.wait(TERMINAL_INTERVAL_S):
        width = shutil.get_terminal_size().columns
        _rewrite(describe()[: width - 1])
    _rewrite("")


def _rewrite(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()
