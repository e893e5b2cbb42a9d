"""The store in SQL: what every dialect does alike, given its engine and its upsert.

Statements are built from the tables once and kept as text: `executemany` of the driver then takes
a batch's rows as they are, several times faster than SQLAlchemy's own bulk insert.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, func, select, update

from controller.store import rows
from controller.store.law import check_marks, without_dropped
from controller.store.reading import SqlReading
from controller.store.schema import bucket, mark, member, reader, scale, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

    from sqlalchemy import (
        ColumnElement,
        Delete,
        Engine,
        FromClause,
        Select,
        Table,
        Update,
    )
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.sql.elements import ClauseElement

    from controller.store.port import AppendedMark, Batch

    Chains = AbstractSet[tuple[str, str]]


class SqlStore(SqlReading):
    """A `Store`, but for its leases, over two engines of one database.

    `writing` begins as a writer. `insert` is the dialect's own: what to do on a conflict differs.
    """

    def __init__(self, reading: Engine, writing: Engine, insert: Callable[[Table], Any]) -> None:
        super().__init__(reading)
        self._writing = writing

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
        self._set_clock = text(_set_clock())

    def clocks(self) -> dict[int, int]:
        """Return the service clock of each bucket as of the last commit of it, 0 at first."""
        return {number: int(ms) for number, ms in self._rows(select(bucket))}

    def commit(self, batch: Batch) -> None:
        """Write the batch in one transaction; raises `Conflict` and `StoreUnavailable`."""
        batch = without_dropped(batch)
        members = rows.member_rows(batch.members)
        with self._border(), self._transaction(batch) as connection:
            _many(connection, self._drop, [(stream_id,) for stream_id in batch.dropped])
            _many(connection, self._put_stream, list(map(rows.stream_row, batch.streams)))
            _many(connection, self._append_scale, list(map(rows.scale_row, batch.scales)))
            _many(connection, self._forget_member, batch.forgotten_members)
            self._put(connection, members)
            self._append(connection, batch.marks)
            _many(connection, self._put_reader, list(map(rows.reader_row, batch.readers)))
            _many(connection, self._forget, batch.forgotten)
            _many(connection, self._set_clock, rows.clock_rows(batch.clocks))
            self._tell(connection, batch)

    def ping(self) -> None:
        """Raise `StoreUnavailable` where the database does not answer."""
        self.clocks()

    def close(self) -> None:
        """Give back the connections; any call after it raises `StoreUnavailable`."""
        super().close()
        self._writing.dispose()

    @contextmanager
    def _transaction(self, batch: Batch) -> Iterator[DBAPICursor]:  # noqa: ARG002 - for dialects
        """Begin as a writer of the batch, and commit at the end or undo.

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

    def _tell(self, connection: DBAPICursor, batch: Batch) -> None:
        """Tell other controllers what there is to read once the batch is committed."""

    def _put(self, connection: DBAPICursor, members: list[rows.Row]) -> None:
        _many(connection, self._put_member, members)


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


def _chain(table: FromClause) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return table.c.stream_id == bindparam("stream_id"), table.c.key == bindparam("key")


def _last_seq() -> Select[Any]:
    return select(func.max(mark.c.seq)).where(*_chain(mark))


def _set_clock() -> Update:
    of_bucket = bucket.c.number == bindparam("bucket")
    return update(bucket).values(service_ms=bindparam("ms")).where(of_bucket)


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
