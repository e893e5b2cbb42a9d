"""Make room for what tells a healthy stream from one that only looks it."""

from __future__ import annotations

import json
from itertools import groupby
from operator import itemgetter

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no writer has said so far by which process it notes."""
    op.add_column("member", sa.Column("session", sa.Text(), nullable=True))
    for name, default, nullable in (
        ("max_segments", "4096", False),
        ("max_offset_jump", "1000000000000", True),
    ):
        column = sa.Column(
            name, sa.BigInteger(), server_default=sa.text(default), nullable=nullable
        )
        op.add_column("stream", column)
    op.add_column("member", sa.Column("heard_at", sa.BigInteger(), nullable=True))
    op.add_column("member", sa.Column("exclusions", sa.Text(), nullable=True))
    op.add_column("stream", sa.Column("ledger_from", sa.Text(), nullable=True))
    returned = sa.Column("returned", sa.Text(), server_default=sa.text("'[]'"), nullable=False)
    op.add_column("ledger", returned)
    _add_bounds()
    corrections = sa.Column(
        "corrections", sa.Text(), server_default=sa.text("'[]'"), nullable=False
    )
    op.add_column("stream", corrections)
    # up to now the row of each mark has the whole cut
    op.add_column(
        "mark", sa.Column("whole", sa.Boolean(), server_default=sa.true(), nullable=False)
    )


def _add_bounds() -> None:
    """Where the last upper is no bound, none that follows is: who wrote it may be forgotten."""
    op.add_column("member", sa.Column("undeclared", sa.Text(), nullable=True))
    domains = sa.Column("unbounded", sa.Text(), server_default=sa.text("'[]'"), nullable=False)
    op.add_column("stream", domains)
    connection = op.get_bind()
    lasts = connection.execute(
        sa.text(
            "SELECT stream_id, domain FROM mark WHERE NOT upper_is_bound AND NOT EXISTS ("
            "SELECT 1 FROM mark later WHERE later.stream_id = mark.stream_id "
            "AND later.domain = mark.domain AND later.seq > mark.seq) ORDER BY stream_id, domain"
        )
    ).all()
    for stream_id, rows in groupby(lasts, itemgetter(0)):
        connection.execute(
            sa.text("UPDATE stream SET unbounded = :domains WHERE id = :stream_id"),
            {"domains": json.dumps([domain for _, domain in rows]), "stream_id": stream_id},
        )
