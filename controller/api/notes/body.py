"""The body of a request with notes: its structs and its decoder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from controller.api.wire.bodies import EXPLAINED_BYTES, describe_first, find_faults
from controller.api.wire.requests import Request, request_of
from noted_time.values import (
    LINE_SCHEMA,
    MAX_NOTES_PER_REQUEST,
    LateRows,
    LogFact,
    Note,
    is_reversed,
    list_reports,
)
from noted_time.wording.faults import FAULTS_SHOWN, MUST_BE_A_LINE, MUST_BE_A_NAME, PlacedFault

DOT_NAMES = frozenset((".", ".."))

NAME_BYTES = f"{ascii_letters}{digits}._-".encode()

if TYPE_CHECKING:
    NotedLateRows = LateRows
    NotedLogFact = LogFact
    NoteBody = Note
else:
    NotedLateRows = request_of(
        LateRows,
        "NotedLateRows",
        "Rows that the writer wrote below the lower: their number and their least time.",
    )
    NotedLogFact = request_of(
        LogFact,
        "NotedLogFact",
        "Records of the log that an observer cannot read yet, moved its time, or were passed over.",
    )
    NoteBody = request_of(
        Note,
        "NoteBody",
        "A writer's claim that all its events with time < `time` are below `position`.",
        nested_requests={LateRows: NotedLateRows, LogFact: NotedLogFact},
    )


class NotesBody(Request, frozen=True):
    """A request with 1 to 1000 notes."""

    notes: Annotated[list[NoteBody], Meta(min_length=1, max_length=MAX_NOTES_PER_REQUEST)]


_decoder = msgspec.json.Decoder(NotesBody)
_is_line = re.compile(LINE_SCHEMA).fullmatch


def decode(body: bytes) -> list[Note]:
    """Return the notes of a body, or raise `msgspec.DecodeError` or `UnicodeDecodeError`."""
    notes: list[Note] = _decoder.decode(body).notes
    _check_names(notes)
    _check_lines(notes)
    return notes


def _check_names(notes: Iterable[Note]) -> None:
    names: list[str] = []
    sessions: list[str] = []
    for note in notes:  # once, as many comprehensions take longer for a single note
        names.append(note.writer)
        if note.domain is not None:
            names.append(note.domain)
        if note.domains is not None:
            names += note.domains
        if note.max_times is not None:
            names += note.max_times
        if note.session is not None:
            sessions.append(note.session)
        if note.took_over:
            sessions += note.took_over
        if note.log is not None:
            sessions.append(note.log)
        if note.late_rows is not None and any(map(is_reversed, list_reports(note.late_rows))):
            raise msgspec.ValidationError(
                "must have `min_time` at or below `max_time` in late rows"
            )
    if "".join(names + sessions).encode("ascii", "replace").translate(None, NAME_BYTES):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    if not DOT_NAMES.isdisjoint(names):
        raise msgspec.ValidationError(MUST_BE_A_NAME)


def _check_lines(notes: Iterable[Note]) -> None:
    lines: list[str] = []
    for note in notes:
        lines.append(note.label)
        if note.no_time_reason is not None:
            lines.append(note.no_time_reason)
        if note.contact is not None:
            lines.append(note.contact)
        for fact in note.because:
            if fact.by is not None:
                lines.append(fact.by)
    if not _is_line("".join(lines)):
        raise msgspec.ValidationError(MUST_BE_A_LINE)


def find_note_faults(body: bytes, first: msgspec.ValidationError) -> list[PlacedFault]:
    """Return ten faults, or in a large body the first, whose place may not be known.

    Raises `UnicodeDecodeError` for a body that is not UTF-8.
    """
    is_small = len(body) <= EXPLAINED_BYTES
    if is_small or "$" in str(first):
        with suppress(msgspec.DecodeError, RecursionError):
            content = msgspec.json.decode(body)
            return find_faults(
                NotesBody, content, ("body",), first, FAULTS_SHOWN if is_small else 1
            )
    return [describe_first(first, ("body",))]
