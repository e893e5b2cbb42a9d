"""Add the release of zone data to the controllers of a database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

oldest_code = "0003"


def upgrade() -> None:
    op.add_column("noted_time_replica", sa.Column("zone_data", sa.Text))
