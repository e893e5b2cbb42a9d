"""Marks and windows from their JSON; notes and positions to it, as requests have them.

JSON names segments by decimal strings; everything else is spelled as in the values. A field that is
missing or malformed raises `Rejected`, naming it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any

from noted_time.client.decoding import SHOWN_CHARACTERS
from noted_time.reading import CompleteWindow
from noted_time.values import (
    MAX_INT64,
    Late,
    LateWriter,
    Mark,
    Missing,
    MissingWriter,
    Note,
    NotVouching,
    Rejected,
    StreamCut,
    VouchedBy,
    list_reports,
)

Json = dict[str, Any]

MISREAD_ERRORS = (Rejected, KeyError, TypeError, ValueError, AttributeError)
"""The exceptions raised when an answer has an unexpected shape."""

MARK_FIELDS = tuple(each.name for each in fields(Mark))
"""The fields of a mark."""

NOTE_FIELDS = tuple(each.name for each in fields(Note) if each.name != "position")
NOTE_DEFAULTS = tuple(each.default for each in fields(Note) if each.name != "position")
"""The fields of a note, each with the value with which it is not sent."""

_values = attrgetter(*NOTE_FIELDS)


def position_to_wire(position: Mapping[int, int]) -> dict[str, int]:
    """Return the JSON shape of a position or the offsets of a cut.

    >>> position_to_wire({0: 120, 3: 7})
    {'0': 120, '3': 7}
    """
    return {str(segment): offset for segment, offset in sorted(position.items())}


def position_from_wire(wire: Mapping[str, object]) -> dict[int, int]:
    """Return a position from its JSON shape; raises `Rejected` naming the segment.

    >>> position_from_wire({"0": 120, "3": 7})
    {0: 120, 3: 7}
    """
    return dict(
        StreamCut(
            {_parse_segment(s): _check_integer(s, offset) for s, offset in wire.items()}
        ).offsets
    )


def note_to_wire(note: Note) -> Json:
    """Return the JSON of a note: its state, and the fields that differ from their defaults."""
    said = zip(NOTE_FIELDS, _values(note), NOTE_DEFAULTS, strict=True)
    wire = {name: value for name, value, default in said if value != default}
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
    """Return the JSON shape of a mark."""
    wire = {name: getattr(mark, name) for name in MARK_FIELDS}
    return wire | {"cut": position_to_wire(mark.cut.offsets)}


def mark_from_wire(wire: Json) -> Mark:
    """Return a mark from its JSON shape.

    Raises `Rejected` if a field is missing, and another of `MISREAD_ERRORS` if one is malformed.
    """
    try:
        return Mark(
            seq=parse_int64(wire["seq"]),
            lower=parse_int64(wire["lower"]),
            upper=parse_int64(wire["upper"]),
            cut=StreamCut(position_from_wire(wire["cut"])),
            written_at=parse_int64(wire["written_at"]),
            excluded=tuple(map(parse_text, wire["excluded"])),
            upper_is_bound=wire["upper_is_bound"],
            final=wire["final"],
        )
    except KeyError as missing:
        raise Rejected(f"a mark without {missing}") from missing


def complete_window_from_wire(wire: Json) -> CompleteWindow:
    """Return a complete window from its JSON shape; raises `Rejected` if a field is missing."""
    try:
        return CompleteWindow(
            start=wire["start"],
            end=wire["end"],
            from_cut=StreamCut(position_from_wire(wire["from"])),
            to_cut=StreamCut(position_from_wire(wire["to"])),
            seq=wire["seq"],
            written_at=wire["written_at"],
            excluded=tuple(wire["excluded"]),
            exact=wire["exact"],
            missing=missing_from_wire(wire),
            late=late_from_wire(wire),
            before_first_mark=wire["before_first_mark"],
            vouched=vouching_from_wire(wire),
        )
    except KeyError as missing:
        raise Rejected(f"a window without {missing}") from missing


def missing_from_wire(wire: Json) -> Missing:
    """Return the missing writers that an answer about a window or a cut names."""
    return Missing(
        *_read_writers(wire, "missing", MissingWriter), parse_int64(wire["missing_joined_later"])
    )


def vouching_from_wire(wire: Json) -> VouchedBy:
    """Return who vouches for a window or a cut by an answer about it."""
    found = wire["vouched"]
    names = {"names": tuple(found["names"]), "not_vouching": not_vouching_from_wire(found)}
    vouched: VouchedBy = _read(VouchedBy, found | names)
    return vouched


def not_vouching_from_wire(wire: Json, name: str = "not_vouching") -> tuple[NotVouching, ...]:
    """Return the writers of an answer that do not vouch."""
    return tuple(_read(NotVouching, each) for each in wire[name])


def late_from_wire(wire: Json) -> Late:
    """Return the writers with late rows that an answer about a window or a cut names."""
    return Late(*_read_writers(wire, "late", LateWriter))


def _read_writers(wire: Json, name: str, kind: type[Any]) -> tuple[tuple[Any, ...], int, bool]:
    """Return the writers that an answer names, how many there are, and whether that is known."""
    writers = (_read(kind, each) for each in wire[name])
    return tuple(writers), wire[f"{name}_count"], wire[f"{name}_is_known"]


def _read(kind: type[Any], wire: Json) -> Any:  # noqa: ANN401 - a value of that kind
    """Return a value from the fields that this version knows; a newer controller may add others."""
    return kind(**{each.name: wire[each.name] for each in fields(kind)})


def _parse_segment(name: str) -> int:
    if not (name.isascii() and name.isdigit()) or (len(name) > 1 and name.startswith("0")):
        raise Rejected(f"segment {name[:40]!r} is not a decimal integer")
    return int(name)


def _check_integer(segment: str, offset: object) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise Rejected(f"offset of segment {segment} is not an integer")
    return offset


def parse_int64(value: object) -> int:
    """Return a number of an answer; raises `TypeError` if it is not an int64."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not -MAX_INT64 <= value <= MAX_INT64
    ):
        raise TypeError(f"{str(value)[:SHOWN_CHARACTERS]!r} is not an int64")
    return value


def parse_text(value: object) -> str:
    """Return a text of an answer; raises `TypeError` if it is not a string."""
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:SHOWN_CHARACTERS]!r} is not a string")
    return value
