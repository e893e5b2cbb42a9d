"""Reads a database by SQL, in any process and thread."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any

from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Row,
    Select,
    Text,
    bindparam,
    func,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from controller.store import rows
from controller.store.port import StoreDamaged, StoreShared, StoreUnavailable, StreamSummary
from controller.store.records import (
    AppendedMark,
    Change,
    LedgerEntry,
    LedgerPart,
    R,
    Record,
    StoredMember,
    StoredScale,
    StreamRecord,
)
from controller.store.schema import RECORD_TABLES, secret
from noted_time.answers import Replica
from noted_time.rules import MemberRecord
from noted_time.values import Conflict, Mark, ScaleEvent

ROWS_AT_A_TIME = 1000

_STREAM = RECORD_TABLES[StreamRecord]
_MARK = RECORD_TABLES[AppendedMark]

_CONTENT_ERRORS = sqlite3.DatabaseError, sqlite3.OperationalError, UnicodeDecodeError
_DAMAGE_CODES = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB
_READ_ONLY_CODES = sqlite3.SQLITE_READONLY, sqlite3.SQLITE_READONLY_DIRECTORY
_NO_DATABASE = "not a SQLite database, so pass another file with --database; if it was one before"
_SCHEMA_ERRORS = re.compile(
    r"no such column|no such table: (?!noted_time_compatible)|unsupported file format"
)
_MIGRATION_ERRORS = re.compile(
    r"no such column|no such table|table .* already exists|duplicate column name"
)
_SCHEMA_STATES = frozenset(("42P01", "42703", "42P07", "42701"))
"""PostgreSQL's codes for tables and columns that are missing, or exist already."""

READ_ONLY_STATE = "25006"

READ_ONLY = (
    "the database is read-only: if it is a standby, name its primary; otherwise turn off "
    "default_transaction_read_only of its server, database or role"
)
STANDBY_REFUSAL = (
    "the database is a standby, which accepts no commits: name its primary, or the URL of all "
    "servers, postgresql://USER@HOST1,HOST2/NAME?target_session_attrs=read-write"
)

SHARED_SESSION = "noted-time: the session of another client"
"""The text of a server's error, because PostgreSQL has no function that raises one."""

_INVALID_TEXT = "22P02"

# A session that was not given to others knows the driver's prepared statements.
_POOLER_STATES = {"26000", "42P05"}


