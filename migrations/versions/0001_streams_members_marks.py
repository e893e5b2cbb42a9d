"""Make the tables: streams with their scale events, members, marks and readers; the clock."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# PostgreSQL would order names by its locale otherwise
name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make every table, and the one row of the service clock."""
    _service_clock()
    _stream()
    _scale()
    _member()
    _mark()
    _reader()


def _service_clock() -> None:
    clock = op.create_table(
        "service_clock",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("service_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_service_clock_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service_clock")),
    )
    op.bulk_insert(clock, [{"id": 1, "service_ms": 0}])


def _stream() -> None:
    op.create_table(
        "stream",
        sa.Column("id", name, nullable=False),
        sa.Column("name", name, nullable=False),
        sa.Column("writer_timeout_ms", sa.BigInteger(), nullable=False),
        sa.Column("mark_interval_ms", sa.BigInteger(), nullable=False),
        sa.Column("returning_writer", sa.Text(), nullable=False),
        sa.Column("keys", sa.Text(), nullable=False),
        sa.Column("mark_retention_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stream")),
        sa.UniqueConstraint("name", name=op.f("uq_stream_name")),
    )


def _scale() -> None:
    op.create_table(
        "scale",
        sa.Column("stream_id", name, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("created", sa.Text(), nullable=False),
        _goes_with_its_stream("scale"),
        sa.PrimaryKeyConstraint("stream_id", "seq", name=op.f("pk_scale")),
        sqlite_with_rowid=False,
    )


def _member() -> None:
    op.create_table(
        "member",
        sa.Column("stream_id", name, nullable=False),
        sa.Column("writer", name, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("left_out", sa.Boolean(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("times", sa.Text(), nullable=False),
        sa.Column("max_times", sa.Text(), nullable=False),
        sa.Column("noted_at", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        _goes_with_its_stream("member"),
        sa.PrimaryKeyConstraint("stream_id", "writer", name=op.f("pk_member")),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 50},
    )


def _mark() -> None:
    op.create_table(
        "mark",
        sa.Column("stream_id", name, nullable=False),
        sa.Column("key", name, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("lower", sa.BigInteger(), nullable=False),
        sa.Column("upper", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.Text(), nullable=False),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.Column("left_out", sa.Text(), nullable=False),
        sa.Column("appended_at", sa.BigInteger(), nullable=False),
        _goes_with_its_stream("mark"),
        sa.PrimaryKeyConstraint("stream_id", "key", "seq", name=op.f("pk_mark")),
        sqlite_with_rowid=False,
    )


def _reader() -> None:
    op.create_table(
        "reader",
        sa.Column("stream_id", name, nullable=False),
        sa.Column("reader_group", name, nullable=False),
        sa.Column("reader", name, nullable=False),
        sa.Column("online", sa.Boolean(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False),
        _goes_with_its_stream("reader"),
        sa.PrimaryKeyConstraint("stream_id", "reader_group", "reader", name=op.f("pk_reader")),
        sqlite_with_rowid=False,
    )


def _goes_with_its_stream(table: str) -> sa.ForeignKeyConstraint:
    constraint = op.f(f"fk_{table}_stream_id_stream")
    return sa.ForeignKeyConstraint(
        ["stream_id"], ["stream.id"], name=constraint, ondelete="CASCADE"
    )
