"""Converts values of the port to rows of the tables, and back.

Most tables have key columns and a `record`, the value as compact JSON; marks and members have
separate columns, to save bytes and time.

A mark's row is *whole* if it has all offsets of its cut. Others have only the changed ones. These
rows are whole:

- The first row that is kept.
- The first row that a store writes to a chain.
- A row that would follow so many other rows that they take as much space as the cut.

Some tables have a last column for the CRC-32 of the row. It is null if the database has checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from sys import intern
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints
from zlib import crc32

import msgspec
from msgspec.structs import replace
from sqlalchemy import Table

from controller.store import schema
from controller.store.port import (
    AppendedMark,
    BacklogRecord,
    Change,
    LateRecord,
    LedgerEntry,
    ReaderRecord,
    StoreDamaged,
    StreamRecord,
)
from noted_time import Mark, MemberRecord, ScaleEvent, StreamCut

Values = tuple[Any, ...]
Value = TypeVar("Value")

CUT_COLUMN = 5

encode = msgspec.json.Encoder(enc_hook=dict).encode

_offsets = msgspec.json.Decoder(dict[int, int]).decode
_times = msgspec.json.Decoder(dict[str, int]).decode
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_scale = msgspec.json.Decoder(ScaleEvent).decode
_change = msgspec.json.Decoder(Change).decode


def add_crc(row: Values) -> Values:
    return (*row, crc32(encode(row)))


def read_row(table: Table, row: Sequence[Any], decode: Callable[[Sequence[Any]], Value]) -> Value:
    """Raise `StoreDamaged` for a damaged row."""
    try:
        return decode(_remove_crc(row) if "crc" in table.columns else row)
    except Exception as error:  # damaged rows may raise any
        key = ", ".join(map(str, row[: len(table.primary_key)]))
        raise StoreDamaged(
            f"the row ({key}) of the table {table.name}", f"damaged: {error}"
        ) from error


def _remove_crc(row: Sequence[Any]) -> Sequence[Any]:
    *bare, crc = row
    if crc is not None and crc != crc32(encode(bare)):
        raise ValueError("its CRC-32 does not match")
    return bare


class RowFormat(Generic[Value]):
    """Converts values of one kind to rows; `key` returns the columns before the record."""

    def __init__(
        self, table: Table, kind: type[Value], key: Callable[[Value], tuple[Any, ...]]
    ) -> None:
        self._table, self._key = table, key
        self._decode = msgspec.json.Decoder(kind).decode

    def row(self, value: Value) -> Values:
        return (*self._key(value), encode(value).decode())

    def value(self, row: Sequence[Any]) -> Value:
        return read_row(self._table, row, lambda bare: self._decode(bare[-1]))


STREAM_ROWS = RowFormat(schema.stream, StreamRecord, attrgetter("id", "name"))
READER_ROWS = RowFormat(schema.reader, ReaderRecord, attrgetter("stream_id", "group", "reader"))
BACKLOG_ROWS = RowFormat(schema.backlog, BacklogRecord, attrgetter("stream_id", "group"))
LATE_ROWS = RowFormat(schema.late, LateRecord, attrgetter("key"))
LEDGER_ROWS = RowFormat(
    schema.ledger, LedgerEntry, attrgetter("stream_id", "domain", "seq", "served_at")
)


_RECORD_HINTS = get_type_hints(MemberRecord)
_RECORD_DEFAULTS = {"excluded": None} | MemberRecord._field_defaults
_OTHER_FIELDS = tuple(name for name in MemberRecord._fields if name not in schema.member.columns)
_others_of = attrgetter(*_OTHER_FIELDS)
_OTHER_DEFAULTS = tuple(_RECORD_DEFAULTS[name] for name in _OTHER_FIELDS)
_Others = msgspec.defstruct(
    "_Others",
    [(name, _RECORD_HINTS[name], _RECORD_DEFAULTS[name]) for name in _OTHER_FIELDS],
    omit_defaults=True,
)
_others = msgspec.json.Decoder(_Others).decode


def member_rows(members: Iterable[tuple[str, MemberRecord]]) -> Iterator[Values]:
    """Sort rows to write pages in order, and so that overlapping batches cannot deadlock."""
    # a combined key would hold the interpreter's lock longer
    by_writer = sorted(members, key=lambda each: each[1].writer)
    for stream_id, each in sorted(by_writer, key=itemgetter(0)):
        others = _others_of(each)
        yield (
            stream_id,
            each.writer,
            each.state,
            encode(each.position).decode(),
            encode(each.times).decode(),
            encode(each.max_times).decode(),
            each.noted_at,
            each.since,
            each.sequence,
            each.heard_at,
            None if others == _OTHER_DEFAULTS else encode(_Others(*others)).decode(),
        )


def member_of(row: Sequence[Any]) -> MemberRecord:
    return read_row(schema.member, row, _member_of)


def _member_of(row: Sequence[Any]) -> MemberRecord:
    _, writer, state, position, times, max_times, *counts, others = row
    noted_at, since, sequence, heard_at = counts
    rest = msgspec.structs.astuple(_others(others)) if others else _OTHER_DEFAULTS
    return MemberRecord(
        writer=writer,
        state=state,
        position=_offsets(position),
        times=_times(times),
        max_times=_times(max_times),
        noted_at=noted_at,
        since=since,
        sequence=sequence,
        heard_at=heard_at,
        **dict(zip(_OTHER_FIELDS, rest, strict=True)),
    )


def ledger_row(entry: LedgerEntry) -> Values:
    """Encode each writer separately, so that the event loop is not blocked."""
    writers: Any = tuple([msgspec.Raw(encode(each)) for each in entry.writers])
    return LEDGER_ROWS.row(replace(entry, writers=writers))


def scale_row(scale: tuple[str, int, ScaleEvent]) -> Values:
    stream_id, seq, event = scale
    return (stream_id, seq, encode(event).decode())


def scale_of(row: Sequence[Any]) -> ScaleEvent:
    return read_row(schema.scale, row, lambda bare: _scale(bare[-1]))


def change_row(change: Change) -> Values:
    """Give the stream id twice, because the second selects the number."""
    return (change.stream_id, change.stream_id, change.served_at, encode(change).decode())


def change_of(row: Sequence[Any]) -> tuple[int, Change]:
    return row[1], read_row(schema.change, row, lambda bare: _change(bare[-1]))


ROW_OFFSETS = 8  # they take as much space as a row's other columns


class Tail(NamedTuple):
    """The last mark of a chain, and the cost of the rows since the last whole row.

    A segment that does not move costs nothing:

    >>> from noted_time import Mark, StreamCut
    >>> first = Mark(1, 5, 9, StreamCut(dict.fromkeys(range(40), 7)))
    >>> tail, stored = extend_tail(None, first)
    >>> tail.cost, len(stored)
    (0, 40)
    >>> tail, stored = extend_tail(tail, Mark(2, 6, 9, first.cut.join(StreamCut({3: 8}))))
    >>> tail.cost, stored
    (9, {3: 8})
    """

    seq: int
    offsets: Mapping[int, int]
    cost: int = 0


Tails = dict[tuple[str, str], Tail]  # by (stream id, domain)


def extend_tail(before: Tail | None, mark: Mark) -> tuple[Tail, Mapping[int, int]]:
    """Return the tail with the next mark, and the offsets in its row (all if the cost is 0)."""
    offsets = mark.cut.offsets
    if before is not None and before.offsets.keys() <= offsets.keys():
        known = before.offsets
        moved = {s: offset for s, offset in offsets.items() if known.get(s) != offset}
        cost = before.cost + ROW_OFFSETS + len(moved)
        if cost < len(offsets):
            return Tail(mark.seq, offsets, cost), moved
    return Tail(mark.seq, offsets), offsets


def mark_rows(marks: Iterable[AppendedMark], tails: Tails) -> list[Values]:
    """Update the marks' chains in `tails`."""
    values = []
    for appended in marks:
        chain = appended.stream_id, appended.domain
        tail, stored = extend_tail(tails.get(chain), appended.mark)
        tails[chain] = tail
        values.append(_mark_row(appended, stored, whole=not tail.cost))
    return values


