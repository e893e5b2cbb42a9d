"""A controller on a database that is bad, or restored from a backup."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from controller.store.sqlite import SqliteStore
from tests.support.failing_database import fill_disk, lock_database, move_database
from tests.support.processes import ServeProcess
from tools.trials.calls import HTTP


def post_notes(controller: ServeProcess, first: int, *, until: int) -> tuple[list[int], int]:
    """Note rising times until an answer has that status; return the acknowledged times.

    With the last time sent. Any answer but 200 must be a problem that asks to try again.
    """
    acknowledged_times: list[int] = []
    deadline = time.monotonic() + 60
    noted = first
    while time.monotonic() < deadline:
        note = {"writer": "a", "time": noted, "position": {"0": noted}}
        answer = controller.ask("POST", "/streams/s/notes", {"notes": [note]})
        if answer.status_code == 200:
            assert answer.json()["results"][0]["status"] == "accepted"
            acknowledged_times.append(noted)
        else:
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert answer.headers["retry-after"] == "1"
            time.sleep(0.05)
        if answer.status_code == until:
            return acknowledged_times, noted
        noted += 1
    raise AssertionError(f"no answer {until} within a minute")


@pytest.mark.parametrize("trouble", [fill_disk, lock_database, move_database])
def test_controller_reports_and_survives_database_errors(
    tmp_path: Path, trouble: Callable[[ServeProcess, Path], AbstractContextManager[None]]
) -> None:
    """The answer is 503 while the trouble lasts. Acknowledged notes are kept, without a restart."""
    with ServeProcess(tmp_path).ready() as controller:
        controller.create("s")
        before, last = post_notes(controller, 1, until=200)
        with trouble(controller, tmp_path / "noted-time.db"):
            during, last = post_notes(controller, last + 1, until=503)
            alive = HTTP.get(f"{controller.url}/healthz").status_code
        after, last = post_notes(controller, last + 1, until=200)
        controller.kill()
        levels = {line["level"] for line in controller.log() if line["event"] == "commit_failed"}

    acknowledged_times = [*before, *during, *after]
    store = SqliteStore(tmp_path / "noted-time.db")
    stream_id = store.streams()[0].id
    times = [member.times for member in store.members(stream_id)]
    marks = [
        (appended_mark.mark.seq, appended_mark.mark.lower)
        for appended_mark in store.marks(stream_id, "default")
    ]
    store.close()
    assert (alive, levels, times) == (200, {"error"}, [{"default": acknowledged_times[-1]}])
    assert marks == list(enumerate(acknowledged_times, start=1))


def delete_log(file: Path) -> None:
    """Another process deletes the write-ahead log of the database."""
    file.with_name(f"{file.name}-wal").unlink()


def replace_file(file: Path) -> None:
    """An operator restores a backup while the controller serves."""
    with sqlite3.connect(file) as other:  # so that a backup of the file alone has all notes
        other.execute("PRAGMA wal_checkpoint(FULL)")
    file.with_name("backup.db").write_bytes(file.read_bytes())
    file.with_name("backup.db").replace(file)


@pytest.mark.parametrize(
    ("act", "says", "health"),
    [
        (delete_log, "-wal was removed or replaced", (503, True)),
        (replace_file, "was replaced by another file", (200, False)),
    ],
)
def test_controller_without_its_files_acknowledges_no_note(
    tmp_path: Path, act: Callable[[Path], None], says: str, health: tuple[int, bool]
) -> None:
    """It answers 503 with the remedy, logs it and shows it in `/readyz`; kill -9 loses no note.

    The controller still has a deleted log open, and copies it into the database file.
    """
    with ServeProcess(tmp_path).ready() as controller:
        controller.create("s")
        acknowledged_times = [
            post_notes(controller, time, until=200)[0][0] for time in range(1, 50)
        ]
        act(tmp_path / "noted-time.db")
        during, _ = post_notes(controller, 50, until=503)
        times_again, _ = post_notes(controller, 51, until=503)
        ready, healthy = (HTTP.get(f"{controller.url}/{path}") for path in ("readyz", "healthz"))
        controller.kill()
        errors = [line["error"] for line in controller.log() if says in line.get("error", "")]
    with ServeProcess(tmp_path).ready() as controller:
        times = controller.writers("s")["a"]["times"]

    assert (during, times_again, times) == ([], [], {"default": acknowledged_times[-1]})
    assert (ready.status_code, "restart the controller" in ready.text) == (503, True)
    assert (says in ready.text, errors != []) == (True, True)
    is_saved = "acknowledged notes were saved in the database file" in healthy.text
    assert (healthy.status_code, is_saved) == health
