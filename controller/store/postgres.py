"""The store in PostgreSQL: its URL, the session with leases, and bulk upserts."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import BigInteger, Connection, Engine, Executable, Text, create_engine, event, text
from sqlalchemy.engine.interfaces import DBAPICursor

from controller.store.leases import (
    CHECK_SESSION,
    IS_OWN_SESSION,
    SCHEMA_HASH,
    SET_CONFIG,
    SYNC_SETTING,
    LeaseSession,
)
from controller.store.port import Leases, StoreShared, StoreUnavailable
from controller.store.reading import READ_ONLY, ROWS_AT_A_TIME, STANDBY_REFUSAL, SqlReading
from controller.store.records import ChangeSet, StoredMember
from controller.store.rows import Values, encode_members
from controller.store.schema import RECORD_TABLES
from controller.store.sql import Seqs, SqlStore, check_revision, upsert
from noted_time import Unreadable
from noted_time.answers import Replica

URL_HINT = "use postgresql://user@host:5432/database"

LAST_PORT = 65535

_USER_PASSWORD = re.compile(r"^(\w+://[^:/?@]*):.*@")
_QUERY_PASSWORD = re.compile(r"(password=)[^&]*")

CONNECT_OPTIONS: dict[str, Any] = {
    "application_name": "noted-time",
    "client_encoding": "UTF8",  # Debian's default is SQL_ASCII
    "connect_timeout": 5,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}

_MIGRATION_LOCK = (f"SELECT pg_advisory_lock(%s, {SCHEMA_HASH})", [int.from_bytes(b"move")])

# Text takes several times as much CPU time as a binary array.
_ARRAY_TYPES = {BigInteger: "bigint[]", Text: "text[]"}
_MEMBER = RECORD_TABLES[StoredMember]
_MEMBER_NAMES = [column.name for column in _MEMBER.columns[:-1]]
_MEMBER_ARRAYS = ", ".join(
    f"%({column.name})b::{_ARRAY_TYPES[type(column.type)]}" for column in _MEMBER.columns[:-1]
)
_PUT_MEMBERS = upsert(
    _MEMBER,
    f"SELECT *, NULL::bigint FROM unnest({_MEMBER_ARRAYS}) WHERE {IS_OWN_SESSION}",  # noqa: S608 - constants
)

_SELECT_STATE = """
SELECT current_setting('transaction_read_only')::bool, pg_is_in_recovery()
"""
_SELECT_PID = "SELECT pg_backend_pid()"
_SELECT_REVISION = f"""
SELECT (SELECT max(version_num) FROM noted_time_version) WHERE {IS_OWN_SESSION}
"""  # noqa: S608 - constants

_CHAINS_TABLE = "unnest(%s::text[], %s::text[], %s::bigint[]) chain (stream_id, domain, seq)"


_SELECT_CONNECTED = """
SELECT url, version, revision, connected_at, zone_data
FROM noted_time_replica JOIN pg_stat_activity USING (pid) ORDER BY url
"""

_SELECT_OFF_SETTINGS = """
SELECT name, source FROM pg_settings
WHERE setting = 'off' AND name IN ('fsync', 'full_page_writes') ORDER BY name
"""
"""Without `synchronous_commit`, which each session turns on itself."""

_RESTART_REMEDY = "restart the server with {names} on"
_RELOAD_REMEDY = "set {names} to on and reload the server"


class PostgresReading(SqlReading):
    """Reads a PostgreSQL database, including other controllers' data."""

    def replicas(self) -> list[Replica]:
        return [Replica(*row) for row in self._rows(text(_SELECT_CONNECTED))]

    def risk(self) -> str | None:
        """Return the settings that are off now. An open session sees a reload of the server."""
        off: list[str] = []
        names_by_remedy: dict[str, list[str]] = {}
        for name, source in self._rows(text(_SELECT_OFF_SETTINGS)):
            off.append(name)
            remedy = _RESTART_REMEDY if source == "command line" else _RELOAD_REMEDY
            names_by_remedy.setdefault(remedy, []).append(name)
        if not off:
            return None
        remedies = [
            remedy.replace("{names}", ", ".join(names)) for remedy, names in names_by_remedy.items()
        ]
        why = f"PostgreSQL has {', '.join(off)} off, so a power cut may lose acknowledged notes"
        return f"{why}: {'; '.join(remedies)}"

    def damage(self) -> str | None:
        """Return that a pooler gives sessions to others, if so. The server checks its own data."""
        with (
            self._convert_errors(),
            self._reading.connect() as connection,
            self._reading.connect() as other_connection,
        ):
            pids = {_find_session(connection), _find_session(connection)}
            other_pid = other_connection.exec_driver_sql(_SELECT_PID).scalar_one()  # keeps it
            pids.add(_find_session(connection))
        is_shared = len(pids) > 1 or other_pid in pids
        return str(StoreShared()) if is_shared else None


