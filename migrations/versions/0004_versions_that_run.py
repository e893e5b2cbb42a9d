"""Record which version each controller runs, and since when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

oldest_code = "0003"


def upgrade() -> None:
    """Add columns to the controllers, which those of revision 0003 leave empty."""
    op.add_column("replica", sa.Column("version", sa.Text))
    op.add_column("replica", sa.Column("revision", sa.Text))
    op.add_column("replica", sa.Column("since", sa.BigInteger))
