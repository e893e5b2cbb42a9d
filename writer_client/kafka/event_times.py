"""How the times of a record are found: in a field of JSON, or by a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from confluent_kafka import Message

from noted_time.extras import load_function
from noted_time.observing import IN_MS, TimeForm
from noted_time.values import LARGEST_TIME, LEAST_TIME, Rejected, unix_ms_of

SHOWN_NAMES = 10

WrittenTime = int | float | str | datetime
TimeOf = Callable[[Message], WrittenTime | Sequence[WrittenTime] | None]
"""Finds the times of a record: of one event, or of several."""

EventTime = int | list[int] | None
"""The time of a record, or the times of its events, in ms; none if it has no event."""


def make_time_getter(field: str | TimeOf, form: TimeForm = IN_MS) -> Callable[[Message], EventTime]:
    """Return what finds the time of a record: by a field of JSON, or a function, also of a module.

    A field may lead through arrays, and a function return several times: the record has several
    events then. It raises `Rejected`, or whatever the function does, for a record without a time.
    This raises `Rejected` for a function that cannot be imported.
    """
    values_of = make_values_getter(field)

    def get_times(message: Message) -> EventTime:
        times = [form.ms_of(value) for value in values_of(message)]
        return times[0] if len(times) == 1 else times

    if not isinstance(field, str) or ":" in field:
        return get_times
    (decode, inside), is_in_ms = _make_decoder(field.split(".")), form.unit in (None, "ms")

    def get_time_in_json(message: Message) -> EventTime:
        try:
            time = inside(decode(message.value() or b""))
        except msgspec.ValidationError:  # what is rare: text of other forms, arrays
            return get_times(message)
        if is_in_ms and type(time) is int:
            return time
        return unix_ms_of(time) if type(time) is datetime else form.ms_of(time)

    return get_time_in_json


def make_values_getter(field: str | TimeOf) -> Callable[[Message], Sequence[object]]:
    """Return a function that gets a record's times as written; raises as `make_time_getter`."""
    if isinstance(field, str) and ":" not in field:
        names = field.split(".")
        return lambda message: get_values(msgspec.json.decode(message.value() or b""), names)
    function = load_function(field) if isinstance(field, str) else field
    return lambda message: [*_flatten([function(message)])]


def get_values(found: object, names: Iterable[str]) -> list[object]:
    """Return what is at a path, through all elements of arrays; raises `Rejected` if none is.

    >>> get_values({"spans": [{"at": 1}, {"at": [2, 3]}, {}]}, ["spans", "at"])
    [1, 2, 3]
    >>> get_values({"spans": []}, ["spans", "at"])
    []
    """
    level = [*_flatten([found])]
    for name in names:
        inner = [_get(each, name) for each in level]
        if level and all(each is None for each in inner):
            there = sorted({key for each in level if isinstance(each, dict) for key in each})
            among = ", ".join(there[:SHOWN_NAMES]) or "what is no object"
            raise Rejected(f"there is no {name!r} among {among}")
        level = [*_flatten(each for each in inner if each is not None)]
    return level


def get_timestamp(message: Message) -> int | None:
    """Return the timestamp of a record, which Kafka gives to each unless it is very old."""
    kind, time = message.timestamp()
    return time if kind else None


def _make_decoder(names: Sequence[str]) -> tuple[Callable[[bytes], Any], Callable[[Any], Any]]:
    """Return what decodes a time of the usual forms and nothing else, and what takes it out."""
    kind: Any = (
        Annotated[int, msgspec.Meta(ge=LEAST_TIME, le=LARGEST_TIME)]
        | float
        | Annotated[datetime, msgspec.Meta(tz=True)]
    )
    for name in reversed(names):
        kind = msgspec.defstruct("Object", [("it", kind)], rename={"it": name}, gc=False)
    return msgspec.json.Decoder(kind).decode, attrgetter(".".join("it" for _ in names))


def _get(found: object, name: str) -> object:
    return found.get(name) if isinstance(found, dict) else getattr(found, name, None)


def _flatten(found: Iterable[object]) -> Iterator[object]:
    """Yield what is in arrays, also within others."""
    for each in found:
        if isinstance(each, Sequence) and not isinstance(each, str | bytes):
            yield from _flatten(each)
        else:
            yield each
