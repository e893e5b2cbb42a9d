"""The store in an SQLite file: its pragmas, locks, and checks that the file is still there."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from controller.store import rows
from controller.store.port import Leases, Reading, StoreDamaged, StoreLost, StoreUnavailable
from controller.store.records import ChangeSet, StreamRecord
from controller.store.schema import RECORD_TABLES
from controller.store.sql import SqlStore, check_revision
from noted_time import Unreadable

Identity = tuple[int, int]

BUSY_MS = 5000

MIGRATION_MS = 60_000

# With NORMAL, a power cut loses commits. With 1000 pages, checkpoints took 25% of the throughput,
# and with a cache of 2 MB, some pages were written twice.
CACHE_PRAGMA = "PRAGMA cache_size = -65536"
CONNECTION_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA wal_autocheckpoint = 64000",
    CACHE_PRAGMA,
)

SCAN_PRAGMA = "PRAGMA cache_size = -2000"  # a scan needs each page once

PAGE_BYTES = 1024  # a commit of few members writes a page for each

CHECKED_BYTES = 10**9  # at the start, at 4 ms for each MB

URL_HINT = "use sqlite:///path/to/file.db or postgresql://user@host:5432/database"

_WRITE_NOTHING = "DELETE FROM noted_time_bucket WHERE number < 0"
_SELECT_REVISION = "SELECT version_num FROM noted_time_version"

_QUICK_CHECKS = "PRAGMA quick_check(1)", "PRAGMA integrity_check(noted_time_stream)"
_WHOLE_CHECK = "PRAGMA integrity_check(1)"
_SELECT_GROUPS = """
SELECT 'noted_time_mark', stream_id, domain, max(seq) - min(seq) + 1 = count(*)
FROM noted_time_mark GROUP BY 2, 3
UNION ALL SELECT 'noted_time_membership', stream_id, domain, true
FROM noted_time_membership GROUP BY 2, 3
UNION ALL SELECT 'noted_time_member', stream_id, NULL, true FROM noted_time_member GROUP BY 2
UNION ALL SELECT 'noted_time_scale', stream_id, NULL, true FROM noted_time_scale GROUP BY 2
"""  # in file order, so a misplaced row splits a group

SINGLE_LEASES = Leases(buckets=1, mine=frozenset((0,)))


class SingleNodeLeases:
    """The methods of a `Store` for other controllers, as there are none."""

    local = True

    def register(self, url: str) -> None: ...

    def heartbeat(self) -> Leases:
        return SINGLE_LEASES

    def renew(self) -> bool:
        return True

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        return SINGLE_LEASES.free & frozenset(buckets)

    def release(self, buckets: Iterable[int]) -> None: ...

    def leave(self) -> None: ...

    @property
    def reading(self) -> Reading:
        return cast("Reading", self)


class SqliteStore(SingleNodeLeases, SqlStore):
    """A `Store` in a migrated SQLite file."""

    has_checksums = False

    def __init__(self, url_or_path: str | Path, *, busy_ms: int = BUSY_MS) -> None:
        self._files = DatabaseFiles(parse_file(url_or_path))
        self._lost: StoreLost | None = None
        reading = create_sqlite_engine(self._files.file, busy_ms=busy_ms)
        event.listen(reading, "connect", lambda *_: self._files.remember_files())
        super().__init__(reading, create_writing_engine(reading))

    def check(self) -> None:
        """Raise `StoreUnavailable` for a read-only database, and `StoreDamaged`."""
        self._files.check_writable()
        if self._files.file.stat().st_size <= CHECKED_BYTES:
            self._look_through(_QUICK_CHECKS)

    def damage(self) -> str | None:
        try:
            self._look_through([_WHOLE_CHECK])
        except StoreDamaged as error:
            return str(error)
        return None

    def _look_through(self, checks: Iterable[str]) -> None:
        """Raise `StoreDamaged` for damage, or for misplaced rows, which a CRC-32 cannot detect."""
        with self._convert_errors(), self._connect_to_scan() as connection:
            ask = connection.exec_driver_sql
            faults: list[str] = []
            for check in checks:
                faults += [why for (why,) in ask(check) if why != "ok"]
            stream_rows = connection.execute(select(RECORD_TABLES[StreamRecord]))
            streams = [rows.decode_row(StreamRecord, row) for row in stream_rows]
            domains = {stream.id: {None, *stream.settings.domains} for stream in streams}
            groups = ask(_SELECT_GROUPS).fetchall()
        counts = Counter(tuple(group) for *group, _ in groups)
        for table, stream_id, domain, is_complete in groups:
            is_one = is_complete and counts[table, stream_id, domain] == 1
            if not is_one or domain not in domains.get(stream_id, ()):
                faults.append(f"rows {stream_id} {domain or ''} of the table {table} are misplaced")
        if faults:
            raise StoreDamaged(str(self._files.file), f"damaged: {faults[0]}")

    @contextmanager
    def _connect_to_scan(self) -> Iterator[Connection]:
        with self._reading.connect() as connection:
            connection.exec_driver_sql(SCAN_PRAGMA)
            yield connection
            connection.exec_driver_sql(CACHE_PRAGMA)

    def commit(self, batch: ChangeSet) -> None:
        super().commit(batch)
        self._check_files()  # the batch may be in a lost file

    def ping(self) -> None:
        with self._convert_errors(), self._writing.connect() as connection:
            self._files.check_writable()
            # on a read-only database, SQLite begins to read without an error
            connection.exec_driver_sql(_WRITE_NOTHING)
            revision = connection.exec_driver_sql(_SELECT_REVISION).scalar()
            check_revision(revision, lambda query: connection.exec_driver_sql(query).scalar())

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        self._check_files()
        with super()._convert_errors():
            yield

    def _check_files(self) -> None:
        """Once the log or its index is missing, every call raises `StoreLost`."""
        if self._lost is not None:
            raise self._lost
        try:
            self._files.check()
        except StoreLost as error:
            remedy = LOG_SAVED if self._files.is_log_missing and self._save() else LOG_LOST
            self._lost = StoreLost(f"{error}: {remedy}")
            raise self._lost from None

    def _save(self) -> bool:
        """Copy the rest of the open log to the database file; return whether that succeeded."""
        try:
            with self._reading.connect() as connection:
                raw = connection.connection.cursor()
                raw.execute("PRAGMA wal_checkpoint(FULL)")
                row = raw.fetchone()
        except (self._driver.Error, SQLAlchemyError, StoreUnavailable):
            return False
        return row is not None and not row[0] and row[1] == row[2]


def parse_file(url_or_path: str | Path) -> Path:
    """Return the file of ``sqlite:///path`` or of a plain path, or raise `Unreadable`.

    >>> parse_file("sqlite:////var/lib/noted-time.db").as_posix()
    '/var/lib/noted-time.db'
    """
    if isinstance(url_or_path, Path) or ":" not in url_or_path:
        return _refuse_directory(Path(url_or_path))
    try:
        url = make_url(url_or_path)
    except ArgumentError as error:
        raise Unreadable(f"{url_or_path!r} is not a URL: {URL_HINT}") from error
    if not url.drivername.startswith("sqlite") or url.database in {None, "", ":memory:"}:
        raise Unreadable(f"{url.render_as_string()!r} names no SQLite file: {URL_HINT}")
    return _refuse_directory(Path(str(url.database)))


def _refuse_directory(path: Path) -> Path:
    if path.is_dir():
        raise Unreadable(f"{path} is a directory: use sqlite:///{path.as_posix()}/noted-time.db")
    return path.absolute()


def create_sqlite_engine(file: Path, *, busy_ms: int = BUSY_MS) -> Engine:
    """Return an engine for an existing file; its transactions begin by reading."""

    def connect() -> sqlite3.Connection:
        connection = _connect(file, "rw", busy_ms)
        _write_ahead(connection)  # a restored copy may have another mode
        for pragma in CONNECTION_PRAGMAS:
            connection.execute(pragma)
        return connection

    return _create_engine(file, connect)


def create_writing_engine(engine: Engine) -> Engine:
    """Return the engine with transactions that take the write lock when they begin.

    A transaction that reads first fails at its first write if another process has written,
    regardless of the timeout.
    """
    return engine.execution_options(begin="BEGIN IMMEDIATE")


def create_migration_engine(file: Path) -> Engine:
    """Return an engine that creates a missing file, and writes without foreign keys.

    SQLite alters a table by dropping it, and would delete all rows that refer to it.
    """

    def connect() -> sqlite3.Connection:
        connection = _connect(file, "rwc", MIGRATION_MS)
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = OFF")
        _write_ahead(connection)
        return connection

    return create_writing_engine(_create_engine(file, connect))


def check_references(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise StoreUnavailable(f"the migration would leave rows without a stream: {broken[:3]}")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Retry, as SQLite does not wait here."""
    deadline = time.monotonic() + MIGRATION_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _connect(file: Path, mode: str, busy_ms: int) -> sqlite3.Connection:
    # the driver's transactions would begin late, and not as writers
    return sqlite3.connect(
        f"{file.as_uri()}?mode={mode}",
        uri=True,
        timeout=busy_ms / 1000,
        isolation_level=None,
        check_same_thread=False,
    )


