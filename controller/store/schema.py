"""The tables of a controller's database, the same in every dialect.

A row has key columns, and a value as compact JSON text, because a JSON type costs the server more.

A new field needs a default and a revision, because older controllers drop unknown fields (see
migration 0001).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

SCHEMA_REVISION = "0001"

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


def _key_column(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]] = Name) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _not_null_columns(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _record_column() -> Column[str]:
    return Column("record", Text, nullable=False)


def _crc_column() -> Column[int]:
    """Return the column of a row's CRC-32, for databases without checksums."""
    return Column("crc", BigInteger)


def _stream_table(name: str, *columns: Column[Any], **more: Any) -> Table:  # noqa: ANN401 - as in Table
    stream_id = ForeignKey("noted_time_stream.id", ondelete="CASCADE")
    key = Column("stream_id", Name, stream_id, primary_key=True)
    return Table(name, metadata, key, *columns, sqlite_with_rowid=False, **more)


bucket = Table(
    "noted_time_bucket",
    metadata,
    _key_column("number", Integer),
    *_not_null_columns(BigInteger, "service_ms"),
)

replica = Table(
    "noted_time_replica",
    metadata,
    _key_column("pid", Integer),
    *_not_null_columns(Text, "url"),
    Column("version", Text),
    *_not_null_columns(Text, "revision"),
    *_not_null_columns(BigInteger, "since"),
)

# For each revision, the oldest revision whose code works with its tables.
compatible = Table(
    "noted_time_compatible", metadata, _key_column("revision"), *_not_null_columns(Text, "oldest")
)

secret = Table(
    "noted_time_secret", metadata, _key_column("name"), *_not_null_columns(Text, "value")
)

stream = Table(
    "noted_time_stream",
    metadata,
    _key_column("id"),
    Column("name", Name, nullable=False),
    _record_column(),
    _crc_column(),
    UniqueConstraint("name"),
)

scale = _stream_table(
    "noted_time_scale", _key_column("seq", BigInteger), _record_column(), _crc_column()
)

member = _stream_table(
    "noted_time_member",
    _key_column("writer"),
    *_not_null_columns(Text, "state", "position", "times", "max_times"),
    *_not_null_columns(BigInteger, "noted_at", "since", "sequence"),
    Column("heard_at", BigInteger),
    Column("others", Text),  # rare fields, or null if all have their defaults
    _crc_column(),
    postgresql_with={"fillfactor": 50},  # leaves room for updates
)

mark = _stream_table(
    "noted_time_mark",
    _key_column("domain"),
    _key_column("seq", BigInteger),
    *_not_null_columns(BigInteger, "lower", "upper"),
    *_not_null_columns(Text, "cut"),
    *_not_null_columns(BigInteger, "written_at"),
    *_not_null_columns(Text, "excluded"),
    *_not_null_columns(BigInteger, "appended_at"),
    Column("last_writer", Text),
    *_not_null_columns(Boolean, "upper_is_bound", "final", "whole"),
    _crc_column(),
)

reader = _stream_table(
    "noted_time_reader", _key_column("reader_group"), _key_column("reader"), _record_column()
)

backlog = _stream_table("noted_time_backlog", _key_column("reader_group"), _record_column())

_served_at = partial(_not_null_columns, BigInteger, "served_at")  # on the service clock
ledger = _stream_table(
    "noted_time_ledger",
    _key_column("domain"),
    _key_column("seq", BigInteger),
    *_served_at(),
    _record_column(),
)

# Rows below the lower, by writer, and by the hours of their times and of their report.
late = _stream_table(
    "noted_time_late",
    _key_column("domain"),
    _key_column("writer"),
    _key_column("least_hour", BigInteger),
    _key_column("most_hour", BigInteger),
    _key_column("seen_hour", BigInteger),
    _record_column(),
)

change = _stream_table(
    "noted_time_change", _key_column("number", BigInteger), *_served_at(), _record_column()
)

token = Table(
    "noted_time_token",
    metadata,
    Column("id", Text, primary_key=True),
    *_not_null_columns(Text, "digest", "scopes", "label"),
    *_not_null_columns(BigInteger, "created_at"),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)
