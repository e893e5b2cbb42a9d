"""Make room for the settings of alignments."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of alignments."""
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "alignment",
        sa.Column("name", name, nullable=False),
        sa.Column("max_drift", sa.BigInteger(), nullable=False),
        sa.Column("member_timeout_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_alignment")),
        sqlite_with_rowid=False,
    )
