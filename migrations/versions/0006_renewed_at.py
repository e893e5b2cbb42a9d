"""Add the time of the last renewal to the controllers of a database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

oldest_code = "0005"


def upgrade() -> None:
    op.add_column("noted_time_replica", sa.Column("renewed_at", sa.BigInteger))
