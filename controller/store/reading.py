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

from controller.store import rows
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
from controller.store.schema import (
    backlog,
    change,
    late,
    ledger,
    mark,
    member,
    reader,
    scale,
    secret,
    stream,
)
from noted_time import Conflict, Mark, MemberRecord, ScaleEvent
from noted_time.answers import Replica

ROWS_AT_A_TIME = 1000

_CONTENT_ERRORS = sqlite3.DatabaseError, sqlite3.OperationalError, UnicodeDecodeError
_DAMAGE_CODES = sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB
_NO_DATABASE = "not a SQLite database, so pass another file with --database; if it was one before"
_SCHEMA_ERRORS = re.compile(r"no such column|no such table: (?!compatible)|unsupported file format")


class SqlReading:
    """A `Reading` of an SQL database."""

    def __init__(self, engine: Engine) -> None:
        self._reading = engine
        self._closed = False
        self._driver: Any = engine.dialect.loaded_dbapi

    def streams(self) -> list[StreamRecord]:
        return [
            rows.STREAM_ROWS.value(row)
            for row in self._rows(select(stream).order_by(stream.c.name))
        ]

    def names(self) -> list[str]:
        return [name for (name,) in self._rows(select(stream.c.name).order_by(stream.c.name))]

    def summaries(self, names: Sequence[str]) -> list[StreamSummary]:
        """Read scale events after the marks, so all that precede a mark are included."""
        named = stream.c.name.in_(names)
        with self._convert_errors(), self._reading.connect() as connection:
            stream_rows = connection.execute(select(stream).where(named).order_by(stream.c.name))
            records = [rows.STREAM_ROWS.value(row) for row in stream_rows]
            marks = _read_last_marks(connection, records)
            scales = _read_scales(connection, named)
        return [
            StreamSummary(each, marks.get(each.id, {}), scales.get(each.id, ())) for each in records
        ]

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        events = select(scale).order_by(scale.c.seq)
        return [rows.scale_of(row) for row in self._rows(_filter_stream(events, scale, stream_id))]

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        query = select(member).order_by(member.c.writer)
        return map(rows.member_of, self._many_rows(_filter_stream(query, member, stream_id)))

    def marks(self, stream_id: str, domain: str) -> Iterator[AppendedMark]:
        chain = select(mark).where(mark.c.domain == domain).order_by(mark.c.seq)
        return rows.marks_of(self._many_rows(_filter_stream(chain, mark, stream_id)))

    def readers(self, stream_id: str) -> list[ReaderRecord]:
        query = select(reader).order_by(reader.c.reader_group, reader.c.reader)
        return [
            rows.READER_ROWS.value(row)
            for row in self._rows(_filter_stream(query, reader, stream_id))
        ]

    def backlogs(self, stream_id: str) -> list[BacklogRecord]:
        query = select(backlog).order_by(backlog.c.reader_group)
        return [
            rows.BACKLOG_ROWS.value(row)
            for row in self._rows(_filter_stream(query, backlog, stream_id))
        ]

    def late(self, stream_id: str) -> list[LateRecord]:
        query = select(late).order_by(*late.primary_key.columns)
        return [
            rows.LATE_ROWS.value(row) for row in self._rows(_filter_stream(query, late, stream_id))
        ]

    def ledger(
        self, stream_id: str, domain: str, *, after: int, limit: int, newest_first: bool = False
    ) -> list[LedgerEntry]:
        seq = ledger.c.seq
        later = seq < after if newest_first and after else seq > after
        chain = _filter_stream(
            select(ledger).where(ledger.c.domain == domain, later), ledger, stream_id
        )
        page = chain.order_by(seq.desc() if newest_first else seq).limit(limit)
        return [rows.LEDGER_ROWS.value(row) for row in self._rows(page)]

    def changes(
        self, stream_id: str, *, before: int | None, limit: int
    ) -> list[tuple[int, Change]]:
        page = (
            _filter_stream(select(change), change, stream_id)
            .order_by(change.c.number.desc())
            .limit(limit)
        )
        page = page if before is None else page.where(change.c.number < before)
        return [rows.change_of(row) for row in self._rows(page)]

    def replicas_secret(self) -> bytes:
        secrets = self._rows(select(secret.c.value).where(secret.c.name == "replicas"))
        return b"".join(value.encode() for (value,) in secrets)

    def replicas(self) -> list[Replica]:
        return []

    def risk(self) -> str | None:
        """Return `None`, because each connection makes its commits durable."""
        return None

    def damage(self) -> str | None:
        """Return `None`, because the server checks its data."""
        return None

    def close(self) -> None:
        self._closed = True
        self._reading.dispose()

    def _rows(self, query: Executable) -> Sequence[Any]:
        """Return the rows; streaming them would take another round trip."""
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


def _filter_stream(query: Select[Any], table: Table, stream_id: str) -> Select[Any]:
    return query.where(table.c.stream_id == stream_id)


def _read_last_marks(
    connection: Connection, streams: Sequence[StreamRecord]
) -> dict[str, dict[str, Mark]]:
    """Return the last mark of each domain of the streams.

    On PostgreSQL this is one query, to save round trips; SQLite has no lateral join.
    """
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
    query = select(scale).join(stream).where(named).order_by(scale.c.seq)
    scales: dict[str, list[ScaleEvent]] = {}
    for row in connection.execute(query):
        scales.setdefault(row.stream_id, []).append(rows.scale_of(row))
    return scales


def _tail(stream_id: Any, domain: Any) -> Select[Any]:  # noqa: ANN401 - a column or a parameter
    """Return the query of a chain's last rows, from the last whole row on."""
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
_TAIL_OF_ONE = _tail(bindparam("stream_id"), bindparam("domain")).order_by(mark.c.seq)
