"""Conversion between the values of the port and rows of the tables.

Rows are plain tuples in the order of the tables' columns, as `executemany` takes them. A value is
compact JSON in the column `record`, behind the columns by which rows are found: so a field of a
value is declared where the value is, and nowhere here. Marks have a column for each field, since
there are many of them and most of a cut did not move, and members for each field that notes change:
their rows are written most, and with the names of all fields twice the bytes took twice the time.

A mark's row is *whole* if it has all offsets of its cut; others have those that moved since the
mark before. Whole are the first row that is kept and the first that a store writes to a chain. So
is one that would follow on so many others that they took as much room as the cut does. So rows take
at most twice the room of what moved, however many segments were ever named. The last cut is read
from rows of at most twice its size.

A row may be *sealed*: blanks behind the JSON of one column are its CRC-32. Decoders of JSON pass
over blanks. A row without them is not checked: PostgreSQL has checksums of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints
from zlib import crc32

import msgspec
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

RECORD_COLUMN, POSITION_COLUMN, CUT_COLUMN = 2, 3, 5
"""Which columns have the seal: of streams and scale events, of members, of marks."""

_SEAL_BLANKS = ["".join(each) for each in product(" \t\n\r", repeat=4)]  # for each byte

encode = msgspec.json.Encoder(enc_hook=dict).encode
"""JSON as it is stored; a mapping that is no dict becomes one."""

_offsets = msgspec.json.Decoder(dict[int, int]).decode
_times = msgspec.json.Decoder(dict[str, int]).decode
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_scale = msgspec.json.Decoder(ScaleEvent).decode
_change = msgspec.json.Decoder(Change).decode


def add_seals(unsealed: Iterable[Values], at: int) -> list[Values]:
    """Return the rows with their seals in that column, the text of which is JSON."""
    b = _SEAL_BLANKS
    return [
        (
            *row[:at],
            f"{row[at]}{b[crc >> 24]}{b[crc >> 16 & 255]}{b[crc >> 8 & 255]}{b[crc & 255]}",
            *row[at + 1 :],
        )
        for row in unsealed
        for crc in (crc32(encode(row)),)
    ]


def read_row(
    table: Table, row: Sequence[Any], at: int, decode: Callable[[Sequence[Any]], Value]
) -> Value:
    """Return what a row holds; raises `StoreDamaged` if that is not what was written."""
    try:
        return decode(_remove_seal(row, at))
    except Exception as error:  # what damaged rows raise has no bound
        key = ", ".join(map(str, row[: len(table.primary_key)]))
        raise StoreDamaged(f"the row ({key}) of the table {table.name}", error) from error


def _remove_seal(row: Sequence[Any], at: int) -> Values:
    bare = (*row[:at], row[at].rstrip(), *row[at + 1 :])
    if row[at] != bare[at] and [tuple(row)] != add_seals([bare], at):
        raise ValueError("its CRC-32 is another")
    return bare


class RowFormat(Generic[Value]):
    """How values of one kind are rows of their table: `key` has what comes before the record."""

    def __init__(
        self, table: Table, kind: type[Value], key: Callable[[Value], tuple[Any, ...]]
    ) -> None:
        self._table, self._key = table, key
        self._decode = msgspec.json.Decoder(kind).decode

    def row(self, value: Value) -> Values:
        """Return the row of a value."""
        return (*self._key(value), encode(value).decode())

    def value(self, row: Sequence[Any]) -> Value:
        """Return the value of a row."""
        return read_row(self._table, row, len(row) - 1, lambda bare: self._decode(bare[-1]))


STREAM_ROWS = RowFormat(schema.stream, StreamRecord, attrgetter("id", "name"))
READER_ROWS = RowFormat(schema.reader, ReaderRecord, attrgetter("stream_id", "group", "reader"))
BACKLOG_ROWS = RowFormat(schema.backlog, BacklogRecord, attrgetter("stream_id", "group"))
LATE_ROWS = RowFormat(schema.late, LateRecord, attrgetter("key"))
LEDGER_ROWS = RowFormat(schema.ledger, LedgerEntry, attrgetter("stream_id", "domain", "seq", "at"))


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


def member_rows(members: Iterable[tuple[str, MemberRecord]]) -> list[Values]:
    """Return the rows of members in the order of their key.

    In that order the pages of the table are written one after the other, and two batches that
    overlap cannot deadlock.
    """
    rows = [
        (
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
        for stream_id, each in members
        for others in (_others_of(each),)
    ]
    rows.sort(key=itemgetter(1))  # twice: a key of both would keep the interpreter's lock longer
    rows.sort(key=itemgetter(0))
    return rows


def member_of(row: Sequence[Any]) -> MemberRecord:
    """Return the member of a row."""
    return read_row(schema.member, row, POSITION_COLUMN, _member_of)


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
    """Return the row of an entry, with its writers encoded one by one.

    Many of them at once would keep the interpreter's lock from the event loop.
    """
    writers: Any = tuple([msgspec.Raw(encode(each)) for each in entry.writers])
    return LEDGER_ROWS.row(replace(entry, writers=writers))


def scale_row(scale: tuple[str, int, ScaleEvent]) -> Values:
    """Return the row of a scale event."""
    stream_id, seq, event = scale
    return (stream_id, seq, encode(event).decode())


def scale_of(row: Sequence[Any]) -> ScaleEvent:
    """Return the scale event of a row."""
    return read_row(schema.scale, row, RECORD_COLUMN, lambda bare: _scale(bare[-1]))


def change_row(change: Change) -> Values:
    """Return the row of a change; the stream's id is there twice, for the number between them."""
    return (change.stream_id, change.stream_id, change.at, encode(change).decode())


