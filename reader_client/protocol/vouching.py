"""Collects the marks of a stream, and the writers that vouched for its rows."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from noted_time.analysis import NotedMarks, Owners, WriterPromise
from noted_time.answers import EntryAnswer, LedgerPage, MarksAnswer, WriterRow, WritersPage
from noted_time.client import Json, Question, stream_path
from noted_time.reading import MissingWriters
from noted_time.values import (
    INGESTION_NAME,
    MAX_INT64,
    Absence,
    Conflict,
    Rejected,
    UnknownDomain,
    choose_domain,
)
from reader_client.protocol.answers import StreamReply
from reader_client.protocol.questions import ask_marks, ask_stream

ROWS_PER_PAGE = 1000

Page = TypeVar("Page", LedgerPage, WritersPage)


@dataclass(frozen=True, slots=True, eq=False)
class NotedMarksAnswer:
    """The marks of a domain, and the writers that vouched for its rows."""

    marks: NotedMarks
    promises: Mapping[str, WriterPromise]

    owners: Owners

    logs: tuple[str, ...]


def read_noted(stream: str, domain: str | None) -> Generator[Question[Any], Any, NotedMarksAnswer]:
    """Ask for the marks, ledger and writers of a domain of event times."""
    answer: StreamReply = yield ask_stream(stream)
    domain = domain or choose_domain(answer.domains)
    if domain not in answer.domains:
        raise UnknownDomain(domain, answer.domains)
    if domain == INGESTION_NAME:
        raise Rejected("marks of ingestion say when rows came in, and judge no event times")
    marks = yield from _read_marks(stream, answer.id, domain)
    query = {"domain": domain}
    ledger_pages = yield from _read_pages(stream_path(stream, "ledger"), LedgerPage, "after", query)
    writers_path = stream_path(stream, "writers")
    writer_pages = yield from _read_pages(writers_path, WritersPage, "start", query)
    ledger_entries = list(chain.from_iterable(page.entries for page in ledger_pages))
    rows = list(chain.from_iterable(page.writers for page in writer_pages))
    absences = _find_absences(ledger_entries)
    promises = {}
    for row in rows:
        if not row.observes:
            spells = row.vouching.get(domain, ())
            promises[row.writer] = WriterPromise(spells, absences[row.writer])
    owners = _find_owners(marks, ledger_entries, rows, writer_pages[-1].forgotten_seq)
    promised_owners = {segment: owner for segment, owner in owners.items() if owner[0] in promises}
    return NotedMarksAnswer(marks, promises, promised_owners, answer.logs)


def _read_marks(
    stream: str, stream_id: str, domain: str
) -> Generator[Question[Any], Any, NotedMarks]:
    marks = NotedMarks()
    seq = 0
    has_more = True
    while has_more:
        page: MarksAnswer = yield ask_marks(stream, seq, domain, 0)
        has_more = page.has_more
        if page.stream_id != stream_id:
            raise Conflict(f"stream {stream!r} was created again while it was read: read it again")
        for mark in page.marks:
            seq = mark.seq
            marks.append(mark)
    if not len(marks):
        raise Rejected(f"stream {stream!r} has no mark in {domain} yet, so there is none to judge")
    return marks


def _read_pages(
    path: str, kind: type[Page], cursor: str, query: Json
) -> Generator[Question[Page], Page, list[Page]]:
    pages: list[Page] = []
    start: int | None = 0
    while start is not None:
        page_query = {**query, "limit": ROWS_PER_PAGE, cursor: start}
        page = yield Question("GET", path, page_query, answer=kind)
        pages.append(page)
        start = page.next
    return pages


def _find_owners(
    marks: NotedMarks,
    ledger_entries: Iterable[EntryAnswer],
    rows: Iterable[WriterRow],
    forgotten_seq: int | None,
) -> dict[int, tuple[str, int]]:
    """Return the only writer that noted each segment, and the offset where its rows begin.

    Cuts up to mark `forgotten_seq` cover all that forgotten writers noted. So the next larger
    offset in a cut is from a note of the owner.
    """
    if forgotten_seq is None:
        return {}
    absences = chain.from_iterable(entry.writers for entry in ledger_entries)
    noted_offsets: defaultdict[int, dict[str, int]] = defaultdict(dict)
    writers: Iterable[Absence | WriterRow] = chain(absences, rows)
    for writer in writers:
        for segment, offset in (writer.position or {}).items():
            noted_offsets[segment][writer.writer] = offset
    last_cut = marks.cut(len(marks) - 1)
    forgotten_number = max(0, forgotten_seq - marks.first_seq) if forgotten_seq else -1
    owners = {}
    for segment, offset_by_writer in noted_offsets.items():
        if len(offset_by_writer) > 1:
            continue
        name, last_offset = next(iter(offset_by_writer.items()))
        if last_cut.get(segment, 0) > last_offset:
            continue
        cut_offsets, uncovered_by = marks.steps(segment)
        first = bisect_left(uncovered_by, forgotten_number) + 1
        owners[segment] = name, [*cut_offsets.tolist(), last_offset][first]
    return owners


def _find_absences(
    ledger_entries: Iterable[EntryAnswer],
) -> defaultdict[str, list[tuple[int, int, str]]]:
    """Return the first and last mark of each absence by writer, and its reason.

    The first is 0 for a writer that joined later. The last is after all marks for
    a removed writer.
    """
    missing = MissingWriters()
    for mark_entry in ledger_entries:
        missing.take(
            mark_entry.seq,
            mark_entry.at,
            (mark_entry.from_lower, mark_entry.to_lower),
            mark_entry.writers,
            mark_entry.returned_writers,
        )
    absences: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for absence, first_seq, last_seq in missing.list_absences():
        if absence.reason == "sealed":
            continue
        begins = 0 if absence.joined_later else first_seq
        ends = MAX_INT64 if last_seq is None or absence.reason == "removed" else last_seq
        absences[absence.writer].append((begins, ends, absence.reason))
    return absences
