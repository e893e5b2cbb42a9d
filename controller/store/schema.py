"""The tables of a controller's database, the same in every dialect, made from the records.

JSON is text, because a JSON type costs the server more.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    inspect,
)
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.types import TypeEngine

from controller.store.records import RECORD_KINDS, AppendedMark, Record, StoredMember, TokenRecord

SCHEMA_REVISION = "0007"

FIRST_REVISION = "0001b"
"""The oldest revision that can be migrated."""

VERSION_TABLE = "noted_time_version"
"""Alembic's, with the revision."""

_EARLIER_TABLE = "mark"
_EARLIER_COLUMNS = frozenset(("stream_id", "domain", "seq", "lower"))
"""Before the first release, names of tables had no prefix."""

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
    hint: Any = kind
    for name in path.split("."):
        hint = get_type_hints(hint)[name]
    is_nullable = NoneType in get_args(hint)
    types = get_args(hint) if is_nullable else (hint,)
    is_key = path in kind.key_fields
    column_type: type[TypeEngine[Any]] | TypeEngine[Any] = Text
    if bool in types:
        column_type = Boolean
    elif int in types:
        column_type = BigInteger
    elif is_key or path == "name":
        column_type = Name
    return Column(
        path.rpartition(".")[2],
        column_type,
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
    Column("renewed_at", BigInteger),
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


class ReflectedTables:
    """The tables of a database, read from the database itself."""

    def __init__(self, connection: Connection) -> None:
        """Read columns and primary keys, in 5 ms from SQLite and in 40 ms from PostgreSQL."""
        self._dialect = connection.dialect
        inspector = inspect(connection)
        names = [*metadata.tables, _EARLIER_TABLE]
        columns_by_table = inspector.get_multi_columns(filter_names=names)
        self._columns: dict[str, dict[str, ReflectedColumn]] = {}
        for (_, table), columns in columns_by_table.items():
            self._columns[table] = {column["name"]: column for column in columns}
        keys = inspector.get_multi_pk_constraint(filter_names=names)
        self._key_columns = {table: key["constrained_columns"] for (_, table), key in keys.items()}

    @property
    def names(self) -> list[str]:
        """This version's tables, as far as they exist."""
        return sorted(self._columns.keys() & metadata.tables.keys())

    @property
    def has_earlier_tables(self) -> bool:
        """Whether there are tables of before the first release."""
        return self._columns.get(_EARLIER_TABLE, {}).keys() >= _EARLIER_COLUMNS

    def find_differences(self) -> list[str]:
        """Return missing tables and columns, other types and keys, and columns that need a value.

        More tables and columns may exist.
        """
        differences = []
        for table in metadata.sorted_tables:
            columns = self._columns.get(table.name)
            if columns is None:
                differences.append(f"{table.name} is missing")
            else:
                differences += self._compare_columns(table, columns)
                differences += self._compare_keys(table)
        return differences

    def _compare_keys(self, table: Table) -> list[str]:
        """Return the difference of the primary key, in which the order does not matter."""
        expected_columns = table.primary_key.columns.keys()
        found_columns = self._key_columns[table.name]
        if set(found_columns) == set(expected_columns):
            return []
        found_key = f"the primary key ({', '.join(found_columns)})"
        if not found_columns:
            found_key = "no primary key"
        return [f"{table.name} has {found_key}, not ({', '.join(expected_columns)})"]

    def _compare_columns(self, table: Table, columns: Mapping[str, ReflectedColumn]) -> list[str]:
        differences = []
        for column in table.columns:
            reflected_column = columns.get(column.name)
            if reflected_column is None:
                differences.append(f"{table.name} has no column {column.name}")
                continue
            expected_type = column.type.compile(self._dialect)
            found_type = reflected_column["type"].compile(self._dialect)
            if found_type != expected_type:
                differences.append(
                    f"{table.name}.{column.name} is {found_type}, not {expected_type}"
                )
        for name in columns.keys() - table.columns.keys():
            if not columns[name]["nullable"] and columns[name]["default"] is None:
                differences.append(f"{table.name}.{name} needs a value")
        return differences
