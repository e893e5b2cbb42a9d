"""Convert values to and from their JSON, where segments are decimal strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from msgspec.structs import asdict, fields

from noted_time.answers.json_fields import list_fields
from noted_time.client.decoding import SHOWN_CHARACTERS
from noted_time.values import MAX_INT64, Mark, Note, Rejected, StreamCut, list_reports

Json = dict[str, Any]
Value = TypeVar("Value")
Reader = Callable[[Any], Any]

MISREAD_ERRORS = (Rejected, KeyError, TypeError, ValueError, AttributeError)

MARK_FIELDS = tuple(each.name for each in fields(Mark))

NOTE_FIELDS = tuple(each.name for each in fields(Note) if each.name != "position")
NOTE_DEFAULTS = tuple(each.default for each in fields(Note) if each.name != "position")

_values = attrgetter(*NOTE_FIELDS)


def position_to_wire(position: Mapping[int, int]) -> dict[str, int]:
    return {str(segment): offset for segment, offset in sorted(position.items())}


def cut_from_wire(wire: Mapping[str, object]) -> StreamCut:
    return StreamCut({_parse_segment(s): _check_integer(s, offset) for s, offset in wire.items()})


def position_from_wire(wire: Mapping[str, object]) -> dict[int, int]:
    return dict(cut_from_wire(wire).offsets)


def note_to_wire(note: Note) -> Json:
    values = zip(NOTE_FIELDS, _values(note), NOTE_DEFAULTS, strict=True)
    wire = {name: value for name, value, default in values if value != default}
    wire["state"] = note.state
    if note.position:
        wire["position"] = position_to_wire(note.position)
    if note.late is not None:
        late = [_without_none(asdict(each)) for each in list_reports(note.late)]
        wire["late"] = late[0] if len(late) == 1 else late
    if note.because:
        wire["because"] = [_without_none(asdict(each)) for each in note.because]
    return wire


def _without_none(wire: Json) -> Json:
    return {name: value for name, value in wire.items() if value is not None}


def mark_to_wire(mark: Mark) -> Json:
    wire = {name: getattr(mark, name) for name in MARK_FIELDS}
    return wire | {"cut": position_to_wire(mark.cut.offsets)}


def read_value(kind: Callable[..., Value], wire: Mapping[str, Any]) -> Value:
    """Return the value in a JSON object. Unknown fields are ignored; no field may be missing.

    >>> read_value(Mark, {"seq": 1})
    Traceback (most recent call last):
        ...
    noted_time.Rejected: a Mark without 'lower'
    """
    try:
        found = {attribute: read(wire[name]) for attribute, name, read in _list_readers(kind)}
    except KeyError as missing:
        raise Rejected(f"a {kind.__name__} without {missing}") from missing
    return kind(**found)


@cache
def _list_readers(kind: Callable[..., Any]) -> list[tuple[str, str, Reader]]:
    return [(each.attribute, each.name, _find_reader(each.hint)) for each in list_fields(kind)]


def _find_reader(hint: Any) -> Reader:  # noqa: ANN401 - any type
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _find_reader(parts[0])
    if NoneType in parts:
        read = _find_reader(parts[0])
        return lambda value: None if value is None else read(value)
    if hint == Mapping[int, int]:
        return position_from_wire
    if origin is Mapping:
        read, key = _find_reader(parts[1]), _parse_segment if parts[0] is int else parse_text
        return lambda wire: {key(name): read(value) for name, value in wire.items()}
    if origin in {tuple, Sequence}:
        read = _find_reader(parts[0])
        return lambda values: tuple(map(read, values))
    return VALUE_READERS.get(hint) or partial(read_value, hint)


def _parse_segment(name: str) -> int:
    if not (name.isascii() and name.isdigit()) or (len(name) > 1 and name.startswith("0")):
        raise Rejected(f"segment {name[:40]!r} is not a decimal integer")
    return int(name)


def _check_integer(segment: str, offset: object) -> int:
    if type(offset) is not int:
        raise Rejected(f"offset of segment {segment} is not an integer")
    return offset


def parse_int64(value: object) -> int:
    if type(value) is not int or not -MAX_INT64 <= value <= MAX_INT64:
        raise TypeError(f"{str(value)[:SHOWN_CHARACTERS]!r} is not an int64")
    return value


def parse_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:SHOWN_CHARACTERS]!r} is not a string")
    return value


def parse_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{str(value)[:SHOWN_CHARACTERS]!r} is neither true nor false")
    return value


VALUE_READERS: dict[Any, Reader] = {
    int: parse_int64,
    bool: parse_flag,
    str: parse_text,
    StreamCut: cut_from_wire,
}
