"""Make room for the backlog of reader groups, and for what a reader says of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of backlogs and add the column of readers."""
    op.add_column("reader", sa.Column("backlog", sa.Boolean(), nullable=True))
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "backlog",
        sa.Column("stream_id", name, nullable=False),
        sa.Column("reader_group", name, nullable=False),
        sa.Column("policy", sa.Text(), nullable=True),
        sa.Column("backlog", sa.Boolean(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=True),
        sa.Column("caught_up", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"],
            ["stream.id"],
            name=op.f("fk_backlog_stream_id_stream"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("stream_id", "reader_group", name=op.f("pk_backlog")),
        sqlite_with_rowid=False,
    )
