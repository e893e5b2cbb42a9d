"""Change the tables of version 0.1.0 to those of the next version."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# PostgreSQL would order names by its locale otherwise
name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

SECRET_BYTES = 32


def upgrade() -> None:
    """Make each change."""
    _secret()


def _secret() -> None:
    """Create the secret by which the controllers of the database know each other."""
    secret = op.create_table(
        "secret",
        sa.Column("name", name, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    value = secrets.token_urlsafe(SECRET_BYTES)
    op.bulk_insert(secret, [{"name": "replicas", "value": value}])