def change_of(row: Sequence[Any]) -> tuple[int, Change]:
    """Return the change of a row, with its number."""
    return row[1], read_row(schema.change, row, len(row) - 1, lambda bare: _change(bare[-1]))


def clock_rows(clocks: Mapping[int, int]) -> list[Values]:
    """Return (service clock, bucket), in the order of the buckets."""
    return [(ms, bucket) for bucket, ms in sorted(clocks.items())]


ROW_OFFSETS = 8
"""How many offsets take about as much room as the other columns of a row."""


class Tail(NamedTuple):
    """The last mark of a chain as it was written, and the cost of the rows since the whole one.

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


Tails = dict[tuple[str, str], Tail]
"""The tails of chains by (stream id, domain)."""


def extend_tail(before: Tail | None, mark: Mark) -> tuple[Tail, Mapping[int, int]]:
    """Return the tail with the next mark, and what its row has: all offsets if the cost is 0."""
    offsets = mark.cut.offsets
    if before is not None and before.offsets.keys() <= offsets.keys():
        known = before.offsets
        moved = {s: offset for s, offset in offsets.items() if known.get(s) != offset}
        cost = before.cost + ROW_OFFSETS + len(moved)
        if cost < len(offsets):
            return Tail(mark.seq, offsets, cost), moved
    return Tail(mark.seq, offsets), offsets


def mark_rows(marks: Iterable[AppendedMark], tails: Tails) -> list[Values]:
    """Return the rows of marks, and have their chains in `tails` end with them."""
    found = []
    for appended in marks:
        chain = appended.stream_id, appended.domain
        tail, stored = extend_tail(tails.get(chain), appended.mark)
        tails[chain] = tail
        found.append(_mark_row(appended, stored, whole=not tail.cost))
    return found


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
        mark.upper_is_bound,
        mark.final,
        whole,
    )


def marks_of(found: Iterable[Sequence[Any]]) -> Iterator[AppendedMark]:
    """Yield the marks of the rows of a chain, the first of which is whole."""
    offsets: Mapping[int, int] = {}
    for row in found:
        each = _mark_of(row, offsets)
        offsets = each.mark.cut.offsets
        yield each


def last_mark_of(found: Sequence[Sequence[Any]]) -> AppendedMark:
    """Return the mark of the last of the rows, of which the first alone is whole."""
    return _mark_of(found[-1], join_cuts(found[:-1]))


def join_cuts(found: Iterable[Sequence[Any]]) -> dict[int, int]:
    """Return the cut of the last of rows, of which the first alone is whole."""
    offsets: dict[int, int] = {}
    for row in found:
        offsets |= read_row(schema.mark, row, CUT_COLUMN, lambda bare: _offsets(bare[CUT_COLUMN]))
    return offsets


def build_whole_row(chain: Sequence[Values]) -> Values:
    """Return the last of the rows, of which the first alone is whole, with all of its cut."""
    last = chain[-1]
    return (*last[:CUT_COLUMN], encode(join_cuts(chain)).decode(), *last[CUT_COLUMN + 1 : -1], True)


def _mark_of(row: Sequence[Any], before: Mapping[int, int]) -> AppendedMark:
    """Return the mark of a row; `before` is the cut of the one before."""

    def decode(bare: Sequence[Any]) -> AppendedMark:
        stream_id, domain, seq, lower, upper, cut, written_at, excluded, appended_at, *is_so = bare
        is_bound, final, is_whole = map(bool, is_so)
        offsets = _offsets(cut) if is_whole else {**before, **_offsets(cut)}
        names = _names(excluded)
        mark = Mark(seq, lower, upper, StreamCut(offsets), written_at, names, is_bound, final)
        return AppendedMark(stream_id, domain, mark, appended_at)

    return read_row(schema.mark, row, CUT_COLUMN, decode)
