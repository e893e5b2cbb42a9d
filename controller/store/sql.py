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

from controller.store import rows
from controller.store.port import StoreUnavailable, check_marks
from controller.store.reading import SqlReading
from controller.store.records import (
    RECORD_KINDS,
    AppendedMark,
    BucketClock,
    Change,
    ChangeSet,
    LedgerEntry,
    LedgerPart,
    Record,
    StoredMember,
    StreamRecord,
)
from controller.store.schema import RECORD_TABLES, SCHEMA_REVISION
from noted_time.installation import name_program

Seqs = Collection[tuple[str, str, int]]

SELECT_OLDEST_REVISION = """
SELECT oldest FROM noted_time_compatible
WHERE revision = (SELECT version_num FROM noted_time_version)
"""

ROWS_AT_ONCE = 64  # with 16 or 256, each member takes longer

_DELETE_CHANGES = """
DELETE FROM noted_time_change AS old WHERE stream_id = ? AND changed_served_ms < ? AND EXISTS (
    SELECT 1 FROM noted_time_change later
    WHERE later.stream_id = old.stream_id AND later.number > old.number
)
"""
_DELETE_PARTS = """
DELETE FROM noted_time_ledger_part AS part
WHERE stream_id = ? AND appended_served_ms < ? AND NOT EXISTS (
    SELECT 1 FROM noted_time_ledger entry
    WHERE entry.stream_id = part.stream_id AND entry.domain = part.domain AND entry.seq = part.seq
)
"""
_DELETE_OLD = {
    LedgerEntry: "DELETE FROM noted_time_ledger WHERE stream_id = ? AND appended_served_ms < ?",
    LedgerPart: _DELETE_PARTS,
    Change: _DELETE_CHANGES,
}
_DELETE_MARKS = """
DELETE FROM noted_time_mark AS old WHERE stream_id = ? AND domain = ? AND seq <= ? AND EXISTS (
    SELECT 1 FROM noted_time_mark later
    WHERE later.stream_id = old.stream_id AND later.domain = old.domain AND later.seq > old.seq
)
"""

_NEXT_NUMBER = "(SELECT coalesce(max(number), 0) + 1 FROM noted_time_change WHERE stream_id = ?)"
_ONE_CHAIN = "(SELECT ? AS stream_id, ? AS domain, ? AS seq) chain"
_LAST_SEQ = """
SELECT chain.stream_id, chain.domain, (
    SELECT max(seq) FROM noted_time_mark mark
    WHERE mark.stream_id = chain.stream_id AND mark.domain = chain.domain
)
FROM {chains}
"""
_MARK_COLUMNS = ", ".join(f'mark."{column.name}"' for column in RECORD_TABLES[AppendedMark].columns)
_UP_TO_KEPT = f"""
SELECT chain.stream_id, chain.domain, chain.seq, {_MARK_COLUMNS} FROM {{chains}}
JOIN noted_time_mark mark ON mark.stream_id = chain.stream_id AND mark.domain = chain.domain
WHERE mark.seq <= chain.seq + 1 AND mark.seq >= (
    SELECT max(base.seq) FROM noted_time_mark base
    WHERE base.stream_id = chain.stream_id AND base.domain = chain.domain
    AND base.seq <= chain.seq + 1 AND base.whole
)
ORDER BY 1, 2, 3, mark.seq
"""  # noqa: S608 - constants

KEPT_CHAIN_COLUMNS = 3  # `_UP_TO_KEPT` selects them before the columns of a mark


