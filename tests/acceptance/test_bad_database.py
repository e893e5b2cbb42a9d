from __future__ import annotations

import resource
import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from controller.store.sqlite import SqliteStore
from tests.support.processes import ServeProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


@contextmanager
def locked(_controller: ServeProcess, file: Path) -> Iterator[None]:
    """Another program holds the database."""
    with closing(sqlite3.connect(file, timeout=10, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def full(controller: ServeProcess, file: Path) -> Iterator[None]:
    """No file of the controller may grow: its disk is full."""
    pid, size = controller.process.pid, file.with_name(f"{file.name}-wal").stat().st_size
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def moved(_controller: ServeProcess, file: Path) -> Iterator[None]:
    """Somebody moved the file away while it was open."""
    away = file.with_name("away.db")
    file.rename(away)
    yield
    away.rename(file)


def noting(client: httpx.Client, url: str, first: int, *, until: int) -> tuple[list[int], int]:
    """Note rising times until an answer has that status; returns what was acknowledged.

    With the last time sent. Any other answer than 200 must be a problem that says to try again.
    """
    acknowledged: list[int] = []
    deadline = time.monotonic() + 60
    noted = first
    while time.monotonic() < deadline:
        body = {"notes": [{"writer": "a", "time": noted, "position": {"0": noted}}]}
        answer = client.post(f"{url}/v1/streams/s/notes", json=body)
        if answer.status_code == 200:
            assert answer.json()["results"][0]["status"] == "accepted"
            acknowledged.append(noted)
        else:
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert answer.headers["retry-after"] == "1"
            time.sleep(0.05)
        if answer.status_code == until:
            return acknowledged, noted
        noted += 1
    message = f"no answer {until} within a minute"
    raise AssertionError(message)


@pytest.mark.parametrize("trouble", [full, locked, moved])
def test_trouble_with_the_database_is_told_and_outlived(
    tmp_path: Path, trouble: Callable[[ServeProcess, Path], AbstractContextManager[None]]
) -> None:
    """503 while it lasts, no note acknowledged that is not kept, and no help needed afterwards."""
    with ServeProcess(tmp_path).ready() as controller, httpx.Client(timeout=30) as client:
        url = controller.url
        client.put(f"{url}/v1/streams/s", json={"mark_interval_ms": 0}).raise_for_status()
        before, last = noting(client, url, 1, until=200)
        with trouble(controller, tmp_path / "noted-time.db"):
            during, last = noting(client, url, last + 1, until=503)
            alive = client.get(f"{url}/healthz").status_code
        after, last = noting(client, url, last + 1, until=200)
        controller.kill()
        levels = {line["level"] for line in controller.log() if line["event"] == "commit_failed"}

    acknowledged = [*before, *during, *after]
    store = SqliteStore(tmp_path / "noted-time.db")
    stream_id = store.streams()[0].id
    times = [member.times for member in store.members(stream_id)]
    marks = [(each.mark.seq, each.mark.lower) for each in store.marks(stream_id, "default")]
    store.close()
    assert (alive, levels, times) == (200, {"error"}, [{"default": acknowledged[-1]}])
    assert marks == list(enumerate(acknowledged, start=1))
