"""Faults of a SQLite file: absent, full, locked, replaced, or not a database."""

import os
import resource
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import Connection, event

from controller.store.open import open_store
from controller.store.port import StoreLost, StoreUnavailable
from controller.store.sql import SqlStore
from controller.store.sqlite import SqliteStore
from tests.support.stored import build_changes, commit, member, read_seqs, records

NOBODY = 65534


@pytest.fixture
def store(database: Path) -> Iterator[SqliteStore]:
    """A store in a file, with a short timeout for locks."""
    with closing(SqliteStore(database, busy_ms=20)) as store:
        yield store


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Limit the size of files, like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)


def test_store_does_not_make_file(tmp_path: Path) -> None:
    """A mistyped path is an error."""
    with pytest.raises(StoreUnavailable, match=r"absent\.db: No such file"):
        SqliteStore(tmp_path / "absent.db")

    assert list(tmp_path.iterdir()) == []


def test_file_that_is_not_database_is_unavailable(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("dear diary, " * 100)

    with (
        closing(SqliteStore(file)) as store,
        pytest.raises(StoreUnavailable, match="not a SQLite database"),
    ):
        store.ping()


def test_removed_file_refuses_batch(store: SqliteStore, database: Path) -> None:
    """The open file would lose the batch at the end of the process."""
    database.unlink()

    with pytest.raises(StoreUnavailable, match="No such file"):
        store.commit(build_changes())
    with pytest.raises(StoreUnavailable, match="No such file"):
        store.ping()


def test_replaced_file_refuses_batch(store: SqliteStore, database: Path) -> None:
    copy = shutil.copy(database, database.with_suffix(".copy"))
    shutil.move(copy, database)

    with pytest.raises(StoreUnavailable, match="another file"):
        store.commit(build_changes())


def test_batch_gives_up_on_locked_file(store: SqliteStore, database: Path) -> None:
    """The store works again after the other writer has ended."""
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            store.commit(build_changes())

    store.commit(build_changes(upto=1))

    assert read_seqs(store) == [1]


def test_locked_file_can_be_read(store: SqliteStore, database: Path) -> None:
    """Readers see the last commit."""
    store.commit(build_changes(upto=1))
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM noted_time_mark")
        seqs = read_seqs(store)

    assert seqs == [1]


def test_batch_on_full_disk_is_not_written(store: SqliteStore, database: Path) -> None:
    """The store works again once there is space."""
    members = records(*(member(f"writer-{number}") for number in range(3000)))
    store.commit(build_changes(served_ms=4, upto=1))
    with limit_file_size(database.stat().st_size + 100_000), pytest.raises(StoreUnavailable):
        commit(store, *members, at=5)
    records_before = store.clocks()[0], read_seqs(store), list(store.members("id-1"))

    commit(store, *members, at=6)

    assert (records_before, len(list(store.members("id-1")))) == ((4, [1], []), 3000)


def test_every_commit_is_synced(store: SqliteStore) -> None:
    with store._writing.connect() as connection:
        pragmas = ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint")
        values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas]

    assert values == ["wal", 2, 1, 64000]


def test_scan_leaves_the_cache_of_its_connection(store: SqliteStore) -> None:
    """The scan needs no cache, and would keep 64 MB of pages that are not read again."""

    def read_cache_size(connection: Connection) -> int:
        size: int = connection.exec_driver_sql("PRAGMA cache_size").scalar_one()
        return size

    with store._connect_to_scan() as connection:
        during = read_cache_size(connection)
    [*store.whole_ledger("id-1", "default")]
    with store._reading.connect() as connection:
        sizes = during, read_cache_size(connection)

    assert sizes == (-2000, -65536)


def test_file_in_delete_mode_returns_to_wal(database: Path) -> None:
    """A copy by `VACUUM INTO` is in another mode."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")

    with closing(SqliteStore(database)) as store:
        store.ping()
        with closing(sqlite3.connect(database)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("beside", ["-wal", "-shm"])
def test_store_without_its_log_refuses_batches(
    store: SqliteStore, database: Path, beside: str
) -> None:
    """Only a restart of the controller helps."""
    store.commit(build_changes(upto=1))
    database.with_name(f"{database.name}{beside}").unlink()
    with pytest.raises(StoreLost, match=rf"{beside} was removed .* restart the controller"):
        commit(store)
    database.with_name(f"{database.name}{beside}").touch()

    for call in (store.ping, store.streams, lambda: commit(store)):
        with pytest.raises(StoreLost):
            call()


def test_notes_of_removed_log_are_saved(store: SqliteStore, database: Path) -> None:
    """They are copied into the database file when the removal is noticed."""
    store.commit(build_changes(served_ms=4, upto=2))
    database.with_name(f"{database.name}-wal").unlink()
    with pytest.raises(StoreLost, match="acknowledged notes were saved in the database file"):
        store.ping()
    copy = shutil.copy(database, database.with_name("copy.db"))

    with closing(SqliteStore(copy)) as copied_store:
        assert (copied_store.clocks()[0], read_seqs(copied_store)) == (4, [1, 2])


def test_removal_of_log_before_first_batch_is_noticed(database: Path) -> None:
    """The log exists as soon as the streams are read."""
    with closing(SqliteStore(database)) as store:
        store.streams()
        database.with_name(f"{database.name}-wal").unlink()

        with pytest.raises(StoreLost):
            store.commit(build_changes())


def test_removal_of_log_during_commit_is_noticed(
    store: SqliteStore, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no note is acknowledged that is not durable."""
    store.commit(build_changes(upto=1))
    write_many = SqlStore._many

    def remove_log(*arguments: Any) -> None:  # noqa: ANN401 - passes on what it is given
        database.with_name(f"{database.name}-wal").unlink(missing_ok=True)
        write_many(*arguments)

    monkeypatch.setattr(SqlStore, "_many", remove_log)

    with pytest.raises(StoreLost):
        commit(store)


@contextmanager
def drop_privileges() -> Iterator[None]:
    """Run as a user without root's rights."""
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("read_only", ["file", "directory"])
def test_read_only_database_is_refused(database: Path, read_only: str) -> None:
    """The file or its directory is not writable. A start reports it, and a ping does."""
    with TemporaryDirectory() as path_name:  # pytest's is closed to other users
        directory = Path(path_name)
        file = Path(shutil.copy(database, directory / "read-only.db"))
        for path in (file, directory):
            path.chmod(0o755)
            os.chown(path, os.geteuid() or NOBODY, -1)
        with drop_privileges(), closing(SqliteStore(file)) as store:
            store.ping()
            path = file if read_only == "file" else directory
            path.chmod(0o555)
            for act in (store.ping, lambda: open_store(f"sqlite:///{file}")):
                with pytest.raises(StoreUnavailable, match="is read-only: let the controller"):
                    act()
            path.chmod(0o755)


def test_connection_in_read_only_mode_is_refused(store: SqliteStore) -> None:
    """SQLite may fall back to it silently."""
    store.ping()
    event.listen(
        store._writing,
        "begin",
        lambda connection: connection.exec_driver_sql("PRAGMA query_only = 1"),
    )

    with pytest.raises(StoreUnavailable, match="read-only: let the controller"):
        store.ping()


def test_ping_writes_nothing(store: SqliteStore, database: Path) -> None:
    store.commit(build_changes(upto=1))
    log = database.with_name(f"{database.name}-wal")
    before = log.stat().st_size
    store.ping()

    assert log.stat().st_size == before
