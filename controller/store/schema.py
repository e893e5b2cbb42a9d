"""The tables of a controller's database, the same in every dialect.

Positions, cuts and times are compact JSON text: one row per member however many segments it
touches, and no dialect's own JSON type, which costs the server more than it gives here. The port
documents what the tables hold.
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


# As many rows as there are buckets, made by the migration.
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
    Column("writer_timeout_ms", BigInteger, nullable=False),
    Column("mark_interval_ms", BigInteger, nullable=False),
    Column("returning_writer", Text, nullable=False),
    Column("domains", Text, nullable=False),
    Column("mark_retention_ms", BigInteger, nullable=False),
    Column("max_time_ahead_ms", BigInteger),
    Column("writer_retention_ms", BigInteger, nullable=False),
    Column("expected_writers", Text, nullable=False),
    Column("reader_timeout_ms", BigInteger, nullable=False),
    Column("seal", Text),
    Column("max_segments", BigInteger, nullable=False),
    Column("max_offset_jump", BigInteger),
    Column("unbounded", Text, nullable=False),
    Column("ledger_from", Text),
    Column("corrections", Text, nullable=False),
    UniqueConstraint("name"),
)

scale = Table(
    "scale",
    metadata,
    _of_a_stream(),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("sealed", Text, nullable=False),
    Column("created", Text, nullable=False),
    sqlite_with_rowid=False,
)

member = Table(
    "member",
    metadata,
    _of_a_stream(),
    Column("writer", Name, primary_key=True),
    Column("state", Text, nullable=False),
    Column("excluded", Text),
    Column("position", Text, nullable=False),
    Column("times", Text, nullable=False),
    Column("max_times", Text, nullable=False),
    Column("noted_at", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("terms", Text),
    Column("late", Text),
    Column("session", Text),
    Column("heard_at", BigInteger),
    Column("exclusions", Text),
    Column("undeclared", Text),
    sqlite_with_rowid=False,
    postgresql_with={"fillfactor": 50},  # updates of a member find room on its page
)

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
    Column("online", Boolean, nullable=False),
    Column("position", Text, nullable=False),
    Column("reported_at", BigInteger, nullable=False),
    Column("backlog", Boolean),
    sqlite_with_rowid=False,
)

# When a reader group has a backlog, and whether it had one when that was last looked at.
backlog = Table(
    "backlog",
    metadata,
    _of_a_stream(),
    Column("reader_group", Name, primary_key=True),
    Column("policy", Text),
    Column("backlog", Boolean, nullable=False),
    Column("since", BigInteger),
    Column("caught_up", Text, nullable=False),
    sqlite_with_rowid=False,
)

# Each mark that went on without a writer, and each that learned of rows below the lower.
ledger = Table(
    "ledger",
    metadata,
    _of_a_stream(),
    Column("domain", Name, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("from_lower", BigInteger),
    Column("to_lower", BigInteger, nullable=False),
    Column("writers", Text, nullable=False),
    Column("by", Text),
    Column("returned", Text, nullable=False),
    sqlite_with_rowid=False,
)

# What was changed by hand, by whom and why; numbers rise by one in each stream.
change = Table(
    "change",
    metadata,
    _of_a_stream(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("action", Text, nullable=False),
    Column("writer", Text),
    Column("was", Text),
    Column("became", Text),
    Column("by", Text),
    Column("comment", Text),
    sqlite_with_rowid=False,
)

# Of an alignment its settings alone; its members report again.
alignment = Table(
    "alignment",
    metadata,
    Column("name", Name, primary_key=True),
    Column("max_drift", BigInteger, nullable=False),
    Column("member_timeout_ms", BigInteger, nullable=False),
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
