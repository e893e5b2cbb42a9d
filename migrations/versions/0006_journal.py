"""Append what becomes of members, and write their rows later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table; the rows of members say all there is so far."""
    op.create_table(
        "journal",
        sa.Column("stream_id", NAME, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("stream_id", "seq", name=op.f("pk_journal")),
        sqlite_with_rowid=False,
        postgresql_with={"toast_tuple_target": 8160},
    )
    if op.get_bind().dialect.name == "postgresql":
        # to compress entries takes longer than to write them
        op.execute("ALTER TABLE journal ALTER COLUMN body SET STORAGE EXTERNAL")
