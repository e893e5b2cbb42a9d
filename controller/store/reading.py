"""Reads a database by SQL, in any process and thread."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Row,
    Select,
    Table,
    Text,
    bindparam,
    func,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from controller.store import rows, schema
from controller.store.port import (
    AppendedMark,
    BacklogRecord,
    Change,
    LateRecord,
    LedgerEntry,
    ReaderRecord,
    StoreDamaged,
    StoreUnavailable,
    StreamRecord,
    StreamSummary,
)
from noted_time import Conflict, Mark, MemberRecord, ScaleEvent
from noted_time.answers import Replica

ROWS_AT_A_TIME = 1000

_CONTENT_ERRORS = sqlite3.DatabaseError, sqlite3.OperationalError, UnicodeDecodeError
_DAMAGE_CODES = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB
_NO_DATABASE = "not a SQLite database, so pass another file with --database; if it was one before"
_SCHEMA_ERRORS = re.compile(
    r"no such column|no such table: (?!noted_time_compatible)|unsupported file format"
)


class SqlReading:
    """A `Reading` of an SQL database."""

    def __init__(self, engine: Engine) -> None:
        self._reading = engine
        self._closed = False
        self._driver: Any = engine.dialect.loaded_dbapi

    def streams(self) -> list[StreamRecord]:
        query = select(schema.stream).order_by(schema.stream.c.name)
        return [rows.STREAM_ROWS.value(row) for row in self._rows(query)]

    def names(self) -> list[str]:
        column = schema.stream.c.name
        return [name for (name,) in self._rows(select(column).order_by(column))]

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        """Read scale events after the marks, so all that precede a mark are included."""
        column = schema.stream.c.name
        named = column.in_(names)
        with self._convert_errors(), self._reading.connect() as connection:
            stream_rows = connection.execute(select(schema.stream).where(named).order_by(column))
            records = [rows.STREAM_ROWS.value(row) for row in stream_rows]
            marks = _read_last_marks(connection, records)
            scales = _read_scales(connection, named)
        return [
            StreamSummary(each, marks.get(each.id, {}), scales.get(each.id, ())) for each in records
        ]

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        events = _select_stream(schema.scale, stream_id).order_by(schema.scale.c.seq)
        return [rows.scale_of(row) for row in self._rows(events)]

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        query = _select_stream(schema.member, stream_id).order_by(schema.member.c.writer)
        return map(rows.member_of, self._many_rows(query))

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]:
        columns = schema.mark.c
        chain = _select_stream(schema.mark, stream_id).where(columns.domain == domain)
        return rows.marks_of(self._many_rows(chain.order_by(columns.seq)))

    def readers(self, stream_id: str) -> list[ReaderRecord]:
        key = schema.reader.c.reader_group, schema.reader.c.reader
        query = _select_stream(schema.reader, stream_id).order_by(*key)
        return [rows.READER_ROWS.value(row) for row in self._rows(query)]

    def backlogs(self, stream_id: str) -> list[BacklogRecord]:
        query = _select_stream(schema.backlog, stream_id).order_by(schema.backlog.c.reader_group)
        return [rows.BACKLOG_ROWS.value(row) for row in self._rows(query)]

    def late(self, stream_id: str) -> list[LateRecord]:
        query = _select_stream(schema.late, stream_id).order_by(*schema.late.primary_key.columns)
        return [rows.LATE_ROWS.value(row) for row in self._rows(query)]

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        seq = schema.ledger.c.seq
        later = seq < after if newest_first and after else seq > after
        entries = _select_stream(schema.ledger, stream_id)
        chain = entries.where(schema.ledger.c.domain == domain, later)
        page = chain.order_by(seq.desc() if newest_first else seq).limit(limit)
        return [rows.LEDGER_ROWS.value(row) for row in self._rows(page)]

    def changes(
        self, stream_id: str, *, before: int | None, limit: int
    ) -> list[tuple[int, Change]]:
        number = schema.change.c.number
        page = _select_stream(schema.change, stream_id).order_by(number.desc()).limit(limit)
        page = page if before is None else page.where(number < before)
        return [rows.change_of(row) for row in self._rows(page)]

    def replicas_secret(self) -> bytes:
        columns = schema.secret.c
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

    def _many_rows(self, query: Executable) -> Generator[Any]:
        with self._convert_errors(), self._reading.connect() as connection:
            streamed = connection.execution_options(yield_per=ROWS_AT_A_TIME)
            with streamed.execute(query) as cursor:  # closed, even if the caller stops early
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


def build_unavailable(
    error: Exception, engine: Engine, what: str = "the database did not answer"
) -> StoreUnavailable:
    cause = error.orig if isinstance(error, DBAPIError) else error
    # text that is not UTF-8 has no code
    code: int = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    if type(cause) in _CONTENT_ERRORS and (
        code & 0xFF in _DAMAGE_CODES or _SCHEMA_ERRORS.match(str(cause))
    ):
        fault = _NO_DATABASE if code == sqlite3.SQLITE_NOTADB else f"damaged: {cause}"
        return StoreDamaged(str(engine.url.database), fault)
    remedy = ": create its directory, or let the controller write to it"
    why = " ".join(str(cause).split()) + remedy * (code == sqlite3.SQLITE_CANTOPEN)
    return StoreUnavailable(f"{what}: {why}")


def _select_stream(table: Table, stream_id: str) -> Select[Any]:
    return select(table).where(table.c.stream_id == stream_id)


def _read_last_marks(
    connection: Connection, streams: Sequence[StreamRecord]
) -> dict[str, dict[str, Mark]]:
    """Use one query on PostgreSQL, to save round trips; SQLite has no lateral join."""
    chains = [(record.id, domain) for record in streams for domain in record.settings.domains]
    tails: list[Row[Any]] = []
    if connection.dialect.name == "postgresql":
        lists = {
            "stream_ids": [each for each, _ in chains],
            "domains": [domain for _, domain in chains],
        }
        tails += connection.execute(_TAIL_OF_ALL, lists)
    else:
        for stream_id, domain in chains:
            tails += connection.execute(_TAIL_OF_ONE, {"stream_id": stream_id, "domain": domain})
    marks: dict[str, dict[str, Mark]] = {}
    for _, tail in groupby(tails, itemgetter(0, 1)):
        each = rows.last_mark_of(list(tail))
        marks.setdefault(each.stream_id, {})[each.domain] = each.mark
    return marks


def _read_scales(connection: Connection, named: ColumnElement[bool]) -> dict[str, list[ScaleEvent]]:
    events = select(schema.scale).join(schema.stream)
    scales: dict[str, list[ScaleEvent]] = {}
    for row in connection.execute(events.where(named).order_by(schema.scale.c.seq)):
        scales.setdefault(row.stream_id, []).append(rows.scale_of(row))
    return scales


def _tail(stream_id: Any, domain: Any) -> Select[Any]:  # noqa: ANN401 - a column or a parameter
    """Return the query of a chain's last rows, from the last whole row on."""
    mark = schema.mark
    base = mark.alias("base")
    of_chain = base.c.stream_id == stream_id, base.c.domain == domain, base.c.whole
    whole = select(func.max(base.c.seq)).where(*of_chain).correlate_except(base).scalar_subquery()
    chain = mark.c.stream_id == stream_id, mark.c.domain == domain
    return select(mark).where(*chain, mark.c.seq >= whole)


def _tail_of_all() -> Select[Any]:
    lists = [bindparam(name, type_=ARRAY(Text)) for name in ("stream_ids", "domains")]
    chain = func.unnest(*lists).table_valued("stream_id", "domain", name="chain").render_derived()
    tail = _tail(chain.c.stream_id, chain.c.domain).lateral("tail")
    in_order = tail.c.stream_id, tail.c.domain, tail.c.seq
    return select(tail).select_from(chain.join(tail, true())).order_by(*in_order)


_TAIL_OF_ALL = _tail_of_all()
_TAIL_OF_ONE = _tail(bindparam("stream_id"), bindparam("domain")).order_by(schema.mark.c.seq)
