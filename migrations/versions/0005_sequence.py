"""Remember the order of each writer's requests, so that an old one is known when it comes late."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of a writer that is there, no request had a number."""
    op.add_column(
        "member",
        sa.Column("sequence", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
    )
