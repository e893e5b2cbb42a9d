"""Take the words of the contract, and make room for what it says of members, marks and readers.

`key` becomes `domain`, `left` becomes `finished`, and a member that was left out had timed out. A
member may have terms of its own and late rows; a mark says whether its upper is a bound; a reader
when it reported last; and the ledger names each mark that went on without a writer.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

DAY_MS = "86400000"


def upgrade() -> None:
    """Rename and add columns, and make the ledger."""
    op.execute("ALTER TABLE stream RENAME COLUMN keys TO domains")
    op.execute("ALTER TABLE mark RENAME COLUMN key TO domain")
    op.execute("ALTER TABLE mark RENAME COLUMN left_out TO excluded")
    _add("stream", "expected_writers", sa.Text(), sa.text("'[]'"))
    _add("stream", "reader_timeout_ms", sa.BigInteger(), sa.text(DAY_MS))
    _add("mark", "upper_is_bound", sa.Boolean(), sa.false())
    _add("reader", "reported_at", sa.BigInteger(), sa.text("0"))
    _alter_members()
    _make_ledger()


def _add(
    table: str, name: str, kind: sa.types.TypeEngine[Any], default: sa.TextClause | sa.False_
) -> None:
    column = sa.Column(name, kind, server_default=default, nullable=False)
    op.add_column(table, column)


def _alter_members() -> None:
    op.add_column("member", sa.Column("excluded", sa.Text(), nullable=True))
    op.add_column("member", sa.Column("terms", sa.Text(), nullable=True))
    op.add_column("member", sa.Column("late", sa.Text(), nullable=True))
    op.execute("UPDATE member SET excluded = 'timed_out' WHERE left_out")
    op.execute("UPDATE member SET state = 'finished' WHERE state = 'left'")
    op.drop_column("member", "left_out")


def _make_ledger() -> None:
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "ledger",
        sa.Column("stream_id", name, nullable=False),
        sa.Column("domain", name, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("from_lower", sa.BigInteger(), nullable=True),
        sa.Column("to_lower", sa.BigInteger(), nullable=False),
        sa.Column("writers", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["stream_id"],
            ["stream.id"],
            name=op.f("fk_ledger_stream_id_stream"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("stream_id", "domain", "seq", name=op.f("pk_ledger")),
        sqlite_with_rowid=False,
    )
