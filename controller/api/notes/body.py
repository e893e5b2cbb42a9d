"""The body of a request with notes: its fields and bounds, decoder, faults and schema.

msgspec decodes it for speed; pydantic has a model of the same fields, for faults and OpenAPI.
"""

from __future__ import annotations

import re
from contextlib import suppress
from string import ascii_letters, digits
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import fields
from pydantic import Discriminator, Field, Tag, ValidationError

import noted_time
from controller.api.wire.faults import (
    MUST_BE_A_LINE,
    MUST_BE_A_NAME,
    PlacedFault,
    list_sibling_fields,
    place_faults,
)
from controller.api.wire.requests import (
    LINE,
    REF,
    About,
    GivenPosition,
    Id,
    Int64,
    Line,
    Name,
    Offset,
    Request,
    SegmentNumber,
    Threshold,
    Times,
    bounds,
    default_of,
    fields_of,
)
from noted_time.open_enum import list_names
from noted_time.values import (
    FORMER_KEPT,
    HELD_LENGTH,
    LABEL_LENGTH,
    MAX_NOTES_PER_REQUEST,
    MOST_DOMAINS,
    MOST_LATE,
    MOST_LOG_FACTS,
    SEGMENTS_PER_POSITION,
    LateRows,
    LogFact,
    LogFactKind,
    State,
    is_reversed,
    list_reports,
)

EXPLAINED_BYTES = 16 * 1024  # in a larger body only the first fault is reported

DOT_NAMES = frozenset((".", ".."))

NAME_BYTES = f"{ascii_letters}{digits}._-".encode()


def _define_struct(name: str, *types: tuple[Any, ...]) -> Any:  # noqa: ANN401 - a class of msgspec's
    return msgspec.defstruct(name, types, frozen=True, forbid_unknown_fields=True, gc=False)


def _define_struct_of(value: type[Any], about: About, **own: Any) -> Any:  # noqa: ANN401 - as `_define_struct`'s
    """Return a struct without patterns, because `decode` checks characters."""
    types = {name: kind for name, (kind, _) in about.items()} | own
    named = [
        (each.name, types[each.name], msgspec.field(**default_of(each))) for each in fields(value)
    ]
    return _define_struct(value.__name__, *named)


LATE_FIELDS: About = {
    "rows": (Threshold, None),
    "least": (Int64, None),
    "most": (Int64 | None, "their largest time; absent: up to the lower"),
}


@fields_of(LateRows, LATE_FIELDS)
class NotedLateRows(Request):
    """Rows that the writer wrote below the lower: their number and their least time."""


_Late = Annotated[
    Annotated[NotedLateRows, Tag("[one]")]
    | Annotated[list[NotedLateRows], Field(max_length=MOST_LATE), Tag("[several]")],
    Discriminator(lambda given: "[several]" if isinstance(given, list) else "[one]"),
]
LOG_FACT_FIELDS: About = {
    "kind": (Literal[tuple(list_names(LogFactKind))], None),
    "segment": (SegmentNumber, None),
    "offset": (Offset, "the offset of the record, or the first offset that cannot be read yet"),
    "time": (Int64, "the record's time, or when the record was first seen, in Unix ms"),
    "by": (
        Annotated[Line, *bounds(min_length=1, max_length=LABEL_LENGTH)] | None,
        "the key of the record, or the observer's option",
    ),
    "count": (Threshold | None, "the number of records that were passed over"),
}


@fields_of(LogFact, LOG_FACT_FIELDS)
class NotedLogFact(Request):
    """Records of the log that an observer cannot read yet, moved its time, or were passed over."""


