"""What of the posted notes is found in a database, asked past the controller."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from pathlib import Path

SQLITE = "sqlite:///"

_OFFSETS = (
    "SELECT sum({offset}) FROM stream JOIN member ON member.stream_id = stream.id, {offsets}"
    " WHERE stream.name = {stream}"
)
_MARKS = (
    "SELECT count(*) FROM stream JOIN mark ON mark.stream_id = stream.id"
    " WHERE stream.name = {stream}"
)
_WORDS = {
    True: {
        "offset": "offsets.value",
        "offsets": "json_each(member.position) AS offsets",
        "stream": "?",
    },
    False: {
        "offset": "offsets.value::bigint",
        "offsets": "json_each_text(member.position::json) AS offsets",
        "stream": "%s",
    },
}
"""How SQLite and PostgreSQL say it."""


def sqlite_url(file: Path) -> str:
    """Return the URL of a database in a file."""
    return f"{SQLITE}{file}"


def offsets_stored(database: str, stream: str) -> int:
    """Return the sum of all members' offsets in the database at that URL."""
    return _number(database, _OFFSETS, stream)


def marks_stored(database: str, stream: str) -> int:
    """Return how many marks of the stream the database at that URL holds."""
    return _number(database, _MARKS, stream)


def _number(database: str, question: str, stream: str) -> int:
    in_a_file = database.startswith(SQLITE)
    rows = _asked(database, question.format(**_WORDS[in_a_file]), stream, in_a_file=in_a_file)
    return int(rows[0][0] or 0)


def _asked(database: str, statement: str, stream: str, *, in_a_file: bool) -> list[Any]:
    if in_a_file:
        with closing(sqlite3.connect(database.removeprefix(SQLITE))) as connection:
            return connection.execute(statement, (stream,)).fetchall()
    with psycopg.connect(database, autocommit=True) as session:
        return session.execute(statement.encode(), (stream,)).fetchall()
