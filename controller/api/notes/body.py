"""The body of a request with notes: its fields with their bounds, its decoder, faults and schema.

A note has the fields of `noted_time.Note`. msgspec makes the struct of them that bodies are decoded
to in 0.2 µs a note, and which the core reads as if it were that value. pydantic makes the model
that names the faults of a body that was refused, and that OpenAPI shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from string import ascii_letters, digits
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from pydantic import Discriminator, Field, Tag, ValidationError

import noted_time
from controller.api.wire.faults import (
    MUST_BE_A_LINE,
    MUST_BE_A_NAME,
    PlacedFault,
    fields_beside,
    found_in,
)
from controller.api.wire.shapes import (
    LINE,
    REF,
    SEGMENTS,
    GivenPosition,
    Id,
    Line,
    Name,
    Request,
    Threshold,
    Times,
    default_of,
    fields_of,
)
from controller.api.wire.shapes import Int64 as Time
from noted_time.values import (
    FORMER_KEPT,
    HELD_LENGTH,
    LABEL_LENGTH,
    MAX_INT64,
    MAX_NOTES_PER_REQUEST,
    MIN_INT64,
    MOST_DOMAINS,
    MOST_LATE,
    MOST_LOG_FACTS,
    SEGMENTS_PER_POSITION,
    SESSION_LENGTH,
    LateRows,
    LogFact,
    LogFactKind,
    State,
)

EXPLAINED = 16 * 1024
"""Only the first fault of a larger body is named: finding all of them would take long."""

DOTS = frozenset((".", ".."))
"""Not allowed as names, since a path cannot have them as a part."""

IN_NAMES = f"{ascii_letters}{digits}._-".encode()

Int64 = Annotated[int, Meta(ge=MIN_INT64, le=MAX_INT64)]
Number = Annotated[int, Meta(ge=1, le=MAX_INT64)]
Offset = Annotated[int, Meta(ge=0, le=MAX_INT64)]
Segment = Annotated[int, Meta(ge=0, lt=SEGMENTS)]
NonEmpty = Annotated[str, Meta(min_length=1, max_length=249)]
Short = Annotated[str, Meta(min_length=1, max_length=SESSION_LENGTH)]

LATE: Mapping[str, tuple[Any, Any, str | None]] = {
    "rows": (Number, Threshold, None),
    "least": (Int64, Time, None),
    "most": (Int64 | None, Time | None, "their largest time; absent: up to the lower"),
}
"""The bounds of fields: for the struct, for the model; and what each field means.

The struct has no patterns, which would take more than all the rest; `decode` checks the characters.
"""


def _struct(name: str, *types: tuple[Any, ...]) -> Any:  # noqa: ANN401 - a class of msgspec's
    return msgspec.defstruct(name, types, frozen=True, forbid_unknown_fields=True, gc=False)


def _struct_of(value: type[Any], bounds: Mapping[str, tuple[Any, Any, str | None]]) -> Any:  # noqa: ANN401
    """Return the struct with the fields of a value, and with its defaults."""
    defaults = ((each.name, default_of(each)) for each in fields(value))
    named = [
        (name, bounds[name][0], *([msgspec.field(**default)] if default else []))
        for name, default in defaults
    ]
    return _struct(value.__name__, *named)


_late: Any = _struct_of(LateRows, LATE)


@fields_of(LateRows, {name: each[1:] for name, each in LATE.items()})
class NotedLateRows(Request):
    """Rows that the writer wrote below the lower: how many, and the least time."""


_Late = Annotated[
    Annotated[NotedLateRows, Tag("[one]")]
    | Annotated[list[NotedLateRows], Field(max_length=MOST_LATE), Tag("[several]")],
    Discriminator(lambda given: "[several]" if isinstance(given, list) else "[one]"),
]
LOG_FACT: Mapping[str, tuple[Any, Any, str | None]] = {
    "kind": (LogFactKind, LogFactKind, None),
    "segment": (Segment, Annotated[int, Field(ge=0, lt=SEGMENTS)], None),
    "offset": (
        Offset,
        Annotated[int, Field(ge=0, le=MAX_INT64)],
        "the offset of the record, or from which none can be read yet",
    ),
    "time": (Int64, Time, "that of the record; or when it was first seen, in Unix ms"),
    "by": (
        Annotated[str, Meta(min_length=1, max_length=LABEL_LENGTH)] | None,
        Annotated[Line, Field(min_length=1, max_length=LABEL_LENGTH)] | None,
        "the key of the record",
    ),
}
_log_fact: Any = _struct_of(LogFact, LOG_FACT)


@fields_of(LogFact, {name: each[1:] for name, each in LOG_FACT.items()})
class NotedLogFact(Request):
    """An open transaction of the log, or a record whose time is ahead of the observer's clock."""


