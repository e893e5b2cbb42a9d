"""The files that an SQLite database consists of, and whether they are still those that were opened.

What is written to a file that somebody removed or replaced is lost with the process, though every
write succeeds. A database file that was moved away may be put back. Its log (`-wal`) and the index
of it (`-shm`) may not: a process that opens the database meanwhile creates new ones.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from controller.store.port import StoreLost, StoreUnavailable

if TYPE_CHECKING:
    Identity = tuple[int, int]

SAVED = "what was acknowledged is saved in the database file; start the controller again"
MAYBE_LOST = "what was acknowledged last may be lost; start the controller again"


class DatabaseFiles:
    """The file of a database with its log and index, as they were when it was opened."""

    def __init__(self, file: Path) -> None:
        """Watch the file; raises `StoreUnavailable` if it is not there."""
        self.file = file
        self.wal = file.with_name(f"{file.name}-wal")
        self._path = os.fspath(file)
        self._identity = self._identify()
        self._beside: dict[str, Identity] = {}

    def opened(self) -> None:
        """Remember log and index when the first connection opened them; then check."""
        if not self._beside:
            for path in (os.fspath(self.wal), f"{self._path}-shm"):
                found = _identity_of(path)
                if found is not None:
                    self._beside[path] = found
        self.check()

    def check(self) -> None:
        """Raise `StoreUnavailable` if the file was moved or replaced, `StoreLost` else.

        Some microseconds, because it is called twice a commit.
        """
        if self._identify() != self._identity:
            raise StoreUnavailable(
                f"{self.file} was replaced by another file; restore it, or start the controller "
                "again"
            )
        for path, identity in self._beside.items():
            if _identity_of(path) != identity:
                raise StoreLost(f"{path} was removed or replaced while the controller served it")

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` if the file or its directory may only be read."""
        for path in (self.file, self.file.parent):
            if not os.access(path, os.W_OK, effective_ids=True):
                raise StoreUnavailable(f"{path} is read-only: let the controller write to it")

    @property
    def is_log_gone(self) -> bool:
        """Whether the log is still the one that was opened."""
        return not self.wal.exists() or not self.wal.stat().st_size

    def _identify(self) -> Identity:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - a path object costs as much as the call
        except OSError as error:
            raise StoreUnavailable(f"{self.file}: {error.strerror}") from error
        return found.st_dev, found.st_ino


def _identity_of(path: str) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_dev, found.st_ino
