"""The backup commands of the operations page."""

import os
import re
import shutil
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
    words, env = ("sh", "-euc", script), os.environ | variables
    done = subprocess.run(
        words, cwd=directory, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3: apt install sqlite3")
def test_sqlite_backup_replaces_the_previous_one(database_template: Path, tmp_path: Path) -> None:
    """A controller has the file open, and the backup before was interrupted."""
    (block,) = re.findall(r"^```sh\n(rm .*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    script = block.replace("/var/lib/noted-time", ".").replace("/backup", "backup")
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "new.db").touch()
    with closing(SqliteStore(shutil.copy(database_template, tmp_path / "noted-time.db"))) as store:
        said = [run(script, tmp_path)]
        store.commit(build_changes(upto=2))
        said.append(run(script, tmp_path))

    with closing(SqliteStore(tmp_path / "backup" / "noted-time.db")) as restored:
        found = restored.streams(), read_seqs(restored)
    assert (said, found) == (["wal\nok\n"] * 2, ([stream()], [1, 2]))


def read_jobs() -> list[Any]:
    """Return the YAML blocks on the page of Kubernetes: the backup's job, and parts of others."""
    section = read_section("docs/guides/kubernetes.md", "Back up")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [*map(yaml.safe_load, blocks)]


@pytest.mark.skipif(not find_binaries() or not shutil.which("pg_dump"), reason="no PostgreSQL")
def test_postgres_url_with_own_authority_is_backed_up(tmp_path: Path) -> None:
    """The dump is restored to another database. A dump that fails replaces none."""
    directory = find_binaries()
    assert directory
    authority = f"?sslmode=verify-full&sslrootcert={CERTIFICATE / 'certificate.pem'}"
    with Server(directory) as server:
        server.use_tls(CERTIFICATE)
        url, other = (f"{server.make_database()}{authority}" for _ in range(2))
        migrate(url)
        with closing(PostgresStore(url)) as store:
            store.acquire(store.heartbeat().free)
            store.commit(build_changes(upto=2))
        dump, restore = re.findall(r"^pg_(?:dump|restore) .*$", SECTION, re.MULTILINE)
        run(dump, tmp_path, NOTED_TIME_DATABASE=url)
        (nightly,) = read_jobs()[2]["args"]
        for database in (url, url, "postgresql://127.0.0.1:1"):
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
        with closing(PostgresStore(other)) as restored:
            found = restored.streams(), read_seqs(restored)

    assert (is_secure, found) == ("t\n", ([stream()], [1, 2]))


def test_kubernetes_backup_is_made_and_restored(database_template: Path, tmp_path: Path) -> None:
    """The programs are those of the page; the broken database is kept."""
    job, other, _ = read_jobs()
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    backup, restore = (each["args"][0] for each in (pod["containers"][0], other))
    data = tmp_path / "data"
    for each in (data, tmp_path / "backup"):
        each.mkdir()

    def run_python(program: str) -> None:
        here = program.replace("/data", str(data)).replace("/backup", f"{tmp_path}/backup")
        run('exec "$PYTHON" -c "$PROGRAM"', tmp_path, PYTHON=sys.executable, PROGRAM=here)

    with closing(SqliteStore(shutil.copy(database_template, data / "noted-time.db"))) as store:
        for batch in (build_changes(upto=2), ChangeSet(mark(3))):
            store.commit(batch)
            run_python(backup)
        store.commit(ChangeSet(mark(4)))
    run_python(restore)

    with closing(SqliteStore(data / "noted-time.db")) as restored:
        assert (read_seqs(restored), (data / "lost-noted-time.db").exists()) == ([1, 2, 3], True)
