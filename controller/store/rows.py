"""Conversion between the values of the port and rows of the tables.

Rows are plain tuples in the order of the tables' columns, as `executemany` takes them. JSON is
compact; its keys are segments or time domains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from controller.store.port import (
    AlignmentRecord,
    AppendedMark,
    BacklogRecord,
    Change,
    LedgerEntry,
    ReaderRecord,
    StreamRecord,
)
from noted_time import (
    BacklogPolicy,
    Mark,
    MemberRecord,
    ScaleEvent,
    Seal,
    StreamCut,
    StreamSettings,
)
from noted_time.rules import Correction
from noted_time.values import NO_SESSION, NO_TERMS, Absence, Exclusion, LateRows, Session, Terms
from noted_time.wing import AlignmentSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Row = tuple[Any, ...]

_CUT = 5  # where a row of a mark has it

encode = msgspec.json.Encoder(enc_hook=dict).encode
"""JSON as it is stored; a mapping that is no dict becomes one."""

_offsets = msgspec.json.Decoder(dict[int, int]).decode
_times = msgspec.json.Decoder(dict[str, int]).decode
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_terms = msgspec.json.Decoder(tuple[Terms, tuple[str, ...]]).decode
_session = msgspec.json.Decoder(Session).decode
_exclusions = msgspec.json.Decoder(dict[str, Exclusion]).decode
_late = msgspec.json.Decoder(dict[str, LateRows]).decode
_policy = msgspec.json.Decoder(BacklogPolicy).decode
_absences = msgspec.json.Decoder(tuple[Absence, ...]).decode
_seal = msgspec.json.Decoder(Seal).decode
_corrections = msgspec.json.Decoder(tuple[Correction, ...]).decode
_plain = msgspec.json.Decoder(dict[str, Any]).decode
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
        encode({domain: record.declared_at.get(domain, 0) for domain in settings.domains}).decode(),
        settings.mark_retention_ms,
        settings.max_time_ahead_ms,
        settings.writer_retention_ms,
        encode(settings.expected_writers).decode(),
        settings.reader_timeout_ms,
        encode(record.seal).decode() if record.seal else None,
        settings.max_segments,
        settings.max_offset_jump,
        encode(record.unbounded).decode(),
        encode(record.ledger_from).decode() if record.ledger_from else None,
        encode(record.corrections).decode(),
    )


def stream_of(row: Sequence[Any]) -> StreamRecord:
    """Return the stream of a row."""
    stream_id, name, timeout, interval, returning, domains, *others = row
    retention, ahead, writer_retention, expected, reader_timeout, seal, *others = others
    *most, unbounded, ledger_from, corrections = others
    declared_at = _times(domains)
    settings = StreamSettings(
        timeout,
        interval,
        returning,
        tuple(declared_at),
        retention,
        ahead,
        writer_retention,
        _names(expected),
        reader_timeout,
        *most,
    )
    added = {domain: at for domain, at in declared_at.items() if at}
    ended, reaches = _seal(seal) if seal else None, _times(ledger_from) if ledger_from else {}
    return StreamRecord(
        stream_id,
        name,
        settings,
        added,
        ended,
        _names(unbounded),
        reaches,
        _corrections(corrections),
    )


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
            member.excluded,
            encode(member.position).decode(),
            encode(member.times).decode(),
            encode(member.max_times).decode(),
            member.noted_at,
            member.since,
            member.sequence,
            _stored_terms(member),
            encode(member.late).decode() if member.late else None,
            encode(member.session).decode() if member.session is not NO_SESSION else None,
            member.heard_at,
            encode(member.exclusions).decode() if member.exclusions else None,
            encode(member.undeclared).decode() if member.undeclared else None,
        )
        for stream_id, member in members
    ]
    rows.sort(key=_member_key)
    return rows


def member_of(row: Sequence[Any]) -> MemberRecord:
    """Return the member of a row without its stream."""
    writer, state, excluded, position, times, max_times, *numbers = row
    noted_at, since, sequence, terms, late, session, heard_at, exclusions, undeclared = numbers
    own, returned_late = _terms(terms) if terms else (NO_TERMS, ())
    return MemberRecord(
        writer,
        state,
        excluded,
        _offsets(position),
        _times(times),
        _times(max_times),
        noted_at,
        since,
        sequence,
        own,
        _late(late) if late else {},
        returned_late,
        _session(session) if session else NO_SESSION,
        heard_at,
        _exclusions(exclusions) if exclusions else {},
        _names(undeclared) if undeclared else (),
    )


def mark_row(appended: AppendedMark, offsets: Mapping[int, int], *, whole: bool) -> Row:
    """Return the row of a mark, with those offsets of its cut."""
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
    offsets: dict[int, int] = {}
    for row in found:
        stored, is_whole = _offsets(row[_CUT]), row[-1]
        offsets = stored if is_whole else offsets | stored
        yield _mark_of(row, offsets)


def last_mark_of(found: Sequence[Sequence[Any]]) -> AppendedMark:
    """Return the mark of the last of the rows, of which the first alone is whole."""
    return _mark_of(found[-1], joined(row[_CUT] for row in found))


def joined(cuts: Iterable[str]) -> dict[int, int]:
    """Return the cut of the last of rows, of which the first alone is whole."""
    offsets: dict[int, int] = {}
    for cut in cuts:
        offsets |= _offsets(cut)
    return offsets


def _mark_of(row: Sequence[Any], offsets: dict[int, int]) -> AppendedMark:
    stream_id, domain, seq, lower, upper, _, written_at, excluded, appended_at, *is_so = row
    is_bound, final, _ = map(bool, is_so)
    cut, names = StreamCut(offsets), _names(excluded)
    mark = Mark(seq, lower, upper, cut, written_at, names, is_bound, final)
    return AppendedMark(stream_id, domain, mark, appended_at)


def reader_row(record: ReaderRecord) -> Row:
    """Return the row of a reader."""
    position = encode(record.position).decode()
    who = record.stream_id, record.group, record.reader
    return (*who, record.online, position, record.reported_at, record.backlog)


def reader_of(row: Sequence[Any]) -> ReaderRecord:
    """Return the reader of a row."""
    stream_id, group, reader, online, position, reported_at, backlog = row
    told = None if backlog is None else bool(backlog)
    offsets = _offsets(position)
    return ReaderRecord(stream_id, group, reader, bool(online), offsets, reported_at, told)


def backlog_row(record: BacklogRecord) -> Row:
    """Return the row of what is kept of a group's backlog."""
    policy = encode(record.policy).decode() if record.policy else None
    caught_up = encode(record.caught_up).decode()
    return (record.stream_id, record.group, policy, record.backlog, record.since, caught_up)


