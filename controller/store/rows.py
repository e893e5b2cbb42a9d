"""Conversion between the values of the port and rows of the tables.

Rows are plain tuples in the order of the tables' columns, as `executemany` takes them. JSON is
compact; its keys are segments or time domains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from controller.store.port import AppendedMark, ReaderRecord, StreamRecord
from noted_time import Mark, MemberRecord, ScaleEvent, StreamCut, StreamSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Row = tuple[Any, ...]

encode = msgspec.json.Encoder(enc_hook=dict).encode
"""JSON as it is stored; a mapping that is no dict becomes one."""

_offsets = msgspec.json.Decoder(dict[int, int]).decode
_times = msgspec.json.Decoder(dict[str, int]).decode
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_created = msgspec.json.Decoder(dict[int, tuple[int, ...]]).decode


def stream_row(record: StreamRecord) -> Row:
    """Return the row of a stream."""
    settings = record.settings
    return (
        record.id,
        record.name,
        settings.writer_timeout_ms,
        settings.mark_interval_ms,
        settings.returning_writer,
        encode({key: record.declared_at.get(key, 0) for key in settings.keys}).decode(),
        settings.mark_retention_ms,
        settings.max_time_ahead_ms,
        settings.writer_retention_ms,
    )


def stream_of(row: Sequence[Any]) -> StreamRecord:
    """Return the stream of a row."""
    stream_id, name, timeout, interval, returning, keys, *bounds = row
    declared_at = _times(keys)
    settings = StreamSettings(timeout, interval, returning, tuple(declared_at), *bounds)
    return StreamRecord(stream_id, name, settings, {k: at for k, at in declared_at.items() if at})


def scale_row(scale: tuple[str, int, ScaleEvent]) -> Row:
    """Return the row of a scale event."""
    stream_id, seq, event = scale
    return (stream_id, seq, encode(event.sealed).decode(), encode(event.created).decode())


def scale_of(row: Sequence[Any]) -> ScaleEvent:
    """Return the scale event of (sealed, created)."""
    sealed, created = row
    return ScaleEvent(_offsets(sealed), _created(created))


def member_rows(members: Iterable[tuple[str, MemberRecord]]) -> list[Row]:
    """Return the rows of members in the order of their key.

    In that order the pages of the table are written one after the other, and two batches that
    overlap cannot deadlock.
    """
    rows = [
        (
            stream_id,
            member.writer,
            member.state,
            member.left_out,
            encode(member.position).decode(),
            encode(member.times).decode(),
            encode(member.max_times).decode(),
            member.noted_at,
            member.since,
            member.sequence,
        )
        for stream_id, member in members
    ]
    rows.sort()
    return rows


def member_of(row: Sequence[Any]) -> MemberRecord:
    """Return the member of a row without its stream."""
    writer, state, left_out, position, times, max_times, *numbers = row
    return MemberRecord(
        writer,
        state,
        left_out,
        _offsets(position),
        _times(times),
        _times(max_times),
        *numbers,
    )


def mark_row(appended: AppendedMark) -> Row:
    """Return the row of a mark."""
    mark = appended.mark
    return (
        appended.stream_id,
        appended.key,
        mark.seq,
        mark.lower,
        mark.upper,
        encode(mark.cut.offsets).decode(),
        mark.written_at,
        encode(mark.left_out).decode(),
        appended.appended_at,
    )


def mark_of(row: Sequence[Any]) -> AppendedMark:
    """Return the mark of a row."""
    stream_id, key, seq, lower, upper, cut, written_at, left_out, appended_at = row
    mark = Mark(seq, lower, upper, StreamCut(_offsets(cut)), written_at, _names(left_out))
    return AppendedMark(stream_id, key, mark, appended_at)


def reader_row(record: ReaderRecord) -> Row:
    """Return the row of a reader."""
    position = encode(record.position).decode()
    return (record.stream_id, record.group, record.reader, record.online, position)


def reader_of(row: Sequence[Any]) -> ReaderRecord:
    """Return the reader of a row."""
    stream_id, group, reader, online, position = row
    return ReaderRecord(stream_id, group, reader, online, _offsets(position))


def clock_rows(clocks: Mapping[int, int]) -> list[Row]:
    """Return (service clock, bucket), in the order of the buckets."""
    return [(ms, bucket) for bucket, ms in sorted(clocks.items())]