def _find_session(connection: Connection) -> int:
    """Return the server process of the session that one transaction gets."""
    pid: int = connection.exec_driver_sql(_SELECT_PID).scalar_one()
    connection.commit()
    return pid


class PostgresStore(SqlStore):
    """A `Store` of one controller in a migrated PostgreSQL database."""

    local = False
    placeholder = "%s"

    def __init__(self, url: str) -> None:
        self._url = url
        engine = create_postgres_engine(url)
        super().__init__(engine, engine)
        self._session = LeaseSession(lambda: connect_to_write(url))
        self._buckets = 0
        self.reading = PostgresReading(engine)

    def check(self) -> None:
        """Raise `StoreUnavailable` for a database that accepts no commits."""
        with self._convert_errors():
            connect_to_write(self._url).close()

    def register(self, url: str) -> None:
        self._session.register(url)

    def heartbeat(self) -> Leases:
        self._buckets = self._buckets or len(self.clocks())
        with self._convert_errors():
            return self._session.heartbeat(self._buckets)

    def renew(self) -> bool:
        with self._convert_errors():
            return self._session.renew()

    def acquire(self, buckets: Iterable[int]) -> frozenset[int]:
        self._tails.clear()  # another controller may have appended to the acquired streams
        with self._convert_errors():
            return self._session.acquire(buckets)

    def release(self, buckets: Iterable[int]) -> None:
        self._tails.clear()
        with self._convert_errors():
            self._session.release(buckets)

    def leave(self) -> None:
        with self._convert_errors():
            self._session.leave()

    def ping(self) -> None:
        with self._convert_errors():
            session = self._session.session()
            check_writable(session)
            cursor = session.execute(_SELECT_REVISION, self._session.parameters)
            (revision,) = cursor.fetchone() or (None,)
            check_revision(revision, lambda query: (session.execute(query).fetchone() or [None])[0])

    def close(self) -> None:
        super().close()
        self._session.close()

    def commit(self, batch: ChangeSet) -> None:
        """Write notes alone, as in most batches, by one statement.

        `BEGIN` and `COMMIT` would take more CPU time than this.
        """
        if batch.has_changes(besides=StoredMember):
            super().commit(batch)
            return
        with self._convert_errors():
            members = encode_members(batch.list_puts(StoredMember))
            self._put_members(self._session.session(), members)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Begin and commit in the pipeline, as the driver's own blocks wait for each step."""
        session = self._session.session()
        try:
            with session.pipeline(), session.cursor() as cursor:
                cursor.execute("BEGIN")
                yield cursor
                cursor.execute("COMMIT")
        except BaseException:
            if not session.closed:
                session.rollback()
            raise

    def _check_leases(self, cursor: DBAPICursor, batch: ChangeSet) -> None:
        if not batch.list_puts(StoredMember):  # their statement checks the session, too
            cursor.execute(CHECK_SESSION, self._session.parameters)

    def _put_members(
        self, cursor: DBAPICursor | psycopg.Connection[Any], members: Iterator[Values]
    ) -> None:
        columns = [list(column) for column in zip(*members, strict=True)]
        if columns:
            arrays = dict(zip(_MEMBER_NAMES, columns, strict=True))
            cursor.execute(_PUT_MEMBERS, arrays | self._session.parameters)

    def _query_chains(self, cursor: DBAPICursor, statement: str, chains: Seqs) -> list[Any]:
        if not chains:
            return []
        with cursor.connection.cursor() as asking:
            columns = [list(column) for column in zip(*chains, strict=True)]
            asking.execute(statement.format(chains=_CHAINS_TABLE), columns)
            chain_rows: list[Any] = asking.fetchall()
            return chain_rows

    def _rows(self, query: Executable) -> Sequence[Any]:
        """Use the session first: a load has many queries, and fails once the session is lost."""
        self._touch()
        return super()._rows(query)

    def _many_rows(self, query: Executable) -> Generator[Any]:
        self._touch()
        with closing(super()._many_rows(query)) as rows:
            for number, row in enumerate(rows, start=1):
                if number % ROWS_AT_A_TIME == 0:
                    self._touch()
                yield row

    def _touch(self) -> None:
        with self._convert_errors():
            self._session.touch()


