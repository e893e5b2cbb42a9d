"""Make room for the record of what operators change by hand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of changes."""
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    texts = ("writer", "was", "became", "by", "comment")
    op.create_table(
        "change",
        sa.Column("stream_id", name, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        *(sa.Column(each, sa.Text(), nullable=True) for each in texts),
        sa.ForeignKeyConstraint(
            ["stream_id"],
            ["stream.id"],
            name=op.f("fk_change_stream_id_stream"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("stream_id", "number", name=op.f("pk_change")),
        sqlite_with_rowid=False,
    )
