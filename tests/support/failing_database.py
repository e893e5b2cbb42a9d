"""Faults of the SQLite file of a controller in another process."""

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.processes import ServeProcess


@contextmanager
def lock_database(_controller: ServeProcess, file: Path) -> Iterator[None]:
    """Another program locks the database."""
    with closing(sqlite3.connect(file, timeout=10, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def fill_disk(controller: ServeProcess, file: Path) -> Iterator[None]:
    """No file of the controller may grow, as on a full disk."""
    pid = controller.process.pid
    size = file.with_name(f"{file.name}-wal").stat().st_size
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def move_database(_controller: ServeProcess, file: Path) -> Iterator[None]:
    """Another process moved the open file away."""
    away = file.with_name("away.db")
    file.rename(away)
    yield
    away.rename(file)
