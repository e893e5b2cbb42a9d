"""Create the tables, and record which code works with them.

The `oldest_code` of a migration is the oldest revision whose code works with the migrated tables.
`migrations/env.py` writes it to the table `noted_time_compatible`.

A migration that only adds tables, or columns that are nullable or have a server default, keeps the
`oldest_code` of the previous migration. If older code would fail, the migration sets its own
revision.
"""

from __future__ import annotations

import secrets
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001b"
down_revision = None
branch_labels = None
depends_on = None

oldest_code = "0001b"

BUCKETS_WHEN_SHARED = 64
"""A file has one bucket, because it has one controller."""

SECRET_BYTES = 32

# by default PostgreSQL sorts names by its locale
name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    _create_service()
    _create_tokens()
    _create_streams()
    _create_marks()
    _create_readers()
    _create_history()


def _create_stream_table(table: str, *columns: sa.Column[Any], **more: Any) -> None:  # noqa: ANN401
    of_stream = sa.ForeignKey("noted_time_stream.id", ondelete="CASCADE")
    stream_id = sa.Column("stream_id", name, of_stream, primary_key=True)
    op.create_table(table, stream_id, *columns, sqlite_with_rowid=False, **more)


def _key(column: str, kind: Any = name) -> sa.Column[Any]:  # noqa: ANN401 - a type
    return sa.Column(column, kind, primary_key=True, autoincrement=False)


def _not_null(kind: Any, *columns: str) -> list[sa.Column[Any]]:  # noqa: ANN401 - a type
    return [sa.Column(column, kind, nullable=False) for column in columns]


def _crc() -> sa.Column[Any]:
    return sa.Column("crc", sa.BigInteger)


def _create_service() -> None:
    bucket = op.create_table(
        "noted_time_bucket", _key("number", sa.BigInteger), *_not_null(sa.BigInteger, "served_ms")
    )
    is_shared = op.get_bind().dialect.name == "postgresql"
    numbers = range(BUCKETS_WHEN_SHARED if is_shared else 1)
    op.bulk_insert(bucket, [{"number": number, "served_ms": 0} for number in numbers])
    secret = op.create_table("noted_time_secret", _key("name"), *_not_null(sa.Text, "value"))
    value = secrets.token_urlsafe(SECRET_BYTES)
    op.bulk_insert(secret, [{"name": "replicas", "value": value}])
    op.create_table("noted_time_compatible", _key("revision"), *_not_null(sa.Text, "oldest"))
    op.create_table(
        "noted_time_replica",
        _key("pid", sa.Integer),
        *_not_null(sa.Text, "url"),
        sa.Column("version", sa.Text),
        *_not_null(sa.Text, "revision"),
        *_not_null(sa.BigInteger, "connected_at"),
    )


def _create_tokens() -> None:
    op.create_table(
        "noted_time_token",
        _key("id"),
        *_not_null(sa.Text, "digest", "scopes", "label"),
        *_not_null(sa.BigInteger, "created_at"),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
    )


def _create_streams() -> None:
    op.create_table(
        "noted_time_stream",
        sa.Column("id", name, primary_key=True),
        *_not_null(name, "name"),
        *_not_null(sa.Text, "record"),
        _crc(),
        sa.UniqueConstraint("name"),
    )
    _create_stream_table(
        "noted_time_scale", _key("seq", sa.BigInteger), *_not_null(sa.Text, "record"), _crc()
    )
    _create_stream_table(
        "noted_time_member",
        _key("writer"),
        *_not_null(sa.Text, "state", "position", "times", "max_times"),
        *_not_null(sa.BigInteger, "noted_served_ms", "changed_served_ms", "sequence"),
        sa.Column("heard_at", sa.BigInteger),
        sa.Column("others", sa.Text),
        _crc(),
        postgresql_with={"fillfactor": 50},
    )
    _create_stream_table(
        "noted_time_timeline", _key("domain"), _key("writer"), *_not_null(sa.Text, "record"), _crc()
    )


def _create_marks() -> None:
    _create_stream_table(
        "noted_time_mark",
        _key("domain"),
        _key("seq", sa.BigInteger),
        *_not_null(sa.BigInteger, "lower", "upper"),
        *_not_null(sa.Text, "cut"),
        *_not_null(sa.BigInteger, "written_at"),
        *_not_null(sa.Text, "excluded"),
        *_not_null(sa.BigInteger, "appended_served_ms"),
        sa.Column("last_writer", sa.Text),
        *_not_null(sa.Boolean, "upper_is_bound", "final", "whole"),
        _crc(),
    )


def _create_readers() -> None:
    _create_stream_table(
        "noted_time_reader", _key("group"), _key("reader"), *_not_null(sa.Text, "record")
    )
    _create_stream_table("noted_time_backlog", _key("group"), *_not_null(sa.Text, "record"))


def _create_history() -> None:
    hours = ("min_time_hour", "max_time_hour", "seen_hour")
    late_columns = [_key("domain"), _key("writer"), *(_key(hour, sa.BigInteger) for hour in hours)]
    _create_stream_table("noted_time_late", *late_columns, *_not_null(sa.Text, "record"))
    _create_stream_table(
        "noted_time_ledger",
        _key("domain"),
        _key("seq", sa.BigInteger),
        *_not_null(sa.BigInteger, "appended_served_ms"),
        *_not_null(sa.Text, "record"),
    )
    _create_stream_table(
        "noted_time_change",
        _key("number", sa.BigInteger),
        *_not_null(sa.BigInteger, "changed_served_ms"),
        *_not_null(sa.Text, "record"),
    )