class SqlReading:
    """A `Reading` of an SQL database."""

    def __init__(self, engine: Engine) -> None:
        self._reading = engine
        self._closed = False
        self._driver: Any = engine.dialect.loaded_dbapi

    def streams(self) -> list[StreamRecord]:
        query = select(_STREAM).order_by(_STREAM.c.name)
        return [rows.decode_row(StreamRecord, row) for row in self._rows(query)]

    def names(self) -> list[str]:
        column = _STREAM.c.name
        return [name for (name,) in self._rows(select(column).order_by(column))]

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        """Read scale events after the marks, so all that precede a mark are included."""
        column = _STREAM.c.name
        has_name = column.in_(names)
        with self._convert_errors(), self._reading.connect() as connection:
            stream_rows = connection.execute(select(_STREAM).where(has_name).order_by(column))
            records = [rows.decode_row(StreamRecord, row) for row in stream_rows]
            marks = _read_last_marks(connection, records)
            scales = _read_scales(connection, has_name)
        return [
            StreamSummary(record, marks.get(record.id, {}), scales.get(record.id, ()))
            for record in records
        ]

    def load(self, kind: type[R], stream_id: str) -> list[R]:
        return [rows.decode_row(kind, row) for row in self._rows(_select_all(kind, stream_id))]

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        return map(rows.decode_member, self._many_rows(_select_all(StoredMember, stream_id)))

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]:
        chain = _select_all(AppendedMark, stream_id).where(_MARK.c.domain == domain)
        return rows.decode_marks(self._many_rows(chain))

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        columns = RECORD_TABLES[LedgerEntry].c
        is_following = columns.seq > after
        if newest_first and after:
            is_following = columns.seq < after
        chain = _select_all(LedgerEntry, stream_id).where(columns.domain == domain, is_following)
        if newest_first:
            chain = chain.order_by(None).order_by(columns.seq.desc())
        return [rows.decode_row(LedgerEntry, row) for row in self._rows(chain.limit(limit))]

    def ledger_parts(self, stream_id: str, domain: str, seq: int) -> Iterator[LedgerPart]:
        columns = RECORD_TABLES[LedgerPart].c
        parts = _select_all(LedgerPart, stream_id).where(columns.domain == domain)
        parts = parts.where(columns.seq == seq)
        return (rows.decode_row(LedgerPart, row) for row in self._many_rows(parts))

    def whole_ledger(self, stream_id: str, domain: str) -> Iterator[LedgerEntry]:
        query = _select_all(LedgerEntry, stream_id)
        ledger_rows = self._many_rows(query.where(RECORD_TABLES[LedgerEntry].c.domain == domain))
        return (rows.decode_row(LedgerEntry, row) for row in ledger_rows)

    def changes(self, stream_id: str, *, before: int | None, limit: int) -> list[Change]:
        number = RECORD_TABLES[Change].c.number
        page = _select_all(Change, stream_id).order_by(None).order_by(number.desc()).limit(limit)
        if before is not None:
            page = page.where(number < before)
        change_rows = self._rows(page)
        return [replace(rows.decode_row(Change, row), number=row.number) for row in change_rows]

    def replicas_secret(self) -> bytes:
        columns = secret.c
        secrets = self._rows(select(columns.value).where(columns.name == "replicas"))
        return b"".join(value.encode() for (value,) in secrets)

    def replicas(self) -> list[Replica]:
        return []

    def risk(self) -> str | None:
        """Return `None`: each connection makes its commits durable."""
        return None

    def damage(self) -> str | None:
        """Return `None`: the server checks its data."""
        return None

    def close(self) -> None:
        self._closed = True
        self._reading.dispose()

    def _rows(self, query: Executable) -> Sequence[Any]:
        """Fetch all rows, because streaming takes another round trip."""
        with self._convert_errors(), self._reading.connect() as connection:
            return connection.execute(query).fetchall()

    def _connect_to_scan(self) -> AbstractContextManager[Connection]:
        return self._reading.connect()

    def _many_rows(self, query: Executable) -> Generator[Any]:
        with self._convert_errors(), self._connect_to_scan() as connection:
            scan = connection.execution_options(yield_per=ROWS_AT_A_TIME)
            with scan.execute(query) as cursor:  # closed, even if the caller stops early
                yield from cursor

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            yield
        except (self._driver.IntegrityError, IntegrityError) as error:
            raise Conflict(f"the batch contradicts the stored data: {error}") from error
        except (self._driver.Error, SQLAlchemyError, UnicodeDecodeError) as error:
            raise build_unavailable(error, self._reading) from error


