"""Convert values to and from their JSON, where segments are decimal strings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noted_time.coding import convert_to_json
from noted_time.values import Note, Rejected, StreamCut, list_reports

Json = dict[str, Any]


def position_to_wire(position: Mapping[int, int]) -> dict[str, int]:
    return {str(segment): offset for segment, offset in sorted(position.items())}


def position_from_wire(wire: Mapping[str, object]) -> dict[int, int]:
    position = {
        _parse_segment(segment): _check_integer(segment, offset) for segment, offset in wire.items()
    }
    return dict(StreamCut(position).offsets)


def note_to_wire(note: Note) -> Json:
    """Return the JSON of a note without the fields that have their defaults, except its state."""
    wire = {"state": note.state, **convert_to_json(note)}
    if note.late_rows is not None:
        reports = [
            _without_none(convert_to_json(report)) for report in list_reports(note.late_rows)
        ]
        wire["late_rows"] = reports[0] if len(reports) == 1 else reports
    if note.because:
        wire["because"] = [_without_none(fact) for fact in wire["because"]]
    return wire


def names_contact(refusal: Rejected, notes: Iterable[Note]) -> bool:
    """Return whether a controller, such as an older one, may refuse the notes for their contact.

    >>> refusal = Rejected("422 Invalid request: body.notes.0.contact: unknown field")
    >>> names_contact(refusal, [Note("UA", contact="ops")]), names_contact(refusal, [Note("UA")])
    (True, False)
    """
    return "contact" in str(refusal) and any(note.contact is not None for note in notes)


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