NOTE_FIELDS: About = {
    "writer": (Name, None),
    "time": (Int64 | None, None),
    "position": (GivenPosition, "segment → exclusive offset; a missing segment means 0"),
    "domain": (Name | None, None),
    "max_time": (Int64 | None, "the largest event time written so far, in the note's domain"),
    "max_times": (
        Times | None,
        "the same by domain; for the note's own domain the larger value counts",
    ),
    "state": (Literal[tuple(list_names(State))], None),
    "sequence": (Threshold | None, None),
    "domains": (
        Annotated[list[Name], *bounds(min_length=1, max_length=MOST_DOMAINS)] | None,
        "the domains that the writer vouches for from now on; absent: unchanged, initially all",
    ),
    "timeout_ms": (
        Threshold | None,
        "the writer's own timeout; null: the stream's timeout; absent: unchanged",
    ),
    "late": (
        _Late | None,
        "rows written below the lower, one report or several, such as one for each hour",
    ),
    "session": (
        Id | None,
        "the process that notes; absent: not distinguished from other processes of the writer",
    ),
    "takes_over": (bool, "notes of the other sessions of the writer are `fenced` from now on"),
    "label": (
        Annotated[Line, *bounds(max_length=LABEL_LENGTH)],
        "a name of the session for people, such as its host and process",
    ),
    "took_over": (
        Annotated[list[Id], *bounds(max_length=FORMER_KEPT)] | None,
        "the sessions that lost the name to this one; it takes the name over from them again",
    ),
    "held": (
        Annotated[Line, *bounds(min_length=1, max_length=HELD_LENGTH)] | None,
        "why the writer is alive but does not note, for people; a note without it clears it",
    ),
    "log": (
        Id | None,
        "the id of the position's log, such as a Kafka topic's id; another log is refused",
    ),
    "observes": (bool, "the writer observes the log, and notes for other writers"),
    "because": (
        Annotated[list[NotedLogFact], Field(max_length=MOST_LOG_FACTS)],
        "facts of the log that hold or advanced an observer's time, for people",
    ),
    "since": (Int64 | None, "in a first note: no row of the writer has an earlier time"),
}


@fields_of(noted_time.Note, NOTE_FIELDS)
class NoteBody(Request):
    """A writer's claim that all its events with time < `time` are below `position`."""


class NotesBody(Request):
    """A request with 1 to 1000 notes."""

    notes: Annotated[list[NoteBody], Field(min_length=1, max_length=MAX_NOTES_PER_REQUEST)]


_late: Any = _define_struct_of(LateRows, LATE_FIELDS)
_log_fact: Any = _define_struct_of(LogFact, LOG_FACT_FIELDS)
_note: Any = _define_struct_of(
    noted_time.Note,
    NOTE_FIELDS,
    position=Annotated[dict[SegmentNumber, Offset], Meta(max_length=SEGMENTS_PER_POSITION)],
    late=_late | Annotated[list[_late], Meta(max_length=MOST_LATE)] | None,
    because=Annotated[list[_log_fact], Meta(max_length=MOST_LOG_FACTS)],
)
_notes = Annotated[list[_note], Meta(min_length=1, max_length=MAX_NOTES_PER_REQUEST)]
_decoder = msgspec.json.Decoder(_define_struct("NotesBody", ("notes", _notes)))
_is_line = re.compile(LINE).fullmatch


REQUEST_BODY: dict[str, Any] = {
    "content": {"application/json": {"schema": {"$ref": REF.format(model="NotesBody")}}},
    "required": True,
}


def decode(body: bytes) -> list[noted_time.Note]:
    """Return the notes of a body, or raise `msgspec.DecodeError` or `UnicodeDecodeError`."""
    notes: list[noted_time.Note] = _decoder.decode(body).notes
    names = [note.writer for note in notes]
    names += [note.domain for note in notes if note.domain is not None]
    for note in notes:
        if note.domains is not None:
            names += note.domains
        if note.max_times is not None:
            names += note.max_times
        if note.late is not None and any(map(is_reversed, list_reports(note.late))):
            raise msgspec.ValidationError("must have `least` at or below `most` in late rows")
    sessions = [note.session for note in notes if note.session is not None]
    sessions += [each for note in notes if note.took_over for each in note.took_over]
    sessions += [note.log for note in notes if note.log is not None]
    if "".join(names + sessions).encode("ascii", "replace").translate(None, NAME_BYTES):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    if not DOT_NAMES.isdisjoint(names):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    lines = [note.label + (note.held or "") for note in notes]
    lines += [fact.by for note in notes if note.because for fact in note.because if fact.by]
    if not _is_line("".join(lines)):
        raise msgspec.ValidationError(MUST_BE_A_LINE)
    return notes


def find_faults(body: bytes, first: msgspec.ValidationError) -> list[PlacedFault]:
    if len(body) <= EXPLAINED_BYTES:
        try:
            with suppress(msgspec.DecodeError, RecursionError):
                NotesBody.model_validate(msgspec.json.decode(body))
        except ValidationError as error:
            errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
            return place_faults(errors, lambda where: list_sibling_fields(NotesBody, where[1:]))
    what, _, place = str(first).rstrip("`").partition(" - at `")
    path = place.rpartition("$")[2].replace("[...]", "").replace("[", ".").replace("]", "")
    return [(f"body{path}", what.partition(", got ")[0])]
