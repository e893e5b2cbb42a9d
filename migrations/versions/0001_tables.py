"""Create the tables, and say which code works with them.

Each migration says in `oldest_code` from which revision on code works with the tables that it leads
to; `migrations/env.py` writes that into `compatible`. An expansion keeps what the migration before
it says: it adds tables, and columns that may be null or have a default of the server. A migration
after which code of the revision before would fail names itself.
"""

from __future__ import annotations

import secrets
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

oldest_code = "0001"

BUCKETS_WHEN_SHARED = 64
"""A database in a file has one bucket, as it has one controller."""

SECRET_BYTES = 32

# PostgreSQL would order names by its locale otherwise
name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create every table, the buckets with their service clocks at 0, and the secret."""
    _service()
    _tokens()
    _streams()
    _marks()
    _readers()
    _past()


def _of_streams(table: str, *columns: sa.Column[Any], **more: Any) -> None:  # noqa: ANN401
    """Create a table whose rows are deleted with their stream, the first column of its key."""
    of_stream = sa.ForeignKey("stream.id", ondelete="CASCADE")
    stream_id = sa.Column("stream_id", name, of_stream, primary_key=True)
    op.create_table(table, stream_id, *columns, sqlite_with_rowid=False, **more)


def _key(column: str, kind: Any = name) -> sa.Column[Any]:  # noqa: ANN401 - a type
    return sa.Column(column, kind, primary_key=True, autoincrement=False)


def _given(kind: Any, *columns: str) -> list[sa.Column[Any]]:  # noqa: ANN401 - a type
    """Return columns of that type that are never null."""
    return [sa.Column(each, kind, nullable=False) for each in columns]


def _service() -> None:
    bucket = op.create_table(
        "bucket", _key("number", sa.Integer), *_given(sa.BigInteger, "service_ms")
    )
    is_shared = op.get_bind().dialect.name == "postgresql"
    numbers = range(BUCKETS_WHEN_SHARED if is_shared else 1)
    op.bulk_insert(bucket, [{"number": number, "service_ms": 0} for number in numbers])
    secret = op.create_table("secret", _key("name"), *_given(sa.Text, "value"))
    value = secrets.token_urlsafe(SECRET_BYTES)
    op.bulk_insert(secret, [{"name": "replicas", "value": value}])
    op.create_table("compatible", _key("revision"), *_given(sa.Text, "oldest"))
    op.create_table(
        "replica",
        _key("pid", sa.Integer),
        *_given(sa.Text, "url"),
        sa.Column("version", sa.Text),
        *_given(sa.Text, "revision"),
        *_given(sa.BigInteger, "since"),
    )


def _tokens() -> None:
    op.create_table(
        "token",
        sa.Column("id", sa.Text, primary_key=True),
        *_given(sa.Text, "digest", "scopes", "label"),
        *_given(sa.BigInteger, "created_at"),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
    )


def _streams() -> None:
    op.create_table(
        "stream",
        sa.Column("id", name, primary_key=True),
        *_given(name, "name"),
        *_given(sa.Text, "record"),
        sa.UniqueConstraint("name"),
    )
    _of_streams("scale", _key("seq", sa.BigInteger), *_given(sa.Text, "record"))
    _of_streams(
        "member",
        _key("writer"),
        *_given(sa.Text, "state", "position", "times", "max_times"),
        *_given(sa.BigInteger, "noted_at", "since", "sequence"),
        sa.Column("heard_at", sa.BigInteger),
        sa.Column("others", sa.Text),
        postgresql_with={"fillfactor": 50},
    )


def _marks() -> None:
    _of_streams(
        "mark",
        _key("domain"),
        _key("seq", sa.BigInteger),
        *_given(sa.BigInteger, "lower", "upper"),
        *_given(sa.Text, "cut"),
        *_given(sa.BigInteger, "written_at"),
        *_given(sa.Text, "excluded"),
        *_given(sa.BigInteger, "appended_at"),
        *_given(sa.Boolean, "upper_is_bound", "final", "whole"),
    )


def _readers() -> None:
    _of_streams("reader", _key("reader_group"), _key("reader"), *_given(sa.Text, "record"))
    _of_streams("backlog", _key("reader_group"), *_given(sa.Text, "record"))


def _past() -> None:
    """Create what is kept of the past: the ledger, late rows, and operators' changes."""
    hours = ("least_hour", "most_hour", "seen_hour")
    late = [_key("domain"), _key("writer"), *(_key(each, sa.BigInteger) for each in hours)]
    _of_streams("late", *late, *_given(sa.Text, "record"))
    for table, key in (
        ("ledger", [_key("domain"), _key("seq", sa.BigInteger)]),
        ("change", [_key("number", sa.BigInteger)]),
    ):
        _of_streams(table, *key, *_given(sa.BigInteger, "at"), *_given(sa.Text, "record"))
