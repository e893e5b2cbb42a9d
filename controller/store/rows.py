"""Converts records to rows of their tables, and back.

Most tables have key columns and a `record`, the record as compact JSON; marks and members have
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
from operator import attrgetter
from sys import intern
from typing import Any, NamedTuple, TypeVar, get_type_hints
from zlib import crc32

import msgspec
from msgspec.structs import replace

from controller.store.port import StoreDamaged
from controller.store.records import (
    RECORD_KINDS,
    AppendedMark,
    LedgerEntry,
    R,
    Record,
    StoredMember,
)
from noted_time import Mark, StreamCut
from noted_time.rules import MemberRecord

Values = tuple[Any, ...]
Value = TypeVar("Value")

CUT_COLUMN = 5

encode = msgspec.json.Encoder(enc_hook=dict).encode

_FIELDS = {kind: attrgetter(*kind.key_fields, *kind.column_fields) for kind in RECORD_KINDS}
_DECODERS: dict[type[Record], Callable[[Any], Any]] = {
    kind: msgspec.json.Decoder(kind).decode for kind in RECORD_KINDS if kind.has_json
}

_offsets = msgspec.json.Decoder(dict[int, int]).decode
_times = msgspec.json.Decoder(dict[str, int]).decode


def add_crc(row: Values) -> Values:
    return (*row, crc32(encode(row)))


def read_row(
    kind: type[Record], row: Sequence[Any], decode: Callable[[Sequence[Any]], Value]
) -> Value:
    """Raise `StoreDamaged` for a damaged row."""
    try:
        return decode(_remove_crc(row) if kind.has_crc else row)
    except Exception as error:  # damaged rows may raise any
        key = ", ".join(map(str, row[: len(kind.key_fields)]))
        raise StoreDamaged(
            f"the row ({key}) of the table {kind.table_name}", f"damaged: {error}"
        ) from error


def _remove_crc(row: Sequence[Any]) -> Sequence[Any]:
    *bare, crc = row
    if crc is not None and crc != crc32(encode(bare)):
        raise ValueError("its CRC-32 does not match")
    return bare


def encode_row(record: Record) -> Values:
    """Return the row without its CRC-32."""
    kind = type(record)
    if isinstance(record, LedgerEntry):
        record = _encode_writers(record)
    fields: Values = _FIELDS[kind](record)
    return (*fields, encode(record).decode()) if kind.has_json else fields


def decode_row(kind: type[R], row: Sequence[Any]) -> R:
    record: R = read_row(kind, row, lambda bare: _DECODERS[kind](bare[-1]))
    return record


def _encode_writers(entry: LedgerEntry) -> LedgerEntry:
    """Encode each writer separately, so that the event loop is not blocked."""
    writers: Any = tuple([msgspec.Raw(encode(writer)) for writer in entry.answer.writers])
    return replace(entry, answer=replace(entry.answer, writers=writers))


_RECORD_HINTS = get_type_hints(MemberRecord)
_RECORD_DEFAULTS = {"excluded": None} | MemberRecord._field_defaults
_MEMBER_PATHS = {*StoredMember.key_fields, *StoredMember.column_fields}
_OTHER_FIELDS = tuple(
    name for name in MemberRecord._fields if f"member.{name}" not in _MEMBER_PATHS
)
_others_of = attrgetter(*_OTHER_FIELDS)
_OTHER_DEFAULTS = tuple(_RECORD_DEFAULTS[name] for name in _OTHER_FIELDS)
_Others = msgspec.defstruct(
    "_Others",
    [(name, _RECORD_HINTS[name], _RECORD_DEFAULTS[name]) for name in _OTHER_FIELDS],
    omit_defaults=True,
)
_others = msgspec.json.Decoder(_Others).decode


def encode_members(members: Iterable[StoredMember]) -> Iterator[Values]:
    """Sort rows to write pages in order, and so that overlapping batches cannot deadlock."""
    # a combined key would hold the interpreter's lock longer
    by_writer = sorted(members, key=attrgetter("member.writer"))
    for stored_member in sorted(by_writer, key=attrgetter("stream_id")):
        member = stored_member.member
        other_values = _others_of(member)
        yield (
            stored_member.stream_id,
            member.writer,
            member.state,
            encode(member.position).decode(),
            encode(member.times).decode(),
            encode(member.max_times).decode(),
            member.noted_served_ms,
            member.changed_served_ms,
            member.sequence,
            member.heard_at,
            None if other_values == _OTHER_DEFAULTS else encode(_Others(*other_values)).decode(),
        )


def decode_member(row: Sequence[Any]) -> MemberRecord:
    return read_row(StoredMember, row, _decode_member)


def _decode_member(row: Sequence[Any]) -> MemberRecord:
    (
        _,
        writer,
        state,
        position,
        times,
        max_times,
        noted_served_ms,
        changed_served_ms,
        sequence,
        heard_at,
        other_text,
    ) = row
    rest = msgspec.structs.astuple(_others(other_text)) if other_text else _OTHER_DEFAULTS
    return MemberRecord(
        writer=writer,
        state=state,
        position=_offsets(position),
        times=_times(times),
        max_times=_times(max_times),
        noted_served_ms=noted_served_ms,
        changed_served_ms=changed_served_ms,
        sequence=sequence,
        heard_at=heard_at,
        **dict(zip(_OTHER_FIELDS, rest, strict=True)),
    )


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


def extend_tail(former_tail: Tail | None, mark: Mark) -> tuple[Tail, Mapping[int, int]]:
    """Return the tail with the next mark, and the offsets in its row (all if the cost is 0)."""
    offsets = mark.cut.offsets
    if former_tail is not None and former_tail.offsets.keys() <= offsets.keys():
        earlier_offsets = former_tail.offsets
        moved_offsets = {
            segment: offset
            for segment, offset in offsets.items()
            if earlier_offsets.get(segment) != offset
        }
        cost = former_tail.cost + ROW_OFFSETS + len(moved_offsets)
        if cost < len(offsets):
            return Tail(mark.seq, offsets, cost), moved_offsets
    return Tail(mark.seq, offsets), offsets


def encode_marks(marks: Iterable[AppendedMark], tails: Tails) -> list[Values]:
    """Update the marks' chains in `tails`."""
    values = []
    for appended_mark in marks:
        chain = appended_mark.stream_id, appended_mark.domain
        tail, stored_offsets = extend_tail(tails.get(chain), appended_mark.mark)
        tails[chain] = tail
        values.append(_encode_mark(appended_mark, stored_offsets, is_whole=not tail.cost))
    return values


