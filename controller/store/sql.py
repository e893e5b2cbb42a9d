"""The store in SQL: what every dialect does alike, given its engine and its upsert.

Statements are built from the tables once and kept as text: `executemany` of the driver then takes
a batch's rows as they are, several times faster than SQLAlchemy's own bulk insert.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, func, select, update

from controller.store import rows
from controller.store.journal import Entry, Journal, overlaid
from controller.store.law import check_marks, without_dropped
from controller.store.reading import SqlReading
from controller.store.schema import bucket, journal, mark, member, reader, scale, stream
from noted_time.cut import MAX_INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

    from sqlalchemy import (
        ColumnElement,
        Delete,
        Engine,
        FromClause,
        Insert,
        Select,
        Table,
        Update,
    )
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.sql.elements import ClauseElement

    from controller.store.journal import Row as EntryRow
    from controller.store.port import AppendedMark, Batch
    from noted_time import MemberRecord

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

        self._journal = Journal()
        self._put_stream = text(_upsert(insert(stream), stream))
        self._put_member = text(_upsert(insert(member), member))
        self._put_reader = text(_upsert(insert(reader), reader))
        self._append_scale = text(scale.insert())
        self._append_mark = text(mark.insert())
        self._append_entry = text(_append_entry())
        self._entries_between = text(_entries_between())
        self._drop_entries = text(_drop_entries())
        self._drop_journal = text(delete(journal).where(journal.c.stream_id == bindparam("id")))
        self._last_seq = text(_last_seq())
        self._forget = text(_forget())
        self._forget_member = text(_forget_member())
        self._drop = text(delete(stream).where(stream.c.id == bindparam("id")))
        self._set_clock = text(_set_clock())

    def clocks(self) -> dict[int, int]:
        """Return the service clock of each bucket as of the last commit of it, 0 at first."""
        return {number: int(ms) for number, ms in self._rows(select(bucket))}

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        """Yield the members of a stream in the order of their names."""
        entries = list(self._entries(stream_id))
        self._journal.learn(stream_id, entries)
        return overlaid(self._settled(stream_id), entries)

    def commit(self, batch: Batch) -> None:
        """Write the batch in one transaction; raises `Conflict` and `StoreUnavailable`."""
        batch = without_dropped(batch)
        with self._whole(), self._transaction() as connection:
            dropped = [(stream_id,) for stream_id in batch.dropped]
            _many(connection, self._drop, dropped)
            _many(connection, self._drop_journal, dropped)
            _many(connection, self._put_stream, list(map(rows.stream_row, batch.streams)))
            _many(connection, self._append_scale, list(map(rows.scale_row, batch.scales)))
            _many(connection, self._forget_member, batch.forgotten_members)
            self._tell_of_members(connection, batch)
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
    def _whole(self) -> Iterator[None]:
        """Know no journal any more where a batch was not committed, or may not have been."""
        try:
            with self._border():
                yield
        except BaseException:
            self._journal.clear()
            raise

    @contextmanager
    def _transaction(self) -> Iterator[DBAPICursor]:
        """Begin as a writer of the batch, and commit at the end or undo.

        The statements are the driver's own: a commit of 32 members took a fifth longer with
        SQLAlchemy's layers around each.
        """
        with self._writing.begin() as connection:
            yield connection.connection.cursor()

    def _tell_of_members(self, connection: DBAPICursor, batch: Batch) -> None:
        """Append what the batch says of members, and settle and drop what is overdue."""
        for stream_id in batch.dropped:
            self._journal.forget(stream_id)
        for stream_id in self._journal.unknown(batch):
            found = self._entries_of(connection, stream_id, 0, MAX_INT64)
            self._journal.learn(stream_id, found)
        self._append_entries(connection, self._journal.append(batch))
        for outdated in self._journal.outdated():
            stream_id, first, since, last = outdated
            going = []
            if since is not None:
                going = self._entries_of(connection, stream_id, since, last)
            settled = [(stream_id, each) for each in self._journal.dropped(outdated, going)]
            self._put(connection, rows.member_rows(settled))
            connection.execute(self._drop_entries, (stream_id, first, last))

    def _entries_of(
        self, connection: DBAPICursor, stream_id: str, first: int, last: int
    ) -> list[tuple[int, Entry]]:
        connection.execute(self._entries_between, (stream_id, first, last))
        return [(seq, Entry.of(body)) for seq, body in connection.fetchall()]

    def _append_entries(self, connection: DBAPICursor, entries: list[EntryRow]) -> None:
        _many(connection, self._append_entry, entries)

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


def _append_entry() -> Insert:
    """Return the insert of an entry, which needs its stream to be there."""
    known = select(stream.c.id).where(stream.c.id == bindparam("stream_id"))
    return journal.insert().values(
        stream_id=known.scalar_subquery(), seq=bindparam("seq"), body=bindparam("body")
    )


def _between() -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    of_stream = journal.c.stream_id == bindparam("stream_id")
    return of_stream, journal.c.seq.between(bindparam("first"), bindparam("last"))


def _entries_between() -> Select[Any]:
    found = select(journal.c.seq, journal.c.body).where(*_between())
    return found.order_by(journal.c.seq)


def _drop_entries() -> Delete:
    # both ends: on PostgreSQL those that are gone lie before the first until they are vacuumed
    return delete(journal).where(*_between())


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
