"""Add what bounds a stream: how far ahead time may be, and how long writers are remembered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

DAY_MS = "86400000"


def upgrade() -> None:
    """Add the columns; a stream that is there takes the defaults."""
    op.add_column("stream", sa.Column("max_time_ahead_ms", sa.BigInteger(), nullable=True))
    op.add_column(
        "stream",
        sa.Column(
            "writer_retention_ms",
            sa.BigInteger(),
            server_default=sa.text(DAY_MS),
            nullable=False,
        ),
    )
