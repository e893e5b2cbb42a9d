"""Make room for what tells a healthy stream from one that only looks it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no writer has said so far by which process it notes."""
    op.add_column("member", sa.Column("session", sa.Text(), nullable=True))
    for name, default, nullable in (
        ("max_segments", "4096", False),
        ("max_offset_jump", "1000000000000", True),
    ):
        column = sa.Column(
            name, sa.BigInteger(), server_default=sa.text(default), nullable=nullable
        )
        op.add_column("stream", column)
    op.add_column("member", sa.Column("heard_at", sa.BigInteger(), nullable=True))
    op.add_column("member", sa.Column("exclusions", sa.Text(), nullable=True))
