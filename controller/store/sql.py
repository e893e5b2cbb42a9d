"""Writes a batch in SQL, as far as SQLite and PostgreSQL are alike.

The driver's `executemany` takes text statements several times faster than SQLAlchemy's bulk insert.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

from sqlalchemy import Engine, Table, select
from sqlalchemy.engine.interfaces import DBAPICursor

from controller.store import rows, schema
from controller.store.port import StoreUnavailable, Transaction, check_marks
from controller.store.reading import SqlReading
from noted_time.installation import name_program

Seqs = Collection[tuple[str, str, int]]

SELECT_OLDEST_REVISION = """
SELECT oldest FROM noted_time_compatible
WHERE revision = (SELECT version_num FROM noted_time_version)
"""

ROWS_AT_ONCE = 64  # with 16 or 256, each member takes longer

_FORGET_LEDGER = "DELETE FROM noted_time_ledger WHERE stream_id = ? AND served_at < ?"
_FORGET_CHANGES = """
DELETE FROM noted_time_change AS old WHERE stream_id = ? AND served_at < ? AND EXISTS (
    SELECT 1 FROM noted_time_change later
    WHERE later.stream_id = old.stream_id AND later.number > old.number
)
"""
_SET_CLOCK = "UPDATE noted_time_bucket SET service_ms = ? WHERE number = ?"
_FORGET_MARKS = """
DELETE FROM noted_time_mark AS old WHERE stream_id = ? AND domain = ? AND seq <= ? AND EXISTS (
    SELECT 1 FROM noted_time_mark later
    WHERE later.stream_id = old.stream_id AND later.domain = old.domain AND later.seq > old.seq
)
"""

_ONE_CHAIN = "(SELECT ? AS stream_id, ? AS domain, ? AS seq) chain"
_LAST_SEQ = """
SELECT chain.stream_id, chain.domain, (
    SELECT max(seq) FROM noted_time_mark mark
    WHERE mark.stream_id = chain.stream_id AND mark.domain = chain.domain
)
FROM {chains}
"""
_UP_TO_KEPT = """
SELECT chain.stream_id, chain.domain, chain.seq, mark.* FROM {chains}
JOIN noted_time_mark mark ON mark.stream_id = chain.stream_id AND mark.domain = chain.domain
WHERE mark.seq <= chain.seq + 1 AND mark.seq >= (
    SELECT max(base.seq) FROM noted_time_mark base
    WHERE base.stream_id = chain.stream_id AND base.domain = chain.domain
    AND base.seq <= chain.seq + 1 AND base.whole
)
ORDER BY 1, 2, 3, mark.seq
"""


class SqlStore(SqlReading):
    """A `Store` without leases, over two engines of one database.

    Transactions of the engine `writing` take the write lock at once. Rows have CRC-32s if the
    database `has_checksums` not.
    """

    placeholder = "?"
    has_checksums = True

    def __init__(self, reading: Engine, writing: Engine) -> None:
        super().__init__(reading)
        self._writing = writing
        self._tails: rows.Tails = {}

    def clocks(self) -> dict[int, int]:
        return {number: int(ms) for number, ms in self._rows(select(schema.bucket))}

    def commit(self, batch: Transaction) -> None:
        batch = batch.without_dropped()
        with self._convert_errors(), self._transaction() as cursor:
            self._many(cursor, _DROP_STREAM, [(stream_id,) for stream_id in batch.dropped])
            self._many(
                cursor, _PUT_STREAM, self._add_crcs(map(rows.STREAM_ROWS.row, batch.streams))
            )
            self._many(cursor, _APPEND_SCALE, self._add_crcs(map(rows.scale_row, batch.scales)))
            self._many(cursor, _FORGET_MEMBER, batch.forgotten_members)
            self._put_members(cursor, rows.member_rows(batch.members))
            last = self._last_seqs(cursor, {(each.stream_id, each.domain) for each in batch.marks})
            check_marks(last, batch.marks)
            tails = self._take_tails(last)
            marks = self._add_crcs(rows.mark_rows(batch.marks, tails))
            self._many(cursor, _APPEND_MARK, marks)
            self._many(cursor, _FORGET_READER, batch.forgotten_readers)
            self._many(cursor, _PUT_READER, list(map(rows.READER_ROWS.row, batch.readers)))
            self._many(cursor, _FORGET_BACKLOG, batch.forgotten_backlogs)
            self._many(cursor, _PUT_BACKLOG, list(map(rows.BACKLOG_ROWS.row, batch.backlogs)))
            self._many(cursor, _FORGET_LATE, batch.forgotten_late)
            self._many(cursor, _PUT_LATE, list(map(rows.LATE_ROWS.row, batch.late)))
            self._many(cursor, _APPEND_LEDGER, list(map(rows.ledger_row, batch.ledger)))
            self._many(cursor, _APPEND_CHANGE, list(map(rows.change_row, batch.changes)))
            self._many(cursor, _FORGET_LEDGER, batch.forgotten_ledger)
            self._many(cursor, _FORGET_CHANGES, batch.forgotten_changes)
            whole = self._add_crcs(self._find_whole_rows(cursor, batch.forgotten))
            self._many(cursor, _PUT_MARK, whole)
            self._many(cursor, _FORGET_MARKS, batch.forgotten)
            clocks = [(ms, bucket) for bucket, ms in sorted(batch.clocks.items())]
            self._many(cursor, _SET_CLOCK, clocks)
        self._tails |= tails
        if batch.dropped:
            dropped = set(batch.dropped)
            self._tails = {of: tail for of, tail in self._tails.items() if of[0] not in dropped}

    def close(self) -> None:
        super().close()
        self._writing.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[DBAPICursor]:
        """Use the driver alone, for speed."""
        with closing(self._writing.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute(self._writing.get_execution_options()["begin"])
            yield cursor
            connection.commit()

    def _many(self, cursor: DBAPICursor, statement: str, parameters: Sequence[Any]) -> None:
        if parameters:
            cursor.executemany(statement.replace("?", self.placeholder), parameters)

    def _add_crcs(self, values: Iterable[rows.Values]) -> list[rows.Values]:
        if self.has_checksums:
            return [(*row, None) for row in values]
        return [rows.add_crc(row) for row in values]

    def _put_members(self, cursor: DBAPICursor, members: Iterator[rows.Values]) -> None:
        """Write many rows by each statement, as each waits for the interpreter's lock.

        Each row is encoded just before, so that it is still in the processor's caches.
        """
        while some := self._add_crcs(islice(members, ROWS_AT_ONCE)):
            cursor.execute(_put_members(len(some)), list(chain.from_iterable(some)))

    def _last_seqs(
        self, cursor: DBAPICursor, chains: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], int]:
        last_rows = self._query_chains(cursor, _LAST_SEQ, [(*chain, 0) for chain in chains])
        return {(stream_id, domain): seq or 0 for stream_id, domain, seq in last_rows}

    def _take_tails(self, last: Mapping[tuple[str, str], int]) -> rows.Tails:
        """Remove and return the tails of chains that no other store has appended to.

        An equal seq proves this, because no seq is written twice.
        """
        tails = {chain: self._tails.pop(chain, None) for chain in last}
        return {chain: tail for chain, tail in tails.items() if tail and tail.seq == last[chain]}

    def _find_whole_rows(self, cursor: DBAPICursor, forgotten: Seqs) -> Iterator[rows.Values]:
        """Yield each chain's new first row as a whole row, if it is not whole."""
        chain_rows = self._query_chains(cursor, _UP_TO_KEPT, forgotten)
        for _, group in groupby(chain_rows, itemgetter(0, 1, 2)):
            chain = [(*row[3:-4], *map(bool, row[-4:-1]), row[-1]) for row in group]  # of `mark`
            if len(chain) > 1:
                yield rows.build_whole_row(chain)

    def _query_chains(self, cursor: DBAPICursor, statement: str, chains: Seqs) -> list[Any]:
        chain_rows: list[Any] = []
        for each in chains:
            cursor.execute(statement.format(chains=_ONE_CHAIN), each)
            chain_rows += cursor.fetchall()
        return chain_rows


