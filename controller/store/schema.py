"""The tables of a controller's database, the same in every dialect.

A row is a value of the port as compact JSON text, behind the columns by which it is found: no
dialect's own JSON type, which costs the server more than it gives here. The port documents what the
values hold. Fields may be added with a default; that too takes a revision, for older controllers
drop them. Controllers of the next and of the former version run beside these, so a revision says
which code works with it: see the migration 0001.
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

REVISION = "0001"
"""The migration that leads to these tables; revisions are numbered in their order."""

# SQLite alters a table by copying it, which only keeps constraints that have names.
metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# In the order of code points, as SQLite has it anyway; PostgreSQL would ask its locale.
Name = Text().with_variant(Text(collation="C"), "postgresql")


def _key(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]] = Name) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _given(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Return columns of that type that are never null."""
    return [Column(name, kind, nullable=False) for name in names]


def _record() -> Column[str]:
    """Return the last column of a table: the value of the port, as JSON."""
    return Column("record", Text, nullable=False)


def _of_streams(name: str, *columns: Column[Any], **more: Any) -> Table:  # noqa: ANN401 - as a table's
    """Return a table whose rows have a stream, with which they are deleted."""
    stream_id = ForeignKey("stream.id", ondelete="CASCADE")
    key = Column("stream_id", Name, stream_id, primary_key=True)
    return Table(name, metadata, key, *columns, sqlite_with_rowid=False, **more)


# One row for each bucket, created by the migration.
bucket = Table("bucket", metadata, _key("number", Integer), *_given(BigInteger, "service_ms"))

# The controllers on a shared database, by the process of the server that serves their session.
# The version is null if noted-time is not installed there.
replica = Table(
    "replica",
    metadata,
    _key("pid", Integer),
    *_given(Text, "url"),
    Column("version", Text),
    *_given(Text, "revision"),
    *_given(BigInteger, "since"),
)

# For each revision, the oldest one whose code works with its tables.
compatible = Table("compatible", metadata, _key("revision"), *_given(Text, "oldest"))

# What the controllers of the database share and nobody else knows, created by the migration.
secret = Table("secret", metadata, _key("name"), *_given(Text, "value"))

stream = Table(
    "stream",
    metadata,
    _key("id"),
    Column("name", Name, nullable=False),
    _record(),
    UniqueConstraint("name"),
)

scale = _of_streams("scale", _key("seq", BigInteger), _record())

member = _of_streams(
    "member",
    _key("writer"),
    *_given(Text, "state", "position", "times", "max_times"),
    *_given(BigInteger, "noted_at", "since", "sequence"),
    Column("heard_at", BigInteger),
    Column("others", Text),  # the fields that few notes change, if they have any value
    postgresql_with={"fillfactor": 50},  # updates of a member find room on its page
)

# Of `cut` the offsets that moved since the mark before, or all of them if it is `whole`.
mark = _of_streams(
    "mark",
    _key("domain"),
    _key("seq", BigInteger),
    *_given(BigInteger, "lower", "upper"),
    *_given(Text, "cut"),
    *_given(BigInteger, "written_at"),
    *_given(Text, "excluded"),
    *_given(BigInteger, "appended_at"),
    *_given(Boolean, "upper_is_bound", "final", "whole"),
)

reader = _of_streams("reader", _key("reader_group"), _key("reader"), _record())

# When a reader group has a backlog, and whether it had one when that was last looked at.
backlog = _of_streams("backlog", _key("reader_group"), _record())

# Each mark that advanced without a writer, and each that learned of rows below the lower.
_at = partial(_given, BigInteger, "at")
ledger = _of_streams("ledger", _key("domain"), _key("seq", BigInteger), *_at(), _record())

# Rows written below the lower, by writer and by the hours of their times and of their reports.
late = _of_streams(
    "late",
    _key("domain"),
    _key("writer"),
    _key("least_hour", BigInteger),
    _key("most_hour", BigInteger),
    _key("seen_hour", BigInteger),
    _record(),
)

# What operators changed; numbers rise by one in each stream.
change = _of_streams("change", _key("number", BigInteger), *_at(), _record())

token = Table(
    "token",
    metadata,
    Column("id", Text, primary_key=True),
    *_given(Text, "digest", "scopes", "label"),
    *_given(BigInteger, "created_at"),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)