class SqlStore(SqlReading):
    """A `Store` without leases, over two engines of one database.

    Transactions of the engine `writing` take the write lock at once. Rows have CRC-32s unless
    the database `has_checksums`.
    """

    placeholder = "?"
    has_checksums = True

    def __init__(self, reading: Engine, writing: Engine) -> None:
        super().__init__(reading)
        self._writing = writing
        self._tails: rows.Tails = {}

    def clocks(self) -> dict[int, int]:
        return {number: int(ms) for number, ms in self._rows(select(RECORD_TABLES[BucketClock]))}

    def commit(self, batch: ChangeSet) -> None:
        tails: rows.Tails = {}
        with self._convert_errors(), self._transaction() as cursor:
            self._check_leases(cursor, batch)
            for kind in RECORD_KINDS:
                if drops := batch.list_drops(kind):
                    self._many(cursor, _delete(kind), drops)
                if kind is AppendedMark:
                    tails = self._append_marks(cursor, batch.list_puts(AppendedMark))
                elif puts := batch.list_puts(kind):
                    self._put(cursor, kind, puts)
            self._delete_old(cursor, batch)
        self._tails |= tails
        for (stream_id,) in batch.list_drops(StreamRecord):
            self._tails = {key: tail for key, tail in self._tails.items() if key[0] != stream_id}

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

    def _check_leases(self, cursor: DBAPICursor, batch: ChangeSet) -> None:
        """Fail if another client may hold the leases of a shared database."""

    def _many(self, cursor: DBAPICursor, statement: str, parameters: Collection[Any]) -> None:
        if parameters:
            cursor.executemany(statement.replace("?", self.placeholder), list(parameters))

    def _put(self, cursor: DBAPICursor, kind: type[Record], records: Collection[Any]) -> None:
        if kind is StoredMember:
            self._put_members(cursor, rows.encode_members(records))
            return
        values = self._add_crcs(kind, map(rows.encode_row, records))
        if kind is Change:
            values = [(stream_id, stream_id, *more) for stream_id, _, *more in values]
        self._many(cursor, _write(kind), values)

    def _add_crcs(self, kind: type[Record], values: Iterable[rows.Values]) -> list[rows.Values]:
        if not kind.has_crc:
            return list(values)
        if self.has_checksums:
            return [(*row, None) for row in values]
        return [rows.add_crc(row) for row in values]

    def _put_members(self, cursor: DBAPICursor, members: Iterator[rows.Values]) -> None:
        """Write many rows by each statement, as each waits for the interpreter's lock.

        Each row is encoded just before, so that it is still in the processor's caches.
        """
        while values := self._add_crcs(StoredMember, islice(members, ROWS_AT_ONCE)):
            cursor.execute(_put_members(len(values)), list(chain.from_iterable(values)))

    def _append_marks(self, cursor: DBAPICursor, marks: Collection[AppendedMark]) -> rows.Tails:
        """Return the new tails of the chains."""
        last = self._last_seqs(cursor, {(mark.stream_id, mark.domain) for mark in marks})
        check_marks(last, marks)
        tails = self._take_tails(last)
        values = self._add_crcs(AppendedMark, rows.encode_marks(marks, tails))
        self._many(cursor, _write(AppendedMark), values)
        return tails

    def _delete_old(self, cursor: DBAPICursor, batch: ChangeSet) -> None:
        for (kind, stream_id), before in batch.expired.items():
            self._many(cursor, _DELETE_OLD[kind], [(stream_id, before)])
        if batch.truncated:
            chains = [(*chain, through) for chain, through in batch.truncated.items()]
            whole_rows = self._add_crcs(AppendedMark, self._find_whole_rows(cursor, chains))
            self._many(cursor, upsert(RECORD_TABLES[AppendedMark]), whole_rows)
            self._many(cursor, _DELETE_MARKS, chains)

    def _last_seqs(
        self, cursor: DBAPICursor, chains: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], int]:
        last_rows = self._query_chains(cursor, _LAST_SEQ, [(*chain, 0) for chain in chains])
        return {(stream_id, domain): seq or 0 for stream_id, domain, seq in last_rows}

    def _take_tails(self, last_seqs: Mapping[tuple[str, str], int]) -> rows.Tails:
        """Remove and return the tails of chains that no other store has appended to.

        An equal seq proves this, because no seq is written twice.
        """
        tails = {}
        for key, seq in last_seqs.items():
            tail = self._tails.pop(key, None)
            if tail is not None and tail.seq == seq:
                tails[key] = tail
        return tails

    def _find_whole_rows(self, cursor: DBAPICursor, forgotten: Seqs) -> Iterator[rows.Values]:
        """Yield each chain's new first row as a whole row, if it is not whole."""
        chain_rows = self._query_chains(cursor, _UP_TO_KEPT, forgotten)
        for _, group in groupby(chain_rows, itemgetter(0, 1, 2)):
            chain = [_build_mark_row(row) for row in group]
            if len(chain) > 1:
                yield rows.build_whole_row(chain)

    def _query_chains(self, cursor: DBAPICursor, statement: str, chains: Seqs) -> list[Any]:
        chain_rows: list[Any] = []
        for chain_seq in chains:
            cursor.execute(statement.format(chains=_ONE_CHAIN), chain_seq)
            chain_rows += cursor.fetchall()
        return chain_rows


