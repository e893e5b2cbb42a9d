"""Create the tables as version 0.1.0 has them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BUCKETS_WHEN_SHARED = 64
"""A database in a file has one bucket, as it has one controller."""

# PostgreSQL would order names by its locale otherwise
name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create every table, and the buckets with their service clocks at 0."""
    _service()
    _streams()
    _marks()
    _readers()
    _past()


def _of_a_stream() -> sa.Column[str]:
    """Return the first column of a table whose rows are deleted with their stream."""
    stream_id = sa.ForeignKey("stream.id", ondelete="CASCADE")
    return sa.Column("stream_id", name, stream_id, primary_key=True)


def _record() -> sa.Column[str]:
    return sa.Column("record", sa.Text, nullable=False)


def _service() -> None:
    bucket = op.create_table(
        "bucket",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("service_ms", sa.BigInteger, nullable=False),
    )
    is_shared = op.get_bind().dialect.name == "postgresql"
    numbers = range(BUCKETS_WHEN_SHARED if is_shared else 1)
    op.bulk_insert(bucket, [{"number": number, "service_ms": 0} for number in numbers])
    op.create_table(
        "replica",
        sa.Column("pid", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("url", sa.Text, nullable=False),
    )
    op.create_table(
        "token",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
    )


def _streams() -> None:
    op.create_table(
        "stream",
        sa.Column("id", name, primary_key=True),
        sa.Column("name", name, nullable=False),
        _record(),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "scale",
        _of_a_stream(),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        _record(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "member",
        _of_a_stream(),
        sa.Column("writer", name, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("position", sa.Text, nullable=False),
        sa.Column("times", sa.Text, nullable=False),
        sa.Column("max_times", sa.Text, nullable=False),
        sa.Column("noted_at", sa.BigInteger, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("heard_at", sa.BigInteger),
        sa.Column("others", sa.Text),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 50},
    )


def _marks() -> None:
    op.create_table(
        "mark",
        _of_a_stream(),
        sa.Column("domain", name, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("lower", sa.BigInteger, nullable=False),
        sa.Column("upper", sa.BigInteger, nullable=False),
        sa.Column("cut", sa.Text, nullable=False),
        sa.Column("written_at", sa.BigInteger, nullable=False),
        sa.Column("excluded", sa.Text, nullable=False),
        sa.Column("appended_at", sa.BigInteger, nullable=False),
        sa.Column("upper_is_bound", sa.Boolean, nullable=False),
        sa.Column("final", sa.Boolean, nullable=False),
        sa.Column("whole", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )


def _readers() -> None:
    op.create_table(
        "reader",
        _of_a_stream(),
        sa.Column("reader_group", name, primary_key=True),
        sa.Column("reader", name, primary_key=True),
        _record(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "backlog",
        _of_a_stream(),
        sa.Column("reader_group", name, primary_key=True),
        _record(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "alignment",
        sa.Column("name", name, primary_key=True),
        _record(),
        sqlite_with_rowid=False,
    )


def _past() -> None:
    """Create what is kept of the past: marks that excluded writers, and operators' changes."""
    op.create_table(
        "ledger",
        _of_a_stream(),
        sa.Column("domain", name, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        _record(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "change",
        _of_a_stream(),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        _record(),
        sqlite_with_rowid=False,
    )
