"""What can be read of a database in SQL by anybody, whoever writes to it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from controller.store import rows
from controller.store.glances import glances
from controller.store.port import StoreUnavailable
from controller.store.schema import mark, member, reader, scale, stream
from noted_time import Conflict

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from sqlalchemy import Engine, Executable, Select, Table

    from controller.store.port import AppendedMark, Glance, ReaderRecord, StreamRecord
    from noted_time import MemberRecord, ScaleEvent

ROWS_AT_A_TIME = 1000


class SqlReading:
    """The streams of a database as they are committed; several threads may ask at once."""

    def __init__(self, engine: Engine) -> None:
        self._reading = engine
        self._closed = False
        self._driver: Any = engine.dialect.loaded_dbapi

    def streams(self) -> list[StreamRecord]:
        """Return all streams in the order of their names."""
        return [rows.stream_of(row) for row in self._rows(select(stream).order_by(stream.c.name))]

    def stream(self, name: str) -> StreamRecord | None:
        """Return the stream of that name, `None` where there is none."""
        found = self._rows(select(stream).where(stream.c.name == name))
        return rows.stream_of(found[0]) if found else None

    def names(self) -> list[str]:
        """Return the names of all streams in order."""
        return [name for (name,) in self._rows(select(stream.c.name).order_by(stream.c.name))]

    def glances(self, names: Sequence[str]) -> list[Glance]:
        """Return what lists show of those of these streams that are there, by a few queries."""
        with self._border(), self._reading.connect() as connection:
            return glances(connection, names)

    def scales(self, stream_id: str) -> list[ScaleEvent]:
        """Return the scale events of a stream in the order of their seq."""
        events = select(scale.c.sealed, scale.c.created).order_by(scale.c.seq)
        return [rows.scale_of(row) for row in self._rows(_of(events, scale, stream_id))]

    def members(self, stream_id: str) -> Iterator[MemberRecord]:
        """Yield the members of a stream in the order of their names."""
        columns = select(*member.c[1:]).order_by(member.c.writer)
        return map(rows.member_of, self._many_rows(_of(columns, member, stream_id)))

    def marks(self, stream_id: str, key: str, after: int = 0) -> Iterator[AppendedMark]:
        """Yield the marks of (stream, key) with a seq above `after` in the order of their seq."""
        later = mark.c.key == key, mark.c.seq > after
        chain = select(mark).where(*later).order_by(mark.c.seq)
        return map(rows.mark_of, self._many_rows(_of(chain, mark, stream_id)))

    def readers(self, stream_id: str) -> list[ReaderRecord]:
        """Return the readers of all groups of a stream in the order of their names."""
        found = select(reader).order_by(reader.c.reader_group, reader.c.reader)
        return [rows.reader_of(row) for row in self._rows(_of(found, reader, stream_id))]

    def close(self) -> None:
        """Give back the connections; any call after it raises `StoreUnavailable`."""
        self._closed = True
        self._reading.dispose()

    def _rows(self, query: Executable) -> Sequence[Any]:
        """Return few rows: to stream them would take a turn with the server more."""
        with self._border(), self._reading.connect() as connection:
            return connection.execute(query).fetchall()

    def _many_rows(self, query: Executable) -> Generator[Any]:
        """Yield the rows as they come, however many there are."""
        with self._border(), self._reading.connect() as connection:
            streamed = connection.execution_options(yield_per=ROWS_AT_A_TIME)
            with streamed.execute(query) as found:  # closed with who reads no further
                yield from found

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


def _of(query: Select[Any], table: Table, stream_id: str) -> Select[Any]:
    return query.where(table.c.stream_id == stream_id)
