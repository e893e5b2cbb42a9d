"""Convert marks, windows, notes and positions to and from their JSON.

JSON names segments by decimal strings. A missing or malformed field raises `Rejected` with its
name.
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

MARK_FIELDS = tuple(each.name for each in fields(Mark))

NOTE_FIELDS = tuple(each.name for each in fields(Note) if each.name != "position")
NOTE_DEFAULTS = tuple(each.default for each in fields(Note) if each.name != "position")

_values = attrgetter(*NOTE_FIELDS)


def position_to_wire(position: Mapping[int, int]) -> dict[str, int]:
    return {str(segment): offset for segment, offset in sorted(position.items())}


def position_from_wire(wire: Mapping[str, object]) -> dict[int, int]:
    return dict(
        StreamCut(
            {_parse_segment(s): _check_integer(s, offset) for s, offset in wire.items()}
        ).offsets
    )


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


def mark_from_wire(wire: Json) -> Mark:
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
            last_writer=wire.get("last_writer"),
        )
    except KeyError as missing:
        raise Rejected(f"a window without {missing}") from missing


def missing_from_wire(wire: Json) -> Missing:
    return Missing(
        *_read_writers(wire, "missing", MissingWriter), parse_int64(wire["missing_joined_later"])
    )


def vouching_from_wire(wire: Json) -> VouchedBy:
    found = wire["vouched"]
    names = {"names": tuple(found["names"]), "not_vouching": not_vouching_from_wire(found)}
    vouched: VouchedBy = _read(VouchedBy, found | names)
    return vouched


def not_vouching_from_wire(wire: Json, name: str = "not_vouching") -> tuple[NotVouching, ...]:
    return tuple(_read(NotVouching, each) for each in wire[name])


def late_from_wire(wire: Json) -> Late:
    return Late(*_read_writers(wire, "late", LateWriter))


def _read_writers(wire: Json, name: str, kind: type[Any]) -> tuple[tuple[Any, ...], int, bool]:
    writers = (_read(kind, each) for each in wire[name])
    return tuple(writers), wire[f"{name}_count"], wire[f"{name}_is_known"]


def _read(kind: type[Any], wire: Json) -> Any:  # noqa: ANN401 - a value of that kind
    """A newer controller may send more fields."""
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
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not -MAX_INT64 <= value <= MAX_INT64
    ):
        raise TypeError(f"{str(value)[:SHOWN_CHARACTERS]!r} is not an int64")
    return value


def parse_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:SHOWN_CHARACTERS]!r} is not a string")
    return value
