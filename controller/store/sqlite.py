"""The store in SQLite: its pragmas, its locks, and a file that may be gone."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from controller.store import rows
from controller.store.port import (
    Leases,
    Reading,
    StoreDamaged,
    StoreLost,
    StoreUnavailable,
    Transaction,
)
from controller.store.schema import stream
from controller.store.sql import SqlStore, check_revision
from noted_time import Rejected

if TYPE_CHECKING:
    Identity = tuple[int, int]

BUSY_MS = 5000
"""How long a transaction waits for another process's, in ms."""

MIGRATION_MS = 60_000
"""How long a migration waits for that of another process, in ms."""

# FULL: NORMAL loses commits on a power cut and gains nothing once they are batched.
# 64000 pages: at the default of 1000 the checkpoints took a quarter of the throughput.
# 64 MiB of cache, used as needed: 5000 of 100,000 members dirty 14 MB of pages, which the default
# of 2 MB wrote more than once (115 instead of 159 thousand rows a second of CPU time).
CONNECTION_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA wal_autocheckpoint = 64000",
    "PRAGMA cache_size = -65536",
)

# A commit of few members writes a page for each: with the default of 4096 bytes one of 32 members
# took a quarter longer. An existing file keeps its page size.
PAGE_BYTES = 1024

CHECKED_BYTES = 10**9
"""A larger file is not checked at the start: each MB takes 4 ms."""

URL_HINT = "use sqlite:///path/to/file.db or postgresql://user@host:5432/database"

_WRITE_NOTHING = "DELETE FROM bucket WHERE number < 0"
_SELECT_REVISION = "SELECT version_num FROM alembic_version"

_QUICK_CHECKS = "PRAGMA quick_check(1)", "PRAGMA integrity_check(stream)"
_WHOLE_CHECK = "PRAGMA integrity_check(1)"
_SELECT_GROUPS = """
SELECT 'mark', stream_id, domain, max(seq) - min(seq) + 1 = count(*) FROM mark GROUP BY 2, 3
UNION ALL SELECT 'member', stream_id, NULL, true FROM member GROUP BY 2
UNION ALL SELECT 'scale', stream_id, NULL, true FROM scale GROUP BY 2
"""  # in the order of the file, so a row between those of another group divides that in two

SINGLE_LEASES = Leases(buckets=1, mine=frozenset((0,)))


class SingleNodeLeases:
    """The part of a `Store` that concerns other controllers, without any."""

    local = True

    def register(self, url: str) -> None:
        """Do nothing: no other controller asks for the URL."""

    def heartbeat(self) -> Leases:
        """Return that the bucket is this store's."""
        return SINGLE_LEASES

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        """Acquire nothing: no bucket is ever free."""
        return SINGLE_LEASES.free & frozenset(buckets)

    def release(self, buckets: Iterable[int]) -> None:
        """Keep the bucket."""

    def leave(self) -> None:
        """Keep the bucket."""

    @property
    def reading(self) -> Reading:
        """The store itself: no other process writes."""
        return cast("Reading", self)