def _create_engine(file: Path, connect: Callable[[], sqlite3.Connection]) -> Engine:
    url = URL.create("sqlite", database=str(file))
    engine = create_engine(url, creator=connect, hide_parameters=True)
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))


LOG_SAVED = "acknowledged notes were saved in the database file; restart the controller"
LOG_LOST = "the last acknowledged notes may be lost; restart the controller"


class DatabaseFiles:
    """The files of a database as they were opened: the database, its log and the log's index.

    Writes to a removed or replaced file are lost with the process. A moved database file may
    return, but not its log (`-wal`) and index (`-shm`): another process creates new ones.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.wal = file.with_name(f"{file.name}-wal")
        self._path = os.fspath(file)
        self._identity = self._identify()
        self._log_files: dict[str, Identity] = {}

    def remember_files(self) -> None:
        if not self._log_files:
            for path in (os.fspath(self.wal), f"{self._path}-shm"):
                identity = _identity_of(path)
                if identity is not None:
                    self._log_files[path] = identity
        self.check()

    def check(self) -> None:
        """Raise `StoreUnavailable` if the database file was replaced, `StoreLost` for its log."""
        if self._identify() != self._identity:
            raise StoreUnavailable(
                f"{self.file} was replaced by another file; restore it, or restart the controller"
            )
        for path, identity in self._log_files.items():
            if _identity_of(path) != identity:
                raise StoreLost(f"{path} was removed or replaced while the controller served it")

    def check_writable(self) -> None:
        for path in (self.file, self.file.parent):
            if not os.access(path, os.W_OK, effective_ids=True):
                raise StoreUnavailable(f"{path} is read-only: let the controller write to it")

    @property
    def is_log_missing(self) -> bool:
        return not self.wal.exists() or not self.wal.stat().st_size

    def _identify(self) -> Identity:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - a path object would double the time
        except OSError as error:
            raise StoreUnavailable(f"{self.file}: {error.strerror}") from error
        return status.st_dev, status.st_ino


def _identity_of(path: str) -> Identity | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return status.st_dev, status.st_ino
