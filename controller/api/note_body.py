"""The body of a request with notes: its fields with their bounds, its decoder, faults and schema.

A note has the fields of `noted_time.Note`. msgspec makes the struct of them that bodies are decoded
to in 0.2 µs a note, and which the core reads as if it were that value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING, fields
from itertools import islice
from string import ascii_letters, digits
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta

from controller.api.faults import (
    MUST_BE_A_LINE,
    MUST_BE_A_NAME,
    MUST_BE_A_SEGMENT,
    MUST_BE_A_SESSION,
    SHOWN,
    Found,
    brief,
    no_such,
)
from controller.api.shapes import LINE, MOST_DOMAINS, REF, SEGMENTS
from noted_time.values import (
    FORMER_KEPT,
    HELD_LENGTH,
    LABEL_LENGTH,
    MAX_INT64,
    MAX_NOTES_PER_REQUEST,
    MIN_INT64,
    MOST_LATE,
    SEGMENTS_PER_POSITION,
    SESSION_LENGTH,
    LateRows,
    Note,
)

EXPLAINED = 16 * 1024
"""Only the first fault of a larger body is named: finding all of them would take long."""

DOTS = frozenset((".", ".."))
"""Not allowed as names, since a path cannot have them as a part."""

IN_NAMES = f"{ascii_letters}{digits}._-".encode()

END = r"$(?!\n)"
"""The end of a text; `$` alone also matches before a last line feed."""

NAME = rf"^(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,249}}{END}"
SESSION = rf"^[A-Za-z0-9._-]{{1,{SESSION_LENGTH}}}{END}"
ONE_LINE = LINE.removesuffix("$") + END
SEGMENT = "^(0|[1-9][0-9]{0,17})$"

MEANINGS = {NAME: MUST_BE_A_NAME, SESSION: MUST_BE_A_SESSION, ONE_LINE: MUST_BE_A_LINE}

Int64 = Annotated[int, Meta(ge=MIN_INT64, le=MAX_INT64)]
Number = Annotated[int, Meta(ge=1, le=MAX_INT64)]
Offset = Annotated[int, Meta(ge=0, le=MAX_INT64)]
Segment = Annotated[int, Meta(ge=0, lt=SEGMENTS)]


def _struct(name: str, doc: str, *types: tuple[Any, ...]) -> Any:  # noqa: ANN401 - a class
    return msgspec.defstruct(
        name, types, namespace={"__doc__": doc}, frozen=True, forbid_unknown_fields=True, gc=False
    )


def _first_line(value: type) -> str:
    return (value.__doc__ or "").partition("\n")[0]


def _described(kind: Any, text: str) -> Any:  # noqa: ANN401 - types
    return Annotated[kind, Meta(description=text)]


_late_rows: Any = _struct(
    "NotedLateRows",
    _first_line(LateRows),
    ("rows", Number),
    ("least", Int64),
    ("most", _described(Int64 | None, "their largest time; absent: up to the lower"), None),
)


def _bounded(name: Any, session: Any, label: Any, held: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the types of the fields of a note that have bounds, given those of four texts."""
    position = Meta(
        max_length=SEGMENTS_PER_POSITION,
        extra_json_schema={"propertyNames": {"pattern": SEGMENT}},
        description="segment → exclusive offset; a missing segment means 0",
    )
    some_domains = Meta(min_length=1, max_length=MOST_DOMAINS)
    return {
        "writer": name,
        "time": Int64 | None,
        "position": Annotated[dict[Segment, Offset], position],
        "domain": name | None,
        "max_time": _described(
            Int64 | None, "the largest event time that it wrote so far, in the note's domain"
        ),
        "max_times": _described(
            Annotated[dict[name, Int64], Meta(max_length=MOST_DOMAINS)] | None,
            "the same by domain, if what it writes has times in several; for the note's own domain "
            "the larger one counts",
        ),
        "sequence": Number | None,
        "domains": _described(
            Annotated[list[name], some_domains] | None,
            "the domains it vouches for from now on; absent: as before, at first all",
        ),
        "timeout_ms": _described(
            Number | None, "the writer's own timeout; null: the stream's; absent: as before"
        ),
        "late": _described(
            _late_rows | Annotated[list[_late_rows], Meta(max_length=MOST_LATE)] | None,
            "rows written below the lower, one report or several, such as one for each hour",
        ),
        "session": _described(
            session | None,
            "the process that notes; absent: not distinguished from others of its name",
        ),
        "takes_over": _described(
            bool, "notes of the other sessions of the writer are `fenced` from now on"
        ),
        "label": _described(label, "what people know the session by, such as its host and process"),
        "took_over": _described(
            Annotated[list[session], Meta(max_length=FORMER_KEPT)] | None,
            "the sessions from which it had taken the name; if one of them has it, it takes it "
            "over once more",
        ),
        "held": _described(
            held | None, "why it lives and does not note, for people; a note without it ends that"
        ),
    }


def _body(types: dict[str, Any]) -> Any:  # noqa: ANN401 - a class of msgspec's
    """Return the struct of a body whose notes have these types, and the defaults of the value."""
    types = get_type_hints(Note) | types
    parts = [(each.name, types[each.name], *_default(each)) for each in fields(Note)]
    note: Any = _struct("Note", _first_line(Note), *parts)
    notes = Annotated[list[note], Meta(min_length=1, max_length=MAX_NOTES_PER_REQUEST)]
    return _struct("NotesBody", f"1 to {MAX_NOTES_PER_REQUEST} notes.", ("notes", notes))