class SqliteStore(SingleNodeLeases, SqlStore):
    """A `Store` in one SQLite file, which `migrate` has made."""

    seals = True

    def __init__(self, url_or_path: str | Path, *, busy_ms: int = BUSY_MS) -> None:
        """Open the file; raises `StoreUnavailable` if it is not there."""
        self._files = DatabaseFiles(parse_file(url_or_path))
        self._lost: StoreLost | None = None
        reading = create_sqlite_engine(self._files.file, busy_ms=busy_ms)
        event.listen(reading, "connect", lambda *_: self._files.remember_files())
        super().__init__(reading, create_writing_engine(reading))

    def check(self) -> None:
        """Raise `StoreDamaged` as `_look_through`; a large file is not checked."""
        if self._files.file.stat().st_size <= CHECKED_BYTES:
            self._look_through(_QUICK_CHECKS)

    def damage(self) -> str | None:
        """Look through the whole file, however large it is, beside commits."""
        try:
            self._look_through([_WHOLE_CHECK])
        except StoreDamaged as damaged:
            return str(damaged)
        return None

    def _look_through(self, checks: Iterable[str]) -> None:
        """Raise `StoreDamaged` if SQLite's checks find something, or rows are under other keys.

        A seal does not show that a row is not found. All is asked of one moment.
        """
        with self._convert_errors(), self._reading.connect() as connection:
            ask = connection.exec_driver_sql
            found = [why for each in checks for (why,) in ask(each) if why != "ok"]
            streams = map(rows.STREAM_ROWS.value, connection.execute(select(stream)))
            domains = {each.id: {None, *each.settings.domains} for each in streams}
            groups = ask(_SELECT_GROUPS).fetchall()
        many = Counter(tuple(group) for *group, _ in groups)
        for table, stream_id, domain, is_complete in groups:
            is_one = is_complete and many[table, stream_id, domain] == 1
            if not is_one or domain not in domains.get(stream_id, ()):
                found.append(f"rows {stream_id} {domain or ''} of the table {table} are misplaced")
        if found:
            raise StoreDamaged(str(self._files.file), found[0])

    def commit(self, batch: Transaction) -> None:
        """Write the batch in one transaction; raises `Conflict` and `StoreUnavailable`."""
        super().commit(batch)
        self._check_files()  # if not before, what was written is not there to be read again

    def ping(self) -> None:
        """Raise `StoreUnavailable` if the database would take no commit."""
        with self._convert_errors(), self._writing.connect() as connection:
            self._files.check_writable()
            # to begin as a writer is not enough: SQLite then begins as a reader if it must
            connection.exec_driver_sql(_WRITE_NOTHING)
            found = connection.exec_driver_sql(_SELECT_REVISION).scalar()
            check_revision(found, lambda query: connection.exec_driver_sql(query).scalar())

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Turn errors into ours; nothing is done on files that are not those that were opened."""
        self._check_files()
        with super()._convert_errors():
            yield

    def _check_files(self) -> None:
        """Raise `StoreUnavailable` if the file is away, `StoreLost` for ever once its log is."""
        if self._lost is not None:
            raise self._lost
        try:
            self._files.check()
        except StoreLost as lost:
            remedy = LOG_SAVED if self._files.is_log_gone and self._save() else LOG_LOST
            self._lost = StoreLost(f"{lost}: {remedy}")
            raise self._lost from None

    def _save(self) -> bool:
        """Copy what only the open log still has into the database file; returns whether it did."""
        try:
            with self._reading.connect() as connection:
                raw = connection.connection.cursor()
                raw.execute("PRAGMA wal_checkpoint(FULL)")
                done = raw.fetchone()
        except (self._driver.Error, SQLAlchemyError, StoreUnavailable):
            return False
        return done is not None and not done[0] and done[1] == done[2]


def parse_file(url_or_path: str | Path) -> Path:
    """Return the file that ``sqlite:///path`` or a plain path names; raises `Rejected`.

    >>> parse_file("sqlite:////var/lib/noted-time.db").as_posix()
    '/var/lib/noted-time.db'
    """
    if isinstance(url_or_path, Path) or ":" not in url_or_path:
        return Path(url_or_path).absolute()
    try:
        url = make_url(url_or_path)
    except ArgumentError as error:
        raise Rejected(f"{url_or_path!r} is not a URL: {URL_HINT}") from error
    if not url.drivername.startswith("sqlite") or url.database in {None, "", ":memory:"}:
        raise Rejected(f"{url.render_as_string()!r} names no SQLite file: {URL_HINT}")
    return Path(str(url.database)).absolute()


def create_sqlite_engine(file: Path, *, busy_ms: int = BUSY_MS) -> Engine:
    """Return an engine on a file that is there; its transactions begin as readers."""

    def connect() -> sqlite3.Connection:
        connection = _connect(file, "rw", busy_ms)
        _write_ahead(connection)  # a restored copy need not be in that mode
        for pragma in CONNECTION_PRAGMAS:
            connection.execute(pragma)
        return connection

    return _create_engine(file, connect)


def create_writing_engine(engine: Engine) -> Engine:
    """Return the engine with transactions that take the write lock when they begin.

    One that begins as a reader fails at its first write if another has written meanwhile,
    whatever the busy timeout.
    """
    return engine.execution_options(begin="BEGIN IMMEDIATE")


def create_migration_engine(file: Path) -> Engine:
    """Return an engine that creates the file if need be and writes without foreign keys.

    To alter a table SQLite drops and makes it again, which would empty the tables that refer to
    it; the pragma does nothing inside a transaction.
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
    """Raise `StoreUnavailable` if a migration left rows that refer to nothing."""
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise StoreUnavailable(f"the migration would leave rows of no stream: {broken[:3]}")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch the file to the write-ahead log; SQLite does not wait for others here, so we do."""
    deadline = time.monotonic() + MIGRATION_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _connect(file: Path, mode: str, busy_ms: int) -> sqlite3.Connection:
    # no isolation level: the driver's own transactions begin late, and so not as a writer
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


LOG_SAVED = "what was acknowledged is saved in the database file; start the controller again"
LOG_LOST = "what was acknowledged last may be lost; start the controller again"


class DatabaseFiles:
    """The file of a database with its log and index, as they were when it was opened.

    What is written to a file that somebody removed or replaced is lost with the process, though
    every write succeeds. A database file that was moved away may be put back. Its log (`-wal`) and
    the index of it (`-shm`) may not: a process that opens the database meanwhile creates new ones.
    """

    def __init__(self, file: Path) -> None:
        """Watch the file; raises `StoreUnavailable` if it is not there."""
        self.file = file
        self.wal = file.with_name(f"{file.name}-wal")
        self._path = os.fspath(file)
        self._identity = self._identify()
        self._beside: dict[str, Identity] = {}

    def remember_files(self) -> None:
        """Remember log and index when the first connection opened them; then check."""
        if not self._beside:
            for path in (os.fspath(self.wal), f"{self._path}-shm"):
                found = _identity_of(path)
                if found is not None:
                    self._beside[path] = found
        self.check()

    def check(self) -> None:
        """Raise `StoreUnavailable` if the file was moved or replaced, `StoreLost` else.

        Some microseconds, because it is called twice a commit.
        """
        if self._identify() != self._identity:
            raise StoreUnavailable(
                f"{self.file} was replaced by another file; restore it, or start the controller "
                "again"
            )
        for path, identity in self._beside.items():
            if _identity_of(path) != identity:
                raise StoreLost(f"{path} was removed or replaced while the controller served it")

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` if the file or its directory may only be read."""
        for path in (self.file, self.file.parent):
            if not os.access(path, os.W_OK, effective_ids=True):
                raise StoreUnavailable(f"{path} is read-only: let the controller write to it")

    @property
    def is_log_gone(self) -> bool:
        """Whether the log was removed, or is empty."""
        return not self.wal.exists() or not self.wal.stat().st_size

    def _identify(self) -> Identity:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - a path object costs as much as the call
        except OSError as error:
            raise StoreUnavailable(f"{self.file}: {error.strerror}") from error
        return found.st_dev, found.st_ino


def _identity_of(path: str) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_dev, found.st_ino
