"""Record which older code works with the tables of a revision, so that versions run side by side.

Each migration from this one on says in `oldest_code` from which revision on code works with the
tables that it leads to. An expansion keeps what the migration before it says: it adds tables, and
columns that may be null or have a default of the server. A migration after which code of the
revision before would fail names itself.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

oldest_code = "0003"

# PostgreSQL would order names by its locale otherwise
name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table; `migrations/env.py` writes a row after each migration."""
    op.create_table(
        "compatible",
        sa.Column("revision", name, primary_key=True),
        sa.Column("oldest", sa.Text, nullable=False),
    )
