"""The store in SQL: what every dialect does alike, given its engine and its upsert.

Statements are built from the tables once and kept as text: `executemany` of the driver then takes
a batch's rows as they are, several times faster than SQLAlchemy's own bulk insert.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, func, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from controller.store import rows
from controller.store.law import check_marks, without_dropped
from controller.store.port import StoreUnavailable
from controller.store.schema import mark, member, reader, scale, service_clock, stream
from noted_time import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

    from sqlalchemy import (
        ColumnElement,
        Delete,
        Engine,
        Executable,
        FromClause,
        Select,
        Table,
    )
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.sql.elements import ClauseElement

    from controller.store.port import AppendedMark, Batch, ReaderRecord, StreamRecord
    from noted_time import MemberRecord, ScaleEvent

    Chains = AbstractSet[tuple[str, str]]

ROWS_AT_A_TIME = 1000


class SqlStore:
    """A `Store` over two engines of one database, of which `writing` begins as a writer.

    `insert` is the dialect's own, which knows what to do on a conflict.
    """

    local = True

    def __init__(self, reading: Engine, writing: Engine, insert: Callable[[Table], Any]) -> None:
        self._reading = reading
        self._writing = writing
        self._closed = False
        self._driver: Any = reading.dialect.loaded_dbapi

        def text(statement: ClauseElement) -> str:
            return str(statement.compile(dialect=reading.dialect))

        self._put_stream = text(_upsert(insert(stream), stream))
        self._put_member = text(_upsert(insert(member), member))
        self._put_reader = text(_upsert(insert(reader), reader))
        self._append_scale = text(scale.insert())
        self._append_mark = text(mark.insert())
        self._last_seq = text(_last_seq())
        self._forget = text(_forget())
        self._forget_member = text(_forget_member())
        self._drop = text(delete(stream).where(stream.c.id == bindparam("id")))
        self._set_clock = text(update(service_clock).values(service_ms=bindparam("ms")))

    def service_ms(self) -> int:
        """Return the service clock as of the last commit, 0 at first."""
        ((service_ms,),) = self._rows(select(service_clock.c.service_ms))
        return int(service_ms)

    def streams(self) -> list[StreamRecord]:
        """Return all streams in the order of their names."""
        return [rows.stream_of(row) for row in self._rows(select(stream).order_by(stream.c.name))]

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        """Return the scale events of a stream in the order of their seq."""
        events = select(scale.c.sealed, scale.c.created).order_by(scale.c.seq)
        return [rows.scale_of(row) for row in self._rows(_of(events, scale, stream_id))]

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        """Yield the members of a stream in the order of their names."""
        columns = select(*member.c[1:]).order_by(member.c.writer)
        return map(rows.member_of, self._rows(_of(columns, member, stream_id)))

    def marks(self, stream_id: str, key: str) -> Iterator[AppendedMark]:
        """Yield the marks that are kept of (stream, key) in the order of their seq."""
        chain = select(mark).where(mark.c.key == key).order_by(mark.c.seq)
        return map(rows.mark_of, self._rows(_of(chain, mark, stream_id)))

    def readers(self, stream_id: str) -> list[ReaderRecord]:
        """Return the readers of all groups of a stream in the order of their names."""
        found = select(reader).order_by(reader.c.reader_group, reader.c.reader)
        return [rows.reader_of(row) for row in self._rows(_of(found, reader, stream_id))]

    def commit(self, batch: Batch) -> None:
        """Write the batch in one transaction; raises `Conflict` and `StoreUnavailable`."""
        batch = without_dropped(batch)
        members = rows.member_rows(batch.members)
        with self._border(), self._transaction(len(members)) as connection:
            _many(connection, self._drop, [(stream_id,) for stream_id in batch.dropped])
            _many(connection, self._put_stream, list(map(rows.stream_row, batch.streams)))
            _many(connection, self._append_scale, list(map(rows.scale_row, batch.scales)))
            _many(connection, self._forget_member, batch.forgotten_members)
            self._put(connection, members)
            self._append(connection, batch.marks)
            _many(connection, self._put_reader, list(map(rows.reader_row, batch.readers)))
            _many(connection, self._forget, batch.forgotten)
            connection.execute(self._set_clock, (batch.service_ms,))

    def ping(self) -> None:
        """Raise `StoreUnavailable` where the database does not answer."""
        self.service_ms()

    def close(self) -> None:
        """Give back the connections; any call after it raises `StoreUnavailable`."""
        self._closed = True
        self._writing.dispose()
        self._reading.dispose()

    @contextmanager
    def _transaction(self, members: int) -> Iterator[DBAPICursor]:  # noqa: ARG002 - for dialects
        """Begin as a writer of so many members, and commit at the end or undo.

        The statements are the driver's own: a commit of 32 members took a fifth longer with
        SQLAlchemy's layers around each.
        """
        with self._writing.begin() as connection:
            yield connection.connection.cursor()

    def _append(self, connection: DBAPICursor, marks: list[AppendedMark]) -> None:
        chains = {(appended.stream_id, appended.key) for appended in marks}
        check_marks(self._last_seqs(connection, chains), marks)
        _many(connection, self._append_mark, list(map(rows.mark_row, marks)))

    def _last_seqs(self, connection: DBAPICursor, chains: Chains) -> dict[tuple[str, str], int]:
        last: dict[tuple[str, str], int] = {}
        for chain in chains:
            connection.execute(self._last_seq, chain)
            found = connection.fetchone()
            last[chain] = (found and found[0]) or 0
        return last

    def _put(self, connection: DBAPICursor, members: list[rows.Row]) -> None:
        _many(connection, self._put_member, members)

    def _rows(self, query: Executable) -> Iterator[Any]:
        with self._border(), self._reading.connect() as connection:
            streamed = connection.execution_options(yield_per=ROWS_AT_A_TIME)
            yield from streamed.execute(query)

    @contextmanager
    def _border(self) -> Iterator[None]:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            yield
        except (self._driver.IntegrityError, IntegrityError) as error:
            raise Conflict(f"the batch contradicts what is stored: {error}") from error
        except (self._driver.Error, SQLAlchemyError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise StoreUnavailable(f"the database did not answer: {cause}") from error


def _many(connection: DBAPICursor, statement: str, parameters: list[Any]) -> None:
    if parameters:
        connection.executemany(statement, parameters)


def _upsert(statement: Any, table: Table) -> ClauseElement:  # noqa: ANN401 - a dialect's insert
    """Return the statement that inserts one row, or replaces all that is not its primary key."""
    replaced = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        if not column.primary_key
    }
    upsert: ClauseElement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=replaced
    )
    return upsert


def _of(query: Select[Any], table: Table, stream_id: str) -> Select[Any]:
    return query.where(table.c.stream_id == stream_id)


def _chain(table: FromClause) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return table.c.stream_id == bindparam("stream_id"), table.c.key == bindparam("key")


def _last_seq() -> Select[Any]:
    return select(func.max(mark.c.seq)).where(*_chain(mark))


def _forget_member() -> Delete:
    named = member.c.stream_id == bindparam("stream_id"), member.c.writer == bindparam("writer")
    return delete(member).where(*named)


def _forget() -> Delete:
    later = mark.alias("later")
    follows = exists().where(
        later.c.stream_id == mark.c.stream_id,
        later.c.key == mark.c.key,
        later.c.seq > mark.c.seq,
    )
    return delete(mark).where(*_chain(mark), mark.c.seq <= bindparam("seq"), follows)
