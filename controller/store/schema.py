"""The tables of a controller's database, the same in every dialect, made from the records.

JSON is text, because a JSON type costs the server more.
"""

from __future__ import annotations

from functools import reduce
from types import NoneType
from typing import Any, get_args, get_type_hints

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, MetaData, Table, Text

from controller.store.records import RECORD_KINDS, AppendedMark, Record, StoredMember, TokenRecord

SCHEMA_REVISION = "0004"

FIRST_REVISION = "0001b"
"""The oldest revision that can be migrated."""

VERSION_TABLE = "noted_time_version"
"""Alembic's, with the revision."""

# SQLite alters a table by a copy, which keeps only constraints with names.
metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# Sorted by code points, as in SQLite, not by the locale.
Name = Text().with_variant(Text(collation="C"), "postgresql")


def _make_table(kind: type[Record]) -> Table:
    columns = [_make_column(kind, path) for path in (*kind.key_fields, *kind.column_fields)]
    columns += [*_EXTRA_COLUMNS.get(kind, ())]
    if kind.has_json:
        columns.append(Column("record", Text, nullable=False))
    if kind.has_crc:
        columns.append(Column("crc", BigInteger))
    if kind.key_fields[0] != "stream_id":
        return Table(kind.table_name, metadata, *columns)
    columns[0].append_foreign_key(ForeignKey("noted_time_stream.id", ondelete="CASCADE"))
    return Table(kind.table_name, metadata, *columns, sqlite_with_rowid=False)


def _make_column(kind: type[Record], path: str) -> Column[Any]:
    """Return the column of a field: a number, or text for text and JSON."""
    hint: Any = reduce(lambda owner, name: get_type_hints(owner)[name], path.split("."), kind)
    is_nullable = NoneType in get_args(hint)
    types = get_args(hint) if is_nullable else (hint,)
    is_key = path in kind.key_fields
    text = Name if is_key or path == "name" else Text
    return Column(
        path.rpartition(".")[2],
        Boolean if bool in types else BigInteger if int in types else text,
        primary_key=is_key,
        autoincrement=False,
        nullable=is_nullable,
        unique=path == "name" or None,
    )


_EXTRA_COLUMNS: dict[type[Record], list[Column[Any]]] = {
    StoredMember: [Column("others", Text)],  # rare fields, or null if all have their defaults
    AppendedMark: [Column("whole", Boolean, nullable=False)],
}

TABLE_KINDS: tuple[type[Record], ...] = (*RECORD_KINDS, TokenRecord)
RECORD_TABLES = {kind: _make_table(kind) for kind in TABLE_KINDS}

replica = Table(
    "noted_time_replica",
    metadata,
    Column("pid", Integer, primary_key=True, autoincrement=False),
    Column("url", Text, nullable=False),
    Column("version", Text),
    Column("revision", Text, nullable=False),
    Column("connected_at", BigInteger, nullable=False),
    Column("zone_data", Text),
)

# For each revision, the oldest revision whose code works with its tables.
compatible = Table(
    "noted_time_compatible",
    metadata,
    Column("revision", Name, primary_key=True),
    Column("oldest", Text, nullable=False),
)

secret = Table(
    "noted_time_secret",
    metadata,
    Column("name", Name, primary_key=True),
    Column("value", Text, nullable=False),
)