NOTE: Mapping[str, tuple[Any, Any, str | None]] = {
    "writer": (NonEmpty, Name, None),
    "time": (Int64 | None, Time | None, None),
    "position": (
        Annotated[dict[Segment, Offset], Meta(max_length=SEGMENTS_PER_POSITION)],
        GivenPosition,
        "segment → exclusive offset; a missing segment means 0",
    ),
    "domain": (NonEmpty | None, Name | None, None),
    "max_time": (
        Int64 | None,
        Time | None,
        "the largest event time that it wrote so far, in the note's domain",
    ),
    "max_times": (
        Annotated[dict[NonEmpty, Int64], Meta(max_length=MOST_DOMAINS)] | None,
        Times | None,
        (
            "the same by domain, if what it writes has times in several; for the note's own domain "
            "the larger one counts"
        ),
    ),
    "state": (State, State, None),
    "sequence": (Number | None, Threshold | None, None),
    "domains": (
        Annotated[list[NonEmpty], Meta(min_length=1, max_length=MOST_DOMAINS)] | None,
        Annotated[list[Name], Field(min_length=1, max_length=MOST_DOMAINS)] | None,
        "the domains it vouches for from now on; absent: as before, at first all",
    ),
    "timeout_ms": (
        Number | None,
        Threshold | None,
        "the writer's own timeout; null: the stream's; absent: as before",
    ),
    "late": (
        _late | Annotated[list[_late], Meta(max_length=MOST_LATE)] | None,
        _Late | None,
        "rows written below the lower, one report or several, such as one for each hour",
    ),
    "session": (
        Short | None,
        Id | None,
        "the process that notes; absent: not distinguished from others of its name",
    ),
    "takes_over": (
        bool,
        bool,
        "notes of the other sessions of the writer are `fenced` from now on",
    ),
    "label": (
        Annotated[str, Meta(max_length=LABEL_LENGTH)],
        Annotated[Line, Field(max_length=LABEL_LENGTH)],
        "what people know the session by, such as its host and process",
    ),
    "took_over": (
        Annotated[list[Short], Meta(max_length=FORMER_KEPT)] | None,
        Annotated[list[Id], Field(max_length=FORMER_KEPT)] | None,
        (
            "the sessions from which it had taken the name; if one of them has it, it takes it "
            "over once more"
        ),
    ),
    "held": (
        Annotated[str, Meta(min_length=1, max_length=HELD_LENGTH)] | None,
        Annotated[Line, Field(min_length=1, max_length=HELD_LENGTH)] | None,
        "why it lives and does not note, for people; a note without it ends that",
    ),
    "log": (
        Short | None,
        Id | None,
        (
            "the log that the position is of, such as a Kafka topic's id as Kafka spells it; the "
            "stream keeps the first, and refuses another"
        ),
    ),
    "observes": (bool, bool, "it notes for writers that do not, from what it sees in the log"),
    "because": (
        Annotated[list[_log_fact], Meta(max_length=MOST_LOG_FACTS)],
        Annotated[list[NotedLogFact], Field(max_length=MOST_LOG_FACTS)],
        "what an observer found in the log that holds time or moved it, for people",
    ),
    "since": (Int64 | None, Time | None, "of a first note: no row of the writer is older"),
}

_note: Any = _struct_of(noted_time.Note, NOTE)
_notes = Annotated[list[_note], Meta(min_length=1, max_length=MAX_NOTES_PER_REQUEST)]
_decoder = msgspec.json.Decoder(_struct("NotesBody", ("notes", _notes)))
_is_line = re.compile(LINE).fullmatch


@fields_of(noted_time.Note, {name: each[1:] for name, each in NOTE.items()})
class NoteBody(Request):
    """One writer's claim: all my events with time < `time` lie below `position`."""


class NotesBody(Request):
    """1 to 1000 notes."""

    notes: Annotated[list[NoteBody], Field(min_length=1, max_length=MAX_NOTES_PER_REQUEST)]


REQUEST_BODY: dict[str, Any] = {
    "content": {"application/json": {"schema": {"$ref": REF.format(model="NotesBody")}}},
    "required": True,
}


def decode(body: bytes) -> list[noted_time.Note]:
    """Return the notes of a body; raises `msgspec.DecodeError` or `UnicodeDecodeError`."""
    notes: list[noted_time.Note] = _decoder.decode(body).notes
    names = [note.writer for note in notes]
    names += [note.domain for note in notes if note.domain is not None]
    for note in notes:
        if note.domains is not None:
            names += note.domains
        if note.max_times is not None:
            names += note.max_times
    sessions = [note.session for note in notes if note.session is not None]
    sessions += [each for note in notes if note.took_over for each in note.took_over]
    sessions += [note.log for note in notes if note.log is not None]
    if "".join(names + sessions).encode("ascii", "replace").translate(None, IN_NAMES):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    if not DOTS.isdisjoint(names):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    lines = [note.label + (note.held or "") for note in notes]
    lines += [fact.by for note in notes if note.because for fact in note.because if fact.by]
    if not _is_line("".join(lines)):
        raise msgspec.ValidationError(MUST_BE_A_LINE)
    return notes


def faults(body: bytes, first: msgspec.ValidationError) -> list[PlacedFault]:
    """Return where a body does not fit and why, at most ten faults; the decoder found `first`."""
    if len(body) <= EXPLAINED:
        try:
            with suppress(msgspec.DecodeError, RecursionError):
                NotesBody.model_validate(msgspec.json.decode(body))
        except ValidationError as error:
            errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
            return found_in(errors, lambda where: fields_beside(NotesBody, where[1:]))
    what, _, place = str(first).rstrip("`").partition(" - at `")
    path = place.rpartition("$")[2].replace("[...]", "").replace("[", ".").replace("]", "")
    return [(f"body{path}", what.partition(", got ")[0])]
