"""Keep the writers that one mark names in several rows, which older code would not read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

oldest_code = "0007"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "noted_time_ledger_part",
        sa.Column(
            "stream_id",
            NAME,
            sa.ForeignKey(
                "noted_time_stream.id",
                name="fk_noted_time_ledger_part_stream_id_noted_time_stream",
                ondelete="CASCADE",
            ),
            primary_key=True,
        ),
        sa.Column("domain", NAME, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("appended_served_ms", sa.BigInteger, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