def backlog_of(row: Sequence[Any]) -> BacklogRecord:
    """Return what is kept of a group's backlog in a row."""
    stream_id, group, policy, backlog, since, caught_up = row
    decided_by = _policy(policy) if policy else None
    return BacklogRecord(stream_id, group, decided_by, bool(backlog), since, _names(caught_up))


def clock_rows(clocks: Mapping[int, int]) -> list[Row]:
    """Return (service clock, bucket), in the order of the buckets."""
    return [(ms, bucket) for bucket, ms in sorted(clocks.items())]


def ledger_row(entry: LedgerEntry) -> Row:
    """Return the row of an entry of the ledger."""
    who = entry.stream_id, entry.domain, entry.seq, entry.at
    writers, returned = (encode(each).decode() for each in (entry.writers, entry.returned))
    return (*who, entry.from_lower, entry.to_lower, writers, entry.by, returned)


def ledger_of(row: Sequence[Any]) -> LedgerEntry:
    """Return the entry of the ledger of a row."""
    stream_id, domain, seq, at, from_lower, to_lower, writers, by, returned = row
    absences, back = _absences(writers), _names(returned)
    return LedgerEntry(stream_id, domain, seq, at, from_lower, to_lower, absences, by, back)


def change_row(change: Change) -> Row:
    """Return the row of a change; the stream's id is there twice, for the number between them."""
    what = change.at, change.action, change.writer
    values = (encode(each).decode() if each else None for each in (change.was, change.became))
    return (change.stream_id, change.stream_id, *what, *values, change.by, change.comment)


def change_of(row: Sequence[Any]) -> tuple[int, Change]:
    """Return the change of a row, with its number."""
    stream_id, number, at, action, writer, was, became, by, comment = row
    before, after = (_plain(each) if each else None for each in (was, became))
    return number, Change(stream_id, at, action, writer, before, after, by, comment)


def alignment_row(record: AlignmentRecord) -> Row:
    """Return the row of an alignment."""
    return (record.name, record.settings.max_drift, record.settings.member_timeout_ms)


def alignment_of(row: Sequence[Any]) -> AlignmentRecord:
    """Return the alignment of a row."""
    name, max_drift, member_timeout_ms = row
    return AlignmentRecord(name, AlignmentSettings(max_drift, member_timeout_ms))


def _stored_terms(member: MemberRecord) -> str | None:
    """Return the member's own terms and the domains in which it returned late, if it has any."""
    if member.terms == NO_TERMS and not member.returned_late:
        return None
    return encode((member.terms, member.returned_late)).decode()


def _member_key(row: Row) -> tuple[str, str]:
    return row[0], row[1]
