"""A PostgreSQL server on a disk, with default durability."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.figures import WrongResult
from benchmarks.load import percentile
from tools.trials.postgres import Server as Postgres
from tools.trials.postgres import find_binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Run


ON_A_DISK = Path("/var/tmp")  # noqa: S108 - the server creates a directory of its own there
COMMITS = 200


@contextmanager
def postgres(run: Run) -> Iterator[Postgres | None]:
    """Run a server, or report that PostgreSQL is not installed."""
    directory = find_binaries()
    if directory is None:
        run.say("left out: PostgreSQL is not installed")
        yield None
        return
    with _files_on_a_disk(), Postgres(directory) as server:
        yield server


def commit_ms(server: Postgres, url: str) -> float:
    """Return the median ms of a synced commit of one row."""
    took = []
    with server.session(url) as session:
        session.execute("CREATE TABLE IF NOT EXISTS beat (id int PRIMARY KEY, beats int)")
        session.execute("INSERT INTO beat VALUES (1, 0) ON CONFLICT DO NOTHING")
        for _ in range(COMMITS):
            begun_s = perf_counter()
            session.execute("UPDATE beat SET beats = beats + 1")
            took.append((perf_counter() - begun_s) * 1e3)
    return percentile(took, 50)


def slow_down_syncs(server: Postgres, url: str, added_ms: float) -> tuple[float, float]:
    """Make every sync of the log `added_ms` longer; return the commit's ms before and after.

    The server waits before a sync (`commit_delay`), even without a second transaction
    (`commit_siblings`). Raises `WrongResult` if commits are faster; the former duration is no
    measure, as other work may have slowed it.
    """
    before = commit_ms(server, url)
    for setting in (f"commit_delay = {added_ms * 1000:.0f}", "commit_siblings = 0"):
        server.execute(f"ALTER SYSTEM SET {setting}")
    server.execute("SELECT pg_reload_conf()")
    after = commit_ms(server, url)
    if after < added_ms:
        raise WrongResult(f"a commit took {before:.2f} ms, and {after:.2f} ms with the delay")
    return before, after


@contextmanager
def _files_on_a_disk() -> Iterator[None]:
    """Create temporary directories on a disk, unlike ``/tmp``."""
    usual = tempfile.tempdir
    tempfile.tempdir = str(ON_A_DISK) if ON_A_DISK.is_dir() else usual
    try:
        yield
    finally:
        tempfile.tempdir = usual