@cache
def _put_members(count: int) -> str:
    row = f"({', '.join('?' * len(schema.member.columns))})"
    return upsert(schema.member, f"VALUES {', '.join([row] * count)}")


def check_revision(revision: object, ask: Callable[[str], Any]) -> None:
    if revision == schema.SCHEMA_REVISION or (
        str(revision) > schema.SCHEMA_REVISION and is_compatible(ask(SELECT_OLDEST_REVISION))
    ):
        return
    raise StoreUnavailable(
        f"the schema of the database is at {revision}, not at {schema.SCHEMA_REVISION}, and this "
        "controller does not work with it: start the version that created it, or run "
        f"`{name_program()} migrate`"
    )


def is_compatible(oldest: str | None) -> bool:
    """Return whether this code works with a later schema that needs code from `oldest` on.

    >>> is_compatible(schema.SCHEMA_REVISION), is_compatible("9999"), is_compatible(None)
    (True, False, False)
    """
    return oldest is not None and oldest <= schema.SCHEMA_REVISION


def insert(table: Table, source: str = "") -> str:
    names = ", ".join(table.columns.keys())
    values = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} ({names}) {source or f'VALUES ({values})'}"


def upsert(table: Table, source: str = "") -> str:
    """Insert one row or the rows of `source`, or replace rows with the same key.

    >>> upsert(schema.bucket).partition(" ON ")[2]
    'CONFLICT (number) DO UPDATE SET service_ms = excluded.service_ms'
    """
    key = ", ".join(table.primary_key.columns.keys())
    others = [column.name for column in table.columns if not column.primary_key]
    changes = ", ".join(f"{name} = excluded.{name}" for name in others)
    return f"{insert(table, source)} ON CONFLICT ({key}) DO UPDATE SET {changes}"


def delete(table: Table) -> str:
    key = " AND ".join(f"{column.name} = ?" for column in table.primary_key)
    return f"DELETE FROM {table.name} WHERE {key}"  # noqa: S608 - names from the schema


_PUT_STREAM, _DROP_STREAM = upsert(schema.stream), delete(schema.stream)
_PUT_READER, _FORGET_READER = upsert(schema.reader), delete(schema.reader)
_PUT_BACKLOG, _FORGET_BACKLOG = upsert(schema.backlog), delete(schema.backlog)
_PUT_LATE, _FORGET_LATE = upsert(schema.late), delete(schema.late)
_APPEND_MARK, _PUT_MARK = insert(schema.mark), upsert(schema.mark)
_APPEND_SCALE, _APPEND_LEDGER = insert(schema.scale), insert(schema.ledger)
_FORGET_MEMBER = delete(schema.member)
_NEXT_NUMBER = "(SELECT coalesce(max(number), 0) + 1 FROM noted_time_change WHERE stream_id = ?)"
_APPEND_CHANGE = insert(
    schema.change, f"VALUES (?, {_NEXT_NUMBER}{', ?' * (len(schema.change.columns) - 2)})"
)
