"""From version 0.1.0, which accepts no other revision, there is one stop; nothing is lost."""

from pathlib import Path

import pytest

from noted_time.client import Json
from tests.support.postgres import Server
from tests.support.processes import ServeProcess, command
from tests.support.waiting import wait_until
from tests.upgrade.versions import PRESENT, serve

NOTES = [
    {"writer": w, "time": 100 + n, "position": {"0": n + 1, "1": 7}} for w in "ab" for n in (0, 5)
]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that is not made yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'noted-time.db'}"
    server: Server = request.getfixturevalue("server")
    return server.make_database()


def kept(process: ServeProcess, stream: str) -> Json:
    """Return what was acknowledged of a stream, in words of version 0.1.0."""
    writers = process.get(f"{stream}/writers")["writers"]
    told = [
        {name: each[name] for name in ("writer", "state", "times", "position")} for each in writers
    ]
    marks = [
        {name: mark[name] for name in ("seq", "lower", "upper", "cut", "written_at")}
        for mark in process.get(f"{stream}/marks")["marks"]
    ]
    group = process.get(f"{stream}/reader-groups/g")
    return {
        "writers": told,
        "marks": marks,
        "id": process.get(stream)["id"],
        "group": group["position"],
    }


def test_one_stop_and_one_command_bring_0_1_0_to_the_present(
    first_release: Path, database: str, tmp_path: Path
) -> None:
    """Killed with notes acknowledged, migrated, and served on: all is there, and time goes on."""
    with serve(first_release, tmp_path, database) as old:
        old.create("s")
        assert old.ask("POST", "/streams/s/notes", {"notes": NOTES}).json()["refused"] == 0
        report = {"position": {"0": 1, "1": 7}}
        assert old.ask("PUT", "/streams/s/reader-groups/g/readers/r", report).is_success
        before = kept(old, "s")
        old.kill()
    refused = command("serve", "--port", "0", "--database", database, cwd=tmp_path)
    migrated = command("migrate", "--database", database, cwd=tmp_path)
    with serve(PRESENT, tmp_path, database) as new:
        after = kept(new, "s")
        later = {"notes": [{"writer": w, "time": 110, "position": {"0": 9}} for w in "ab"]}
        assert new.ask("POST", "/streams/s/notes", later).json()["refused"] == 0
        wait_until(lambda: new.get("s/marks")["marks"][-1]["lower"] == 110)
        marks = new.get("s/marks")["marks"]

    assert (refused.returncode, migrated.returncode, after) == (1, 0, before)
    assert "older than" in refused.stderr
    assert "run `noted-time migrate" in refused.stderr
    assert [mark["seq"] for mark in marks] == [*range(1, len(marks) + 1)]
