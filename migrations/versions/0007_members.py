"""Fold the journal of members into their rows, and drop it.

An entry is the JSON array `[forgotten, writers, records]` of one stream: the names of writers that
were forgotten, then the names and the records of writers that noted. The rows of forgotten writers
were deleted when their entry was written, so forgetting concerns earlier entries only. Entries of a
stream are folded in the order of their `seq`, a few at a time, so that a long journal needs no more
memory than a short one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ENTRIES_AT_A_TIME = 10

JOURNALED_STREAMS = sa.text("SELECT id FROM stream WHERE id IN (SELECT stream_id FROM journal)")
NEXT_ENTRIES = sa.text(
    "SELECT seq, body FROM journal WHERE stream_id = :stream_id AND seq > :after"
    " ORDER BY seq LIMIT :entries"
)
DELETE = sa.text("DELETE FROM member WHERE stream_id = :stream_id AND writer = :writer")

COLUMNS = (
    "writer",
    "state",
    "left_out",
    "position",
    "times",
    "max_times",
    "noted_at",
    "since",
    "sequence",
)
UPSERT = sa.text(
    f"INSERT INTO member (stream_id, {', '.join(COLUMNS)})"  # noqa: S608 - the names above
    f" VALUES (:stream_id, {', '.join(f':{name}' for name in COLUMNS)})"
    " ON CONFLICT (stream_id, writer) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
)


def upgrade() -> None:
    """Write what the journal says of the members of the streams that are there to their rows."""
    connection = op.get_bind()
    for stream_id in connection.scalars(JOURNALED_STREAMS).all():
        for bodies in _entries(connection, stream_id):
            _fold(connection, stream_id, bodies)
    op.drop_table("journal")


def _entries(connection: sa.Connection, stream_id: str) -> Iterator[list[str]]:
    """Yield the bodies of a stream's entries, a few at a time."""
    after = -1
    while True:
        asked = {"stream_id": stream_id, "after": after, "entries": ENTRIES_AT_A_TIME}
        found = connection.execute(NEXT_ENTRIES, asked).all()
        if not found:
            return
        after = found[-1].seq
        yield [entry.body for entry in found]


def _fold(connection: sa.Connection, stream_id: str, bodies: Sequence[str]) -> None:
    forgotten: dict[str, dict[str, str]] = {}
    rows: dict[str, dict[str, Any]] = {}
    for body in bodies:
        names, writers, records = json.loads(body)
        for writer in names:
            rows.pop(writer, None)
            forgotten[writer] = {"stream_id": stream_id, "writer": writer}
        for writer, record in zip(writers, records, strict=True):
            rows[writer] = {"stream_id": stream_id, **_row(record)}
    if forgotten:
        connection.execute(DELETE, list(forgotten.values()))
    if rows:
        connection.execute(UPSERT, list(rows.values()))


def _row(record: Sequence[Any]) -> dict[str, Any]:
    """Return the columns of a record, in which positions and times are compact JSON."""
    return {
        name: _compact(value) if isinstance(value, dict) else value
        for name, value in zip(COLUMNS, record, strict=True)
    }


def _compact(value: dict[str, int]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
