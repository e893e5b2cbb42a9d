"""Convert values to and from their JSON, where segments are decimal strings."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from msgspec.structs import asdict, fields

from noted_time.values import Note, Rejected, StreamCut, list_reports

Json = dict[str, Any]

NOTE_FIELDS = tuple(each.name for each in fields(Note) if each.name != "position")
NOTE_DEFAULTS = tuple(each.default for each in fields(Note) if each.name != "position")

_values = attrgetter(*NOTE_FIELDS)


def position_to_wire(position: Mapping[int, int]) -> dict[str, int]:
    return {str(segment): offset for segment, offset in sorted(position.items())}


def position_from_wire(wire: Mapping[str, object]) -> dict[int, int]:
    position = {_parse_segment(s): _check_integer(s, offset) for s, offset in wire.items()}
    return dict(StreamCut(position).offsets)


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


def _parse_segment(name: str) -> int:
    if not (name.isascii() and name.isdigit()) or (len(name) > 1 and name.startswith("0")):
        raise Rejected(f"segment {name[:40]!r} is not a decimal integer")
    return int(name)


def _check_integer(segment: str, offset: object) -> int:
    if type(offset) is not int:
        raise Rejected(f"offset of segment {segment} is not an integer")
    return offset
