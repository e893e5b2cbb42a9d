"""The backup commands of the operations page."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from controller.store.migrate import migrate
from controller.store.postgres import PostgresStore
from controller.store.records import ChangeSet
from controller.store.sqlite import SqliteStore
from tests.operations.proxies import CERTIFICATE
from tests.support.page import read_section
from tests.support.stored import build_changes, mark, read_seqs, stream
from tools.trials.postgres import Server, find_binaries

SECTION = read_section("docs/guides/operations.md", "Backup and restore")


def run(script: str, directory: Path, **variables: str) -> str:
    """Run a script until a command fails, and return its output."""
    words = ("sh", "-euc", script)
    env = os.environ | variables
    process = subprocess.run(
        words, cwd=directory, env=env, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def read_sqlite_script(directory: Path) -> str:
    """Return the commands for a database and its backup in a directory."""
    (block,) = re.findall(r"^```sh\n(rm .*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    return (
        str(block)
        .replace("/var/lib/noted-time", str(directory))
        .replace("/backup", f"{directory}/backup")
    )


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3: apt install sqlite3")
def test_sqlite_backup_replaces_the_previous_one(database_template: Path, tmp_path: Path) -> None:
    """A controller has the file open, and the backup before was interrupted."""
    script = read_sqlite_script(tmp_path)
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "new.db").touch()
    with closing(SqliteStore(shutil.copy(database_template, tmp_path / "noted-time.db"))) as store:
        outputs = [run(script, tmp_path)]
        store.commit(build_changes(upto=2))
        outputs.append(run(script, tmp_path))

    with closing(SqliteStore(tmp_path / "backup" / "noted-time.db")) as restored_store:
        streams_and_seqs = restored_store.streams(), read_seqs(restored_store)
    assert (outputs, streams_and_seqs) == (["ok\n"] * 2, ([stream()], [1, 2]))


LAST_BACKUP = b"of the night before"


def prepare_backup(directory: Path, source: str) -> None:
    """Make the last backup, and a database that is missing, empty or of another program."""
    (directory / "backup").mkdir()
    (directory / "backup" / "noted-time.db").write_bytes(LAST_BACKUP)
    if source == "empty":
        (directory / "noted-time.db").touch()
    elif source == "other":
        with closing(sqlite3.connect(directory / "noted-time.db")) as other:
            other.execute("CREATE TABLE cats (name TEXT)")


EACH_SOURCE = pytest.mark.parametrize(
    ("source", "says"),
    [
        ("missing", "unable to open database file"),
        ("empty", "no such table: noted_time_stream"),
        ("other", "no such table: noted_time_stream"),
    ],
)


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3: apt install sqlite3")
@EACH_SOURCE
def test_sqlite_backup_of_nothing_keeps_the_last(tmp_path: Path, source: str, says: str) -> None:
    """It fails with the reason, and makes no database."""
    prepare_backup(tmp_path, source)
    script = read_sqlite_script(tmp_path)
    with pytest.raises(AssertionError, match=says):
        run(script, tmp_path)

    assert (tmp_path / "backup" / "noted-time.db").read_bytes() == LAST_BACKUP
    assert (tmp_path / "noted-time.db").exists() == (source != "missing")


@EACH_SOURCE
def test_kubernetes_backup_of_nothing_keeps_the_last(
    tmp_path: Path, source: str, says: str
) -> None:
    prepare_backup(tmp_path, source)
    pod = read_jobs()[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (program,) = pod["containers"][0]["args"]
    local_program = program.replace("/data", str(tmp_path)).replace("/backup", f"{tmp_path}/backup")
    with pytest.raises(AssertionError, match=f"noted-time.db was not backed up: {says}"):
        run('exec "$PYTHON" -c "$PROGRAM"', tmp_path, PYTHON=sys.executable, PROGRAM=local_program)

    assert (tmp_path / "backup" / "noted-time.db").read_bytes() == LAST_BACKUP


def read_jobs() -> list[Any]:
    """Return the YAML blocks on the page of Kubernetes: the backup's job, and parts of others."""
    section = read_section("docs/guides/kubernetes.md", "Back up")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [*map(yaml.safe_load, blocks)]


@pytest.mark.skipif(not find_binaries() or not shutil.which("pg_dump"), reason="no PostgreSQL")
def test_postgres_url_with_own_authority_is_backed_up(tmp_path: Path) -> None:
    """The dump is restored to another database. One that fails or is empty replaces none."""
    directory = find_binaries()
    assert directory
    authority = f"?sslmode=verify-full&sslrootcert={CERTIFICATE / 'certificate.pem'}"
    with Server(directory) as server:
        server.use_tls(CERTIFICATE)
        url, other, empty = (f"{server.make_database()}{authority}" for _ in range(3))
        migrate(url)
        with closing(PostgresStore(url)) as store:
            store.acquire(store.heartbeat().free)
            store.commit(build_changes(upto=2))
        pattern = r"^pg_(?:dump .*\n  mv|restore) .*$"
        dump, restore = re.findall(pattern, SECTION, re.MULTILINE)
        run(dump, tmp_path, NOTED_TIME_DATABASE=url)
        with pytest.raises(AssertionError, match="no matching tables were found"):
            run(dump, tmp_path, NOTED_TIME_DATABASE=empty)
        (nightly,) = read_jobs()[2]["args"]
        for database in (url, url, "postgresql://127.0.0.1:1", empty):
            line = f"mkdir -p backup; {nightly}".replace("/backup", f"{tmp_path}/backup")
            with nullcontext() if database == url else pytest.raises(AssertionError):
                run(line, tmp_path, URL=database)
        shutil.move(tmp_path / "backup" / "noted-time.dump", tmp_path / "noted-time.dump")
        run(restore, tmp_path, NOTED_TIME_DATABASE=other)
        is_secure = run(
            'psql -Atc "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()" "$U"',
            tmp_path,
            U=url,
        )
        with closing(PostgresStore(other)) as restored_store:
            streams_and_seqs = restored_store.streams(), read_seqs(restored_store)

    assert (is_secure, streams_and_seqs) == ("t\n", ([stream()], [1, 2]))


def test_kubernetes_backup_is_made_and_restored(database_template: Path, tmp_path: Path) -> None:
    """The programs are those of the page; the broken database is kept."""
    job, other, _ = read_jobs()
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    backup, restore = (container["args"][0] for container in (pod["containers"][0], other))
    data = tmp_path / "data"
    for directory in (data, tmp_path / "backup"):
        directory.mkdir()

    def run_python(program: str) -> None:
        local_program = program.replace("/data", str(data)).replace("/backup", f"{tmp_path}/backup")
        run('exec "$PYTHON" -c "$PROGRAM"', tmp_path, PYTHON=sys.executable, PROGRAM=local_program)

    with closing(SqliteStore(shutil.copy(database_template, data / "noted-time.db"))) as store:
        for batch in (build_changes(upto=2), ChangeSet(mark(3))):
            store.commit(batch)
            run_python(backup)
        store.commit(ChangeSet(mark(4)))
    run_python(restore)

    with closing(SqliteStore(data / "noted-time.db")) as restored_store:
        assert (read_seqs(restored_store), (data / "lost-noted-time.db").exists()) == (
            [1, 2, 3],
            True,
        )
