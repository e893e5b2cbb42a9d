"""Make room for the end of a stream: how it was sealed, and which marks are its last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no stream was sealed so far."""
    op.add_column("stream", sa.Column("seal", sa.Text(), nullable=True))
    op.add_column(
        "mark",
        sa.Column("final", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
