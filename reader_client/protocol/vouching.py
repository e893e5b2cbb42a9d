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
    read: StreamReply = yield ask_stream(stream)
    chosen = domain or choose_domain(read.domains)
    if chosen not in read.domains:
        raise UnknownDomain(chosen, read.domains)
    if chosen == INGESTION_NAME:
        raise Rejected("marks of ingestion say when rows came in, and judge no event times")
    marks = yield from _read_marks(stream, read.id, chosen)
    about = {"domain": chosen}
    ledger = yield from _read_pages(stream_path(stream, "ledger"), LedgerPage, "after", about)
    listed = yield from _read_pages(stream_path(stream, "writers"), WritersPage, "start", about)
    entries = [entry for page in ledger for entry in page.entries]
    rows = [row for page in listed for row in page.writers]
    absences = _find_absences(entries)
    words = {
        row.writer: WriterPromise(row.vouching.get(chosen, ()), absences[row.writer])
        for row in rows
        if not row.observes
    }
    owners = _find_owners(marks, entries, rows, listed[-1].forgotten_seq)
    own = {segment: owner for segment, owner in owners.items() if owner[0] in words}
    return NotedMarksAnswer(marks, words, own, read.logs)


def _read_marks(
    stream: str, stream_id: str, domain: str
) -> Generator[Question[Any], Any, NotedMarks]:
    marks, seq, has_more = NotedMarks(), 0, True
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
    path: str, kind: type[Page], cursor: str, about: Json
) -> Generator[Question[Page], Page, list[Page]]:
    pages: list[Page] = []
    start: int | None = 0
    while start is not None:
        query = {**about, "limit": ROWS_PER_PAGE, cursor: start}
        pages.append((yield Question("GET", path, query, answer=kind)))
        start = pages[-1].next
    return pages


def _find_owners(
    marks: NotedMarks,
    entries: Iterable[EntryAnswer],
    rows: Iterable[WriterRow],
    forgotten_seq: int | None,
) -> dict[int, tuple[str, int]]:
    """Return the only writer that noted each segment, and the offset where its rows begin.

    Cuts up to mark `forgotten_seq` cover all that forgotten writers noted. So the next larger
    offset in a cut is from a note of the owner.
    """
    if forgotten_seq is None:
        return {}
    absent = (each for entry in entries for each in entry.writers)
    noted: defaultdict[int, dict[str, int]] = defaultdict(dict)
    places: Iterable[Absence | WriterRow] = chain(absent, rows)
    for each in places:
        for segment, offset in (each.position or {}).items():
            noted[segment][each.writer] = offset
    last = marks.cut(len(marks) - 1)
    number = max(0, forgotten_seq - marks.first_seq) if forgotten_seq else -1
    owners = {}
    for segment, who in noted.items():
        (writer, offset), *others = who.items()
        if not others and last.get(segment, 0) <= offset:
            offsets, uncovered_by = marks.steps(segment)
            first = bisect_left(uncovered_by, number) + 1
            owners[segment] = writer, [*offsets.tolist(), offset][first]
    return owners


def _find_absences(entries: Iterable[EntryAnswer]) -> defaultdict[str, list[tuple[int, int, str]]]:
    """Return the first and last mark of each absence by writer, and its reason.

    The first is 0 for a writer that joined later. The last is after all marks for
    a removed writer.
    """
    missing = MissingWriters()
    for entry in entries:
        lowers = entry.from_lower, entry.to_lower
        missing.take(entry.seq, entry.at, lowers, entry.writers, entry.returned_writers)
    absences: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for absence, first_seq, last_seq in missing.list_absences():
        if absence.reason == "sealed":
            continue
        begins = 0 if absence.joined_later else first_seq
        ends = MAX_INT64 if last_seq is None or absence.reason == "removed" else last_seq
        absences[absence.writer].append((begins, ends, absence.reason))
    return absences
