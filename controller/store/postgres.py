"""What is PostgreSQL's own: its URL, its session with leases, its upsert of many rows at once."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import BigInteger, Boolean, Text, create_engine, make_url
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import ArgumentError

from controller.store.arrays import Bigints, Booleans, Texts, register
from controller.store.leases import LeaseSession
from controller.store.notices import StreamsChanged, StreamsTrimmed, listen, tell
from controller.store.port import StoreUnavailable
from controller.store.reading import ROWS_AT_A_TIME, SqlReading
from controller.store.schema import member
from controller.store.sent import SentStatement
from controller.store.sql import SqlStore
from noted_time import Rejected

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence

    from sqlalchemy import URL, Dialect, Engine, Executable, Table
    from sqlalchemy.engine.interfaces import DBAPICursor

    from controller.store.journal import Row as EntryRow
    from controller.store.notices import Notice
    from controller.store.port import Batch, Leases, Sent
    from controller.store.rows import Row
    from controller.store.sql import Chains

SAY = "say postgresql://user@host:5432/database"

# A network that swallows what is sent is noticed within seconds; a lost one at once.
CONNECT: dict[str, Any] = {
    "application_name": "noted-time",
    "client_encoding": "UTF8",  # whatever the database has: Debian's is SQL_ASCII without a locale
    "connect_timeout": 5,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}

_MIGRATING = "SELECT pg_advisory_lock(%s, hashtext(current_schema()))", [int.from_bytes(b"move")]

_APPEND = "append_entries"

# An id that no stream has becomes a null, which no entry may have.
_APPENDED = """
INSERT INTO journal SELECT (SELECT id FROM stream WHERE id = entry.stream_id), seq, body
FROM unnest({}::text[], {}::bigint[], {}::text[]) entry (stream_id, seq, body)
"""
_APPEND_NOW = _APPENDED.format("%b", "%b", "%b")
_PREPARE = f"PREPARE {_APPEND} AS {_APPENDED.format('$1', '$2', '$3')}"

_ARRAYS = {Boolean: Booleans, BigInteger: Bigints, Text: Texts}
_COLUMNS = [_ARRAYS[type(column.type)] for column in member.columns]

_LAST_SEQS = """
SELECT stream_id, key, (
    SELECT max(seq) FROM mark WHERE mark.stream_id = chain.stream_id AND mark.key = chain.key
)
FROM unnest(%s::text[], %s::text[]) chain (stream_id, key)
"""


class PostgresStore(SqlStore):
    """A `Store` in a PostgreSQL database, which `migrate` has made, for one of its controllers."""

    local = False

    def __init__(self, url: str) -> None:
        """Connect when first asked; the first `look` begins a session."""
        self._url = url
        engine = postgres_engine(url)
        super().__init__(engine, engine, insert)
        self._session = LeaseSession(self._connect)
        self._buckets = 0
        self._shared = False
        self.reading = SqlReading(engine)
        values = _values(self._put_member)
        self._put_members = self._put_member.replace(values, _unnested(member, engine.dialect))

    def enter(self, url: str) -> None:
        """Say where other controllers find this one; to be called before the first `look`."""
        self._session.enter(url)

    def look(self) -> Leases:
        """Return who has which bucket, and show that this controller lives."""
        self._buckets = self._buckets or len(self.clocks())
        with self._whole():
            leases = self._session.look(self._buckets)
        if not leases.mine:
            self._journal.clear()  # the session may be a new one
        self._shared = leases.replicas > 1
        return leases

    def listen(self) -> AsyncGenerator[Notice]:
        """Yield what other controllers say is to be read, for as long as it is asked."""
        return listen(lambda: connect_async(self._url))

    def take(self, buckets: Iterable[int]) -> frozenset[int]:
        """Take those of the buckets that nobody has; returns which."""
        with self._border():
            return self._session.take(buckets)

    def give(self, buckets: Iterable[int]) -> None:
        """Let others take the buckets, all of them this store's own."""
        self._journal.clear()
        with self._border():
            self._session.give(buckets)

    def leave(self) -> None:
        """Let others take all buckets, and count as living no more; `look` goes on telling."""
        self._journal.clear()
        with self._border():
            self._session.leave()

    def begin(self, batch: Batch) -> Sent | None:
        """Send a batch of nothing but members, which is one statement; `None` for any other.

        Nor where entries of the journal are overdue, or not known yet.
        """
        journal = self._journal
        if not batch.is_of_members or journal.is_overdue or journal.unknown(batch):
            return None
        with self._whole():
            session = self._session.session()
            columns = [each.dumped() for each in _columns_of_entries(journal.append(batch))]
            return SentStatement(session, _APPEND.encode(), columns, self._whole)

    def ping(self) -> None:
        """Raise `StoreUnavailable` where the session that holds the leases was lost."""
        with self._border():
            self._session.session().execute("SELECT")

    def close(self) -> None:
        """Hand all buckets to others; any call after it raises `StoreUnavailable`."""
        super().close()
        self._session.close()

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Begin, and commit at the end or undo; what needs no answer is sent ahead of it."""
        session = self._session.session()
        with session.pipeline(), session.transaction(), session.cursor() as cursor:
            yield cursor

    def _connect(self) -> psycopg.Connection[Any]:
        session = connect(self._url)
        session.execute(_PREPARE)
        return session

    def _put(self, cursor: Any, members: list[Row]) -> None:  # noqa: ANN401 - psycopg's own
        """Write all members by one statement, in the order of the table's key."""
        if members:
            members.sort()
            columns = zip(_COLUMNS, zip(*members, strict=True), strict=True)
            cursor.execute(self._put_members, [array(values) for array, values in columns])

    def _append_entries(self, cursor: Any, entries: list[EntryRow]) -> None:  # noqa: ANN401 - as above
        if entries:
            cursor.execute(_APPEND_NOW, _columns_of_entries(entries))

    def _tell(self, connection: DBAPICursor, batch: Batch) -> None:
        if not self._shared:
            return
        changed = {mark.stream_id for mark in batch.marks} | {each.id for each in batch.streams}
        changed |= {stream_id for stream_id, *_ in batch.scales} | set(batch.dropped)
        if changed:
            tell(connection, StreamsChanged(tuple(sorted(changed))))
        trimmed = {stream_id for stream_id, *_ in batch.forgotten}
        if trimmed:
            tell(connection, StreamsTrimmed(tuple(sorted(trimmed))))

    def _last_seqs(self, cursor: DBAPICursor, chains: Chains) -> dict[tuple[str, str], int]:
        """Ask for all chains at once, in a cursor that has no other results to give."""
        if not chains:
            return {}
        with cursor.connection.cursor() as asking:
            asking.execute(_LAST_SEQS, [list(column) for column in zip(*chains, strict=True)])
            return {(stream_id, key): seq or 0 for stream_id, key, seq in asking}

    def _rows(self, query: Executable) -> Sequence[Any]:
        """Return few rows; who loads many streams without members reads nothing else."""
        self._renew()
        return super()._rows(query)

    def _many_rows(self, query: Executable, at_a_time: int = ROWS_AT_A_TIME) -> Generator[Any]:
        """Yield the rows, telling the server now and then that the controller lives."""
        self._renew()
        with closing(super()._many_rows(query, at_a_time)) as rows:
            for number, row in enumerate(rows, start=1):
                if number % at_a_time == 0:
                    self._renew()
                yield row

    def _renew(self) -> None:
        with self._border():
            self._session.renew()


