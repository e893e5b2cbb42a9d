"""How the last marks of many streams are read by few queries: those that lists show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, any_, bindparam, func, select, true
from sqlalchemy.dialects.postgresql import ARRAY

from controller.store import rows
from controller.store.port import Glance
from controller.store.schema import mark, scale, stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Column, ColumnElement, Connection, Row, Select

    from controller.store.port import AppendedMark, StreamRecord
    from noted_time import ScaleEvent

    Chain = tuple[str, str]


def glances(connection: Connection, names: Sequence[str]) -> list[Glance]:
    """Return the streams of these names that are there, in the order of their names."""
    named = select(stream).where(_among(connection, stream.c.name, names)).order_by(stream.c.name)
    records = [rows.stream_of(row) for row in connection.execute(named)]
    marks = _last_marks(connection, records)
    scales = _scales(connection, [record.id for record in records])
    return [
        Glance(record, marks.get(record.id, []), scales.get(record.id, [])) for record in records
    ]


def _last_marks(
    connection: Connection, records: Sequence[StreamRecord]
) -> dict[str, list[AppendedMark]]:
    chains = [(record.id, key) for record in records for key in record.settings.keys]
    found: dict[str, list[AppendedMark]] = {}
    for row in (_at_once if _knows_lists(connection) else _one_by_one)(connection, chains):
        appended = rows.mark_of(row)
        found.setdefault(appended.stream_id, []).append(appended)
    return found


def _at_once(connection: Connection, chains: Sequence[Chain]) -> Iterator[Row[Any]]:
    """Ask for all in one query, which looks into the index once for each."""
    stream_ids, keys = [of for of, _ in chains], [key for _, key in chains]
    yield from connection.execute(_LAST_OF_ALL, {"stream_ids": stream_ids, "keys": keys})


def _one_by_one(connection: Connection, chains: Sequence[Chain]) -> Iterator[Row[Any]]:
    """Ask for one after the other, where a query is no turn with a server."""
    for stream_id, key in chains:
        yield from connection.execute(_LAST_OF_ONE, {"stream_id": stream_id, "key": key})


def _scales(connection: Connection, stream_ids: Sequence[str]) -> dict[str, list[ScaleEvent]]:
    """Return the events of each stream that has some; read after the marks that follow from them.

    One that a mark follows from is known with it then.
    """
    columns = scale.c.stream_id, scale.c.sealed, scale.c.created
    named = _among(connection, scale.c.stream_id, stream_ids)
    events = select(*columns).where(named).order_by(scale.c.seq)
    found: dict[str, list[ScaleEvent]] = {}
    for stream_id, *event in connection.execute(events):
        found.setdefault(stream_id, []).append(rows.scale_of(event))
    return found


def _among(
    connection: Connection, column: Column[str], values: Sequence[str]
) -> ColumnElement[bool]:
    """Whether the column has one of the values.

    They are one parameter where the database knows lists: a parameter for each takes as long to
    prepare as the query to answer.
    """
    if _knows_lists(connection):
        return column == any_(bindparam(None, values, type_=ARRAY(Text)))
    return column.in_(values)


def _knows_lists(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def _last(stream_id: Any, key: Any) -> Select[Any]:  # noqa: ANN401 - a column or a parameter
    chain = mark.c.stream_id == stream_id, mark.c.key == key
    return select(mark).where(*chain).order_by(mark.c.seq.desc()).limit(1)


def _last_of_all() -> Select[Any]:
    lists = [bindparam(name, type_=ARRAY(Text)) for name in ("stream_ids", "keys")]
    chain = func.unnest(*lists).table_valued("stream_id", "key", name="chain").render_derived()
    last = _last(chain.c.stream_id, chain.c.key).lateral("last")
    return select(last).select_from(chain.join(last, true()))


_LAST_OF_ALL = _last_of_all()
_LAST_OF_ONE = _last(bindparam("stream_id"), bindparam("key"))