@cache
def _put_members(count: int) -> str:
    table = RECORD_TABLES[StoredMember]
    row = f"({', '.join('?' * len(table.columns))})"
    return upsert(table, f"VALUES {', '.join([row] * count)}")


def check_revision(revision: object, ask: Callable[[str], Any]) -> None:
    if revision == SCHEMA_REVISION or (
        str(revision) > SCHEMA_REVISION and is_compatible(ask(SELECT_OLDEST_REVISION))
    ):
        return
    raise StoreUnavailable(
        f"the schema of the database is at {revision}, not at {SCHEMA_REVISION}, and this "
        "controller does not work with it: start the version that created it, or run "
        f"`{name_program()} migrate`"
    )


def is_compatible(oldest: str | None) -> bool:
    """Return whether this code works with a later schema that needs code from `oldest` on.

    >>> is_compatible(SCHEMA_REVISION), is_compatible("9999"), is_compatible(None)
    (True, False, False)
    """
    return oldest is not None and oldest <= SCHEMA_REVISION


def _build_mark_row(row: Sequence[Any]) -> rows.Values:
    """Return a row of `_UP_TO_KEPT` without its chain. SQLite has integers for booleans."""
    *values, is_bound, is_final, is_whole, crc = row[KEPT_CHAIN_COLUMNS:]
    return (*values, bool(is_bound), bool(is_final), bool(is_whole), crc)


def insert(table: Table, source: str = "") -> str:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    values = ", ".join("?" * len(table.columns))
    return f"INSERT INTO {table.name} ({names}) {source or f'VALUES ({values})'}"


def upsert(table: Table, source: str = "") -> str:
    """Insert one row or the rows of `source`, or replace rows with the same key.

    >>> upsert(RECORD_TABLES[BucketClock]).partition(" ON ")[2]
    'CONFLICT ("number") DO UPDATE SET "served_ms" = excluded."served_ms"'
    """
    key = ", ".join(f'"{column.name}"' for column in table.primary_key)
    other_columns = [column.name for column in table.columns if not column.primary_key]
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in other_columns)
    return f"{insert(table, source)} ON CONFLICT ({key}) DO UPDATE SET {changes}"


@cache
def _write(kind: type[Record]) -> str:
    """Return the statement that writes a row; the store numbers changes."""
    table = RECORD_TABLES[kind]
    if kind is Change:
        return insert(table, f"VALUES (?, {_NEXT_NUMBER}{', ?' * (len(table.columns) - 2)})")
    return insert(table) if kind.is_appended else upsert(table)


@cache
def _delete(kind: type[Record]) -> str:
    table = RECORD_TABLES[kind]
    key = " AND ".join(f'"{column.name}" = ?' for column in table.primary_key)
    return f"DELETE FROM {table.name} WHERE {key}"  # noqa: S608 - names from the schema