class _Excluded(msgspec.Struct):
    """The writers that a mark excluded first, and the number of all of them."""

    writers: tuple[str, ...]
    count: int


_excluded = msgspec.json.Decoder(tuple[str, ...] | _Excluded).decode


def _encode_excluded(mark: Mark) -> bytes:
    if isinstance(mark.excluded_count, int):
        return encode(_Excluded(mark.excluded, mark.excluded_count))
    return encode(mark.excluded)


def _decode_excluded(text: str) -> tuple[tuple[str, ...], int | msgspec.UnsetType]:
    excluded_writers = _excluded(text)
    if isinstance(excluded_writers, _Excluded):
        return excluded_writers.writers, excluded_writers.count
    return excluded_writers, msgspec.UNSET


def _encode_mark(
    appended_mark: AppendedMark, offsets: Mapping[int, int], *, is_whole: bool
) -> Values:
    mark = appended_mark.mark
    return (
        appended_mark.stream_id,
        appended_mark.domain,
        mark.seq,
        mark.lower,
        mark.upper,
        encode(offsets).decode(),
        mark.written_at,
        _encode_excluded(mark).decode(),
        appended_mark.appended_served_ms,
        appended_mark.last_writer,
        mark.upper_is_bound,
        mark.final,
        is_whole,
    )


def decode_marks(chain: Iterable[Sequence[Any]]) -> Iterator[AppendedMark]:
    """Yield the marks of a chain's rows, the first a whole row."""
    offsets: Mapping[int, int] = {}
    for row in chain:
        appended_mark = _decode_mark(row, offsets)
        offsets = appended_mark.mark.cut.offsets
        yield appended_mark


def decode_last_mark(chain: Sequence[Sequence[Any]]) -> AppendedMark:
    return _decode_mark(chain[-1], join_cuts(chain[:-1]))


def join_cuts(chain: Iterable[Sequence[Any]]) -> dict[int, int]:
    offsets: dict[int, int] = {}
    for row in chain:
        offsets |= read_row(AppendedMark, row, lambda bare: _offsets(bare[CUT_COLUMN]))
    return offsets


def build_whole_row(chain: Sequence[Values]) -> Values:
    """Return the last row with its whole cut and without its CRC-32, given a whole first row."""
    last = chain[-1]
    return (*last[:CUT_COLUMN], encode(join_cuts(chain)).decode(), *last[CUT_COLUMN + 1 : -2], True)


def _decode_mark(row: Sequence[Any], before: Mapping[int, int]) -> AppendedMark:

    def decode(bare: Sequence[Any]) -> AppendedMark:
        (
            stream_id,
            domain,
            seq,
            lower,
            upper,
            cut,
            written_at,
            excluded_text,
            appended_served_ms,
            last_writer,
            is_bound,
            is_final,
            is_whole,
        ) = bare
        offsets = _offsets(cut)
        if not is_whole:
            offsets = {**before, **offsets}
        names, count = _decode_excluded(excluded_text)
        mark = Mark(
            seq,
            lower,
            upper,
            StreamCut(offsets),
            written_at,
            names,
            bool(is_bound),
            bool(is_final),
            count,
        )
        return AppendedMark(
            stream_id, domain, mark, appended_served_ms, last_writer and intern(last_writer)
        )

    return read_row(AppendedMark, row, decode)