def _mark_row(appended: AppendedMark, offsets: Mapping[int, int], *, whole: bool) -> Values:
    mark = appended.mark
    return (
        appended.stream_id,
        appended.domain,
        mark.seq,
        mark.lower,
        mark.upper,
        encode(offsets).decode(),
        mark.written_at,
        encode(mark.excluded).decode(),
        appended.appended_at,
        appended.last_writer,
        mark.upper_is_bound,
        mark.final,
        whole,
    )


def marks_of(chain: Iterable[Sequence[Any]]) -> Iterator[AppendedMark]:
    """Yield the marks of a chain's rows, the first a whole row."""
    offsets: Mapping[int, int] = {}
    for row in chain:
        each = _mark_of(row, offsets)
        offsets = each.mark.cut.offsets
        yield each


def last_mark_of(chain: Sequence[Sequence[Any]]) -> AppendedMark:
    return _mark_of(chain[-1], join_cuts(chain[:-1]))


def join_cuts(chain: Iterable[Sequence[Any]]) -> dict[int, int]:
    offsets: dict[int, int] = {}
    for row in chain:
        offsets |= read_row(schema.mark, row, lambda bare: _offsets(bare[CUT_COLUMN]))
    return offsets


def build_whole_row(chain: Sequence[Values]) -> Values:
    """Return the last row with its whole cut and without its CRC-32, given a whole first row."""
    last = chain[-1]
    return (*last[:CUT_COLUMN], encode(join_cuts(chain)).decode(), *last[CUT_COLUMN + 1 : -2], True)


def _mark_of(row: Sequence[Any], before: Mapping[int, int]) -> AppendedMark:

    def decode(bare: Sequence[Any]) -> AppendedMark:
        stream_id, domain, seq, lower, upper, cut, written_at, excluded, *more = bare
        appended_at, last_writer, *flags = more
        is_bound, final, is_whole = map(bool, flags)
        offsets = _offsets(cut) if is_whole else {**before, **_offsets(cut)}
        names = _names(excluded)
        mark = Mark(seq, lower, upper, StreamCut(offsets), written_at, names, is_bound, final)
        return AppendedMark(
            stream_id, domain, mark, appended_at, last_writer and intern(last_writer)
        )

    return read_row(schema.mark, row, decode)