def is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def check_url(url: str) -> None:
    """Raise `Unreadable` unless libpq takes the URL, which may name several hosts.

    >>> check_url("postgres://noted:secret@a:5432,b/noted?target_session_attrs=read-write")
    """
    try:
        parts = conninfo_to_dict(url)
        ports = [int(port) for port in str(parts.get("port", "")).split(",") if port]
    except (psycopg.Error, ValueError):  # may contain the password
        raise Unreadable(f"the URL of the database cannot be read: {URL_HINT}") from None
    if not all(0 < port <= LAST_PORT for port in ports):
        raise Unreadable(f"{hide_password(url)!r} has a port above {LAST_PORT}: {URL_HINT}")
    if not parts.get("dbname"):
        raise Unreadable(f"{hide_password(url)!r} names no database: {URL_HINT}")


def hide_password(url: str) -> str:
    """Return the URL without its passwords.

    >>> hide_password("postgresql://noted:secret@a:1,b:2/noted?sslpassword=secret&sslmode=require")
    'postgresql://noted:***@a:1,b:2/noted?sslpassword=***&sslmode=require'
    """
    without_user_password = _USER_PASSWORD.sub(r"\1:***@", url)
    return _QUERY_PASSWORD.sub(r"\1***", without_user_password)


def connect(url: str) -> psycopg.Connection[Any]:
    check_url(url)
    return psycopg.connect(url, autocommit=True, **CONNECT_OPTIONS)


def connect_to_write(url: str) -> psycopg.Connection[Any]:
    """Return a session that can commit, or raise `StoreUnavailable`."""
    session = connect(url)
    try:
        check_writable(session)
    except BaseException:
        session.close()
        raise
    return session


def check_writable(session: psycopg.Connection[Any]) -> None:
    """Raise `StoreUnavailable` for a standby, and for a database that is read-only."""
    is_read_only, is_standby = session.execute(_SELECT_STATE).fetchone() or (False, False)
    if is_standby:
        raise StoreUnavailable(STANDBY_REFUSAL)
    if is_read_only:
        raise StoreUnavailable(READ_ONLY)


def create_postgres_engine(url: str) -> Engine:
    check_url(url)
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(url, **CONNECT_OPTIONS),
        pool_size=2,
        pool_pre_ping=True,
        hide_parameters=True,
    )
    event.listen(engine, "connect", _sync_commits)
    return engine


def _sync_commits(session: psycopg.Connection[Any], _: object) -> None:
    """Have changes, such as a revoked token, written to disk before they are acknowledged."""
    session.execute(SET_CONFIG, SYNC_SETTING)
    session.commit()


@contextmanager
def lock_migration(url: str) -> Iterator[None]:
    """Lock in a separate session, because a migration may use several transactions."""
    try:
        session = connect_to_write(url)
    except psycopg.Error as error:
        raise StoreUnavailable(f"{hide_password(url)}: {error}") from error
    with closing(session):
        session.execute(*_MIGRATION_LOCK)
        yield