def _default(each: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a field of a dataclass
    if each.default_factory is not MISSING:
        return (msgspec.field(default_factory=each.default_factory),)
    return () if each.default is MISSING else (each.default,)


FAST = _body(
    _bounded(
        Annotated[str, Meta(min_length=1, max_length=249)],
        Annotated[str, Meta(min_length=1, max_length=SESSION_LENGTH)],
        Annotated[str, Meta(max_length=LABEL_LENGTH)],
        Annotated[str, Meta(min_length=1, max_length=HELD_LENGTH)],
    )
)
"""Without patterns, which would take more than all the rest; `decode` checks the characters."""

EXACT = _body(
    _bounded(
        Annotated[str, Meta(pattern=NAME, description=MUST_BE_A_NAME.removeprefix("must be "))],
        Annotated[str, Meta(pattern=SESSION)],
        Annotated[str, Meta(pattern=ONE_LINE, max_length=LABEL_LENGTH)],
        Annotated[str, Meta(pattern=ONE_LINE, min_length=1, max_length=HELD_LENGTH)],
    )
)


_decoder = msgspec.json.Decoder(FAST)
_is_line = re.compile(LINE).fullmatch

_, SCHEMAS = msgspec.json.schema_components((EXACT,), ref_template=REF.format(model="{name}"))
"""The schemas of the body and its parts in the OpenAPI document, by their names."""

del SCHEMAS["Note"]["properties"]["timeout_ms"]["default"]  # it marks an absent field

REQUEST_BODY: dict[str, Any] = {
    "content": {"application/json": {"schema": {"$ref": REF.format(model="NotesBody")}}},
    "required": True,
}


def decode(body: bytes) -> list[Note]:
    """Return the notes of a body; raises `msgspec.DecodeError` or `UnicodeDecodeError`."""
    notes: list[Note] = _decoder.decode(body).notes
    names = [note.writer for note in notes]
    names += [note.domain for note in notes if note.domain is not None]
    for note in notes:
        if note.domains is not None:
            names += note.domains
        if note.max_times is not None:
            names += note.max_times
    sessions = [note.session for note in notes if note.session is not None]
    sessions += [each for note in notes if note.took_over for each in note.took_over]
    if "".join(names + sessions).encode("ascii", "replace").translate(None, IN_NAMES):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    if not DOTS.isdisjoint(names):
        raise msgspec.ValidationError(MUST_BE_A_NAME)
    if not _is_line("".join([note.label + (note.held or "") for note in notes])):
        raise msgspec.ValidationError(MUST_BE_A_LINE)
    return notes


def faults(body: bytes, first: msgspec.ValidationError) -> list[Found]:
    """Return where a body does not fit and why, at most ten faults; the decoder found `first`."""
    found: list[Found] = []
    if len(body) <= EXPLAINED:
        with suppress(msgspec.DecodeError, RecursionError):
            found += islice(_faults(msgspec.json.decode(body), EXACT, "body"), SHOWN)
    what, path, _ = _split(first)
    return found or [(f"body{path}", what)]


def _faults(part: Any, kind: Any, where: str) -> Iterator[Found]:  # noqa: ANN401 - any JSON and type
    """Yield the faults of the fields below `where`, or the one of the part itself."""
    fault = _misfit(part, kind)
    if fault is None:
        return
    is_below = False
    for each in _faults_below(part, kind, where):
        is_below = True
        yield each
    if not is_below:
        yield _named(fault, part, where)


def _faults_below(part: Any, kind: Any, where: str) -> Iterator[Found]:  # noqa: ANN401
    struct = _struct_in(kind)
    if struct is not None and isinstance(part, list):
        for number, each in enumerate(part):
            yield from _faults(each, struct, f"{where}.{number}")
    elif struct is not None and isinstance(part, dict):
        known = get_type_hints(struct, include_extras=True)
        for name, value in part.items():
            place = f"{where}.{brief(name)}"
            if name in known:
                yield from _faults(value, known[name], place)
            else:
                yield place, no_such("field", name, [*known])
        for field in msgspec.structs.fields(struct):
            if field.required and field.name not in part:
                yield f"{where}.{field.name}", "Field required"
    elif isinstance(part, dict):
        entries = ((key, value, _misfit({key: value}, kind)) for key, value in part.items())
        named = (_named(f, value, f"{where}.{brief(key)}") for key, value, f in entries if f)
        yield from islice(named, 1)  # there may be thousands


def _named(fault: msgspec.ValidationError, part: Any, where: str) -> Found:  # noqa: ANN401
    """Return where a part does not fit, and why."""
    what, path, is_of_key = _split(fault)
    if is_of_key:
        return where, what if what in MEANINGS.values() else MUST_BE_A_SEGMENT
    return where + path, f"{what}, not {brief(msgspec.json.encode(part).decode())}"


def _split(fault: msgspec.ValidationError) -> tuple[str, str, bool]:
    """Return what msgspec says, below which path, and whether of the key of a map."""
    what, _, place = str(fault).rstrip("`").partition(" - at `")
    meaning = (meaning for pattern, meaning in MEANINGS.items() if repr(pattern) in what)
    path = place.rpartition("$")[2].replace("[...]", "").replace("[", ".").replace("]", "")
    return next(meaning, what.partition(", got ")[0]), path, place.startswith("key")


def _misfit(part: Any, kind: Any) -> msgspec.ValidationError | None:  # noqa: ANN401
    try:
        msgspec.convert(part, kind, str_keys=True)
    except msgspec.ValidationError as fault:
        return fault
    return None


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:  # noqa: ANN401 - a type
    """Return the struct that a type is, or has as an alternative or an entry."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for each in get_args(kind) if (found := _struct_in(each))), None)