def build_unavailable(error: Exception, engine: Engine, beginning: str = "") -> StoreUnavailable:
    """Return the error for the caller; `beginning` begins its sentence."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    # text that is not UTF-8 has no code
    code: int = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    if type(cause) in _CONTENT_ERRORS and (
        code & 0xFF in _DAMAGE_CODES or _SCHEMA_ERRORS.match(str(cause))
    ):
        fault = _NO_DATABASE if code == sqlite3.SQLITE_NOTADB else f"damaged: {cause}"
        return StoreDamaged(str(engine.url.database), fault)
    sqlstate: str | None = getattr(cause, "sqlstate", None)
    if sqlstate == READ_ONLY_STATE:
        return StoreUnavailable(READ_ONLY)
    if code in _READ_ONLY_CODES:
        return StoreUnavailable(
            f"{engine.url.database} is read-only: let the controller write to it"
        )
    is_foreign = sqlstate == _INVALID_TEXT and SHARED_SESSION in str(cause)
    if is_foreign or sqlstate in _POOLER_STATES:
        return StoreShared()
    has_answered = (
        sqlstate is not None or isinstance(cause, sqlite3.Error) or "FATAL:" in str(cause)
    )
    if not beginning:
        beginning = (
            "the database reports an error" if has_answered else "the database did not answer"
        )
    diagnosis = getattr(cause, "diag", None)
    text = (diagnosis and diagnosis.message_primary) or str(cause)  # no statement, no values
    reason = " ".join(text.split())
    if code == sqlite3.SQLITE_CANTOPEN:
        reason += ": create its directory, or let the controller write to it"
    return StoreUnavailable(f"{beginning}: {reason}")


def is_schema_error(cause: BaseException | None) -> bool:
    """Return whether a statement failed because a table or column is missing, or exists already."""
    if isinstance(cause, sqlite3.OperationalError):
        return bool(_MIGRATION_ERRORS.match(str(cause)))
    return getattr(cause, "sqlstate", None) in _SCHEMA_STATES


def _select_all(kind: type[Record], stream_id: str) -> Select[Any]:
    """Select the records of a stream, by key."""
    table = RECORD_TABLES[kind]
    return select(table).where(table.c.stream_id == stream_id).order_by(*table.primary_key)


def _read_last_marks(
    connection: Connection, streams: Sequence[StreamRecord]
) -> dict[str, dict[str, Mark]]:
    """Use one query on PostgreSQL, to save round trips; SQLite has no lateral join."""
    chains: list[tuple[str, str]] = []
    for record in streams:
        chains += [(record.id, domain) for domain in record.settings.domains]
    tails: list[Row[Any]] = []
    if connection.dialect.name == "postgresql":
        lists = {
            "stream_ids": [stream_id for stream_id, _ in chains],
            "domains": [domain for _, domain in chains],
        }
        tails += connection.execute(_TAIL_OF_ALL, lists)
    else:
        for stream_id, domain in chains:
            tails += connection.execute(_TAIL_OF_ONE, {"stream_id": stream_id, "domain": domain})
    marks: dict[str, dict[str, Mark]] = {}
    for _, tail in groupby(tails, itemgetter(0, 1)):
        last_mark = rows.decode_last_mark(list(tail))
        marks.setdefault(last_mark.stream_id, {})[last_mark.domain] = last_mark.mark
    return marks


def _read_scales(
    connection: Connection, has_name: ColumnElement[bool]
) -> dict[str, list[ScaleEvent]]:
    table = RECORD_TABLES[StoredScale]
    scales: dict[str, list[ScaleEvent]] = {}
    events = select(table).join(_STREAM).where(has_name).order_by(table.c.seq)
    for row in connection.execute(events):
        scales.setdefault(row.stream_id, []).append(rows.decode_row(StoredScale, row).event)
    return scales


def _tail(stream_id: Any, domain: Any) -> Select[Any]:  # noqa: ANN401 - a column or a parameter
    """Return the query of a chain's last rows, from the last whole row on."""
    mark = _MARK
    base = mark.alias("base")
    of_chain = base.c.stream_id == stream_id, base.c.domain == domain, base.c.whole
    last_whole_seq = (
        select(func.max(base.c.seq)).where(*of_chain).correlate_except(base).scalar_subquery()
    )
    chain = mark.c.stream_id == stream_id, mark.c.domain == domain
    return select(mark).where(*chain, mark.c.seq >= last_whole_seq)


def _tail_of_all() -> Select[Any]:
    lists = [bindparam(name, type_=ARRAY(Text)) for name in ("stream_ids", "domains")]
    chain = func.unnest(*lists).table_valued("stream_id", "domain", name="chain").render_derived()
    tail = _tail(chain.c.stream_id, chain.c.domain).lateral("tail")
    in_order = tail.c.stream_id, tail.c.domain, tail.c.seq
    return select(tail).select_from(chain.join(tail, true())).order_by(*in_order)


_TAIL_OF_ALL = _tail_of_all()
_TAIL_OF_ONE = _tail(bindparam("stream_id"), bindparam("domain")).order_by(_MARK.c.seq)
