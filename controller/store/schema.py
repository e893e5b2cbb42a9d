"""The tables of a controller's database, the same in every dialect.

A row is a value of the port as compact JSON text, behind the columns by which it is found: no
dialect's own JSON type, which costs the server more than it gives here. The port documents what the
values hold. Fields may be added with a default; that too takes a revision, for older controllers
cannot know them.
"""

from __future__ import annotations

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


def _of_a_stream() -> Column[str]:
    """Return the first column of a table whose rows are deleted with their stream."""
    stream_id = ForeignKey("stream.id", ondelete="CASCADE")
    return Column("stream_id", Name, stream_id, primary_key=True)


def _record() -> Column[str]:
    """Return the last column of a table: the value of the port, as JSON."""
    return Column("record", Text, nullable=False)


# One row for each bucket, created by the migration.
bucket = Table(
    "bucket",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("service_ms", BigInteger, nullable=False),
)

# The controllers on a shared database, by the process of the server that serves their session.
replica = Table(
    "replica",
    metadata,
    Column("pid", Integer, primary_key=True, autoincrement=False),
    Column("url", Text, nullable=False),
)

stream = Table(
    "stream",
    metadata,
    Column("id", Name, primary_key=True),
    Column("name", Name, nullable=False),
    _record(),
    UniqueConstraint("name"),
)

scale = Table(
    "scale",
    metadata,
    _of_a_stream(),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _record(),
    sqlite_with_rowid=False,
)

member = Table(
    "member",
    metadata,
    _of_a_stream(),
    Column("writer", Name, primary_key=True),
    Column("state", Text, nullable=False),
    Column("position", Text, nullable=False),
    Column("times", Text, nullable=False),
    Column("max_times", Text, nullable=False),
    Column("noted_at", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("heard_at", BigInteger),
    Column("others", Text),  # the fields that few notes change, if they have any value
    sqlite_with_rowid=False,
    postgresql_with={"fillfactor": 50},  # updates of a member find room on its page
)

# Of `cut` the offsets that moved since the mark before, or all of them if it is `whole`.
mark = Table(
    "mark",
    metadata,
    _of_a_stream(),
    Column("domain", Name, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("lower", BigInteger, nullable=False),
    Column("upper", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
    Column("written_at", BigInteger, nullable=False),
    Column("excluded", Text, nullable=False),
    Column("appended_at", BigInteger, nullable=False),
    Column("upper_is_bound", Boolean, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("whole", Boolean, nullable=False),
    sqlite_with_rowid=False,
)

reader = Table(
    "reader",
    metadata,
    _of_a_stream(),
    Column("reader_group", Name, primary_key=True),
    Column("reader", Name, primary_key=True),
    _record(),
    sqlite_with_rowid=False,
)

# When a reader group has a backlog, and whether it had one when that was last looked at.
backlog = Table(
    "backlog",
    metadata,
    _of_a_stream(),
    Column("reader_group", Name, primary_key=True),
    _record(),
    sqlite_with_rowid=False,
)

# Each mark that advanced without a writer, and each that learned of rows below the lower.
ledger = Table(
    "ledger",
    metadata,
    _of_a_stream(),
    Column("domain", Name, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    _record(),
    sqlite_with_rowid=False,
)

# What operators changed; numbers rise by one in each stream.
change = Table(
    "change",
    metadata,
    _of_a_stream(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    _record(),
    sqlite_with_rowid=False,
)

# Of an alignment its settings alone; its members report again.
alignment = Table(
    "alignment",
    metadata,
    Column("name", Name, primary_key=True),
    _record(),
    sqlite_with_rowid=False,
)

token = Table(
    "token",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)
