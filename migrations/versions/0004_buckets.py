"""Share the streams out: buckets with a service clock each, and where each controller is found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SHARED = 64
"""The buckets of a shared database; one in a file has one, as it has one controller."""


def upgrade() -> None:
    """Make the tables; every bucket goes on at the service time of all."""
    op.create_table(
        "bucket",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("service_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_bucket")),
    )
    op.create_table(
        "replica",
        sa.Column("pid", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("pid", name=op.f("pk_replica")),
    )
    buckets = SHARED if op.get_bind().dialect.name == "postgresql" else 1
    for number in range(buckets):
        op.execute(f"INSERT INTO bucket SELECT {number}, service_ms FROM service_clock")  # noqa: S608 - a number of our own
    op.drop_table("service_clock")