def is_postgres(url: str) -> bool:
    """Return whether the URL names a PostgreSQL database.

    >>> is_postgres("postgresql://db/noted"), is_postgres("sqlite:///noted-time.db")
    (True, False)
    """
    return url.startswith(("postgresql://", "postgres://"))


def url_of(url: str) -> URL:
    """Return the parts of a URL of a PostgreSQL database; raises `Rejected`.

    >>> url_of("postgres://noted:secret@db:5432/noted").render_as_string()
    'postgresql+psycopg://noted:***@db:5432/noted'
    """
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):  # which may quote the password
        raise Rejected(f"the URL of the database cannot be read: {SAY}") from None
    if not parts.database:
        raise Rejected(f"{shown(url)!r} names no database: {SAY}")
    return parts.set(drivername="postgresql+psycopg")


def shown(url: str) -> str:
    """Return a URL as it may be told: without its password.

    >>> shown("postgresql://noted:secret@db/noted")
    'postgresql://noted:***@db/noted'
    """
    return make_url(url).render_as_string()


def connect(url: str) -> psycopg.Connection[Any]:
    """Return a session that commits each statement unless told otherwise."""
    session = psycopg.connect(_conninfo(url), autocommit=True, **CONNECT)
    register(session)
    return session


async def connect_async(url: str) -> psycopg.AsyncConnection[Any]:
    """Return the same for use in an event loop."""
    return await psycopg.AsyncConnection.connect(_conninfo(url), autocommit=True, **CONNECT)


def postgres_engine(url: str) -> Engine:
    """Return an engine whose statements take a row's values in the order of its columns."""
    return create_engine(
        url_of(url),
        paramstyle="format",
        connect_args=CONNECT,
        pool_size=2,
        pool_pre_ping=True,
        hide_parameters=True,
    )


@contextmanager
def migrating_alone(url: str) -> Iterator[None]:
    """Keep every other migration away from the database; raises `StoreUnavailable`.

    The lock has a session of its own: the migration's ends with each of its transactions.
    """
    try:
        session = connect(url)
    except psycopg.Error as error:
        raise StoreUnavailable(f"{shown(url)}: {error}") from error
    with closing(session):
        session.execute(*_MIGRATING)
        yield


def _conninfo(url: str) -> str:
    return url_of(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _unnested(table: Table, dialect: Dialect) -> str:
    """Return the query of rows from a list for each column.

    In binary: as text a row costs this process five times as much.
    """
    types = [str(column.type.compile(dialect)).partition(" ")[0] for column in table.columns]
    lists = ", ".join(f"%b::{type_}[]" for type_ in types)
    return f"SELECT * FROM unnest({lists})"  # noqa: S608 - only the types of our own columns


def _columns_of_entries(entries: Sequence[EntryRow]) -> tuple[Texts, Bigints, Texts]:
    stream_ids, seqs, bodies = zip(*entries, strict=True)
    return Texts(stream_ids), Bigints(seqs), Texts(bodies)


def _values(insert_of_one: str) -> str:
    """Return the part of an upsert that gives the values.

    >>> _values("INSERT INTO t (a, b) VALUES (%(a)s, %(b)s) ON CONFLICT (a) DO NOTHING")
    'VALUES (%(a)s, %(b)s)'
    """
    return insert_of_one[insert_of_one.index("VALUES") : insert_of_one.index(" ON CONFLICT")]
