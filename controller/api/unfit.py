"""What is wrong with a body of notes, in words, once decoding has refused it."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from noted_time.cut import MAX_INT64, MIN_INT64
from noted_time.note import MAX_NOTES_PER_REQUEST, SEGMENTS_PER_POSITION
from noted_time.settings import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHOWN = 10
SEGMENTS = 10**18
"""Segment ids are below this, so that the pattern of their names in JSON says it all."""

SEGMENT = re.compile(r"0|[1-9][0-9]{0,17}")

STATES = ("live", "idle", "left")

MUST_BE_A_NAME = "must be 1 to 249 characters of A-Z a-z 0-9 . _ -"
MUST_BE_A_SEGMENT = "must name a segment: a decimal integer below 10^18"

Found = tuple[str, str]
"""Where it is, as a path, and what is wrong there."""


def unfit_notes(body: bytes) -> list[Found]:
    """Return what is wrong with the body, at most ten things; empty where nothing was found.

    >>> unfit_notes(b'{"notes": [{"writer": "UA"}, {"writer": "DL", "position": {"7": -1}}]}')
    [('body.notes.1.position.7', 'must be an integer from 0 to 9223372036854775807, not -1')]
    """
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return list(islice(_of_body(decoded), SHOWN))


def _of_body(body: Any) -> Iterator[Found]:  # noqa: ANN401 - any JSON
    if not isinstance(body, dict):
        yield "body", f"must be an object with the list notes, not {_brief(body)}"
        return
    yield from _unknown("body", body, ("notes",))
    notes = body.get("notes")
    if not isinstance(notes, list):
        yield "body.notes", f"must be a list of notes, not {_brief(notes)}"
    elif not 1 <= len(notes) <= MAX_NOTES_PER_REQUEST:
        yield "body.notes", f"must be 1 to {MAX_NOTES_PER_REQUEST} notes, not {len(notes)}"
    else:
        for index, note in enumerate(notes):
            yield from _of_note(f"body.notes.{index}", note)


def _of_note(where: str, note: Any) -> Iterator[Found]:  # noqa: ANN401 - any JSON
    if not isinstance(note, dict):
        yield where, f"must be an object, not {_brief(note)}"
        return
    yield from _unknown(where, note, (*CHECKS, "position"))
    if "writer" not in note:
        yield f"{where}.writer", "is missing"
    for name, (fits, sentence) in CHECKS.items():
        if name in note and not fits(note[name]):
            yield f"{where}.{name}", f"{sentence}, not {_brief(note[name])}"
    yield from _of_position(f"{where}.position", note.get("position", {}))


def _of_position(where: str, position: Any) -> Iterator[Found]:  # noqa: ANN401 - any JSON
    if not isinstance(position, dict):
        yield where, f"must be an object of segment to offset, not {_brief(position)}"
        return
    if len(position) > SEGMENTS_PER_POSITION:
        yield where, f"must name at most {SEGMENTS_PER_POSITION} segments, not {len(position)}"
    for segment, offset in position.items():
        if not SEGMENT.fullmatch(segment):
            yield f"{where}.{segment[:40]}", MUST_BE_A_SEGMENT
        if not _integer(offset, 0):
            yield f"{where}.{segment[:40]}", f"{_within(0)}, not {_brief(offset)}"


def _unknown(where: str, fields: dict[str, Any], known: tuple[str, ...]) -> Iterator[Found]:
    for name in fields:
        if name not in known:
            yield f"{where}.{name[:40]}", f"is not a field; there are {', '.join(known)}"


def _integer(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= MAX_INT64


def _within(least: int) -> str:
    return f"must be an integer from {least} to {MAX_INT64}"


def _time(value: object) -> bool:
    return value is None or _integer(value, MIN_INT64)


def _name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _brief(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN * 4 else text[: SHOWN * 4] + "…"


CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "writer": (_name, MUST_BE_A_NAME),
    "time": (_time, _within(MIN_INT64)),
    "key": (lambda value: value is None or _name(value), MUST_BE_A_NAME),
    "max_time": (_time, _within(MIN_INT64)),
    "state": (lambda value: value in STATES, "must be live, idle or left"),
    "sequence": (lambda value: value is None or _integer(value, 1), _within(1)),
}
"""What each field but the position must be."""
