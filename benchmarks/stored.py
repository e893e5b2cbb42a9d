"""Reads posted notes from a database, without the controller."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from controller.store.postgres import create_postgres_engine, is_postgres
from controller.store.reading import SqlReading
from controller.store.records import StoredMember
from controller.store.rows import encode_members
from controller.store.sqlite import BUSY_MS, create_sqlite_engine, parse_file

if TYPE_CHECKING:
    from pathlib import Path

    from controller.store.records import StreamRecord
    from controller.store.rows import Values
    from noted_time.rules import MemberRecord


def sqlite_url(file: Path) -> str:
    return f"sqlite:///{file}"


def offsets_stored(database: str, stream: str) -> int:
    """Return the sum of all members' offsets."""
    return sum(sum(record.position.values()) for record in _members(database, stream))


def marks_stored(database: str, stream: str) -> int:
    with closing(_open_reading(database)) as reading:
        stream_record = _find_stream(reading, stream)
        if stream_record is None:
            return 0
        count = 0
        for domain in stream_record.settings.domains:
            count += sum(1 for _ in reading.marks(stream_record.id, domain))
        return count


def rows_as_of(database: str, stream: str, other: str) -> list[Values]:
    """Return the rows of a stream's members as another one's."""
    with closing(_open_reading(database)) as reading:
        stream_record = _find_stream(reading, other)
    if stream_record is None:
        raise LookupError(other)
    members = (StoredMember(stream_record.id, member) for member in _members(database, stream))
    return [(*row, None) for row in encode_members(members)]  # without a CRC-32


def _members(database: str, stream: str) -> list[MemberRecord]:
    with closing(_open_reading(database)) as reading:
        stream_record = _find_stream(reading, stream)
        return list(reading.members(stream_record.id)) if stream_record else []


def _find_stream(reading: SqlReading, name: str) -> StreamRecord | None:
    return next((record for record in reading.streams() if record.name == name), None)


def _open_reading(database: str) -> SqlReading:
    if is_postgres(database):
        return SqlReading(create_postgres_engine(database))
    return SqlReading(create_sqlite_engine(parse_file(database), busy_ms=BUSY_MS))
