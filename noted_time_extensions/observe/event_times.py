"""Finds the times of a Kafka record, in a JSON field or by a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from confluent_kafka import Message

from noted_time.extending import (
    ANY_TIME,
    IN_MS,
    LARGEST_TIME,
    LEAST_TIME,
    Rejected,
    TimeForm,
    load_function,
)

SHOWN_NAMES = 10

WrittenTime = int | float | str | datetime
TimeOf = Callable[[Message], WrittenTime | Sequence[WrittenTime] | None]

MISSING_FIELD = object()

EventTime = int | list[int] | None  # in ms, several for several events, `None` for a placeholder


class NullTime(Rejected):
    """The time of a record is null."""


class NullParent(Rejected):
    """A value above the time of a record is null, so it has no event, as a tombstone has none."""


def make_time_getter(field: str | TimeOf, form: TimeForm = IN_MS) -> Callable[[Message], EventTime]:
    """Return a function that finds the time of a record.

    `field` is the path of a JSON field, a function, or its name as ``"module:function"``. Without a
    time, the returned function raises `Rejected`, or any error of the user's function. For a null
    it raises `NullTime` or `NullParent`.
    """
    values_of = make_values_getter(field)

    def get_times(message: Message) -> EventTime:
        values = values_of(message)
        times = [time for time in map(form.ms_of, values) if time is not None]
        if len(times) == 1:
            return times[0]
        return times if times or not values else None

    if not isinstance(field, str) or ":" in field or form.format is not None:
        return get_times
    decode, get_inner = _make_decoder(field.split("."))
    is_in_ms = form.unit in (None, "ms")
    bounds = form.bounds or ANY_TIME
    start = bounds.start
    stop = bounds.stop

    def get_time_in_json(message: Message) -> EventTime:
        try:
            time = get_inner(decode(message.value() or b""))
        except msgspec.ValidationError:  # in ms; a list for several events
            return get_times(message)
        if is_in_ms and type(time) is int and start <= time < stop:
            return time
        return form.ms_of(time)

    return get_time_in_json


def make_values_getter(field: str | TimeOf) -> Callable[[Message], Sequence[object]]:
    if isinstance(field, str) and ":" not in field:
        names = field.split(".")
        return lambda message: get_values(msgspec.json.decode(message.value() or b""), names)
    function = load_function(field) if isinstance(field, str) else field
    return lambda message: [time for time in _flatten([function(message)]) if time is not None]


def get_values(record: object, names: Iterable[str]) -> list[object]:
    """Return the values at a path, including values in arrays. Some of them may lack it.

    >>> get_values({"spans": [{"at": 1}, {"at": [2, 3]}, {}]}, ["spans", "at"])
    [1, 2, 3]
    >>> get_values({"spans": []}, ["spans", "at"])
    []

    Raises `NullTime` or `NullParent` if all there is at a level is null, and `Rejected` if a name
    is missing.
    """
    path = ["the record", *names]
    level = _drop_nulls([record], path[0], is_time=len(path) == 1)
    for number, name in enumerate(path[1:], 2):
        values: list[object] = []
        for record_or_part in level:
            value = _get(record_or_part, name)
            if value is not MISSING_FIELD:
                values.append(value)
        if level and not values:
            raise Rejected(f"there is no {name!r} among {_list_fields(level)}")
        level = _drop_nulls(values, repr(name), is_time=number == len(path))
    return level


def _list_fields(objects: Iterable[object]) -> str:
    """Return the names of the fields that some of the objects have, as a text."""
    names: set[str] = set()
    for record_or_part in objects:
        if isinstance(record_or_part, dict):
            names |= record_or_part.keys()
    shown_names = sorted(names)[:SHOWN_NAMES]
    return ", ".join(shown_names) or "the fields of a value that is not an object"


def get_timestamp(message: Message) -> int:
    kind, time = message.timestamp()
    if not kind:
        raise Rejected("there is no timestamp")
    return time


def _make_decoder(names: Sequence[str]) -> tuple[Callable[[bytes], Any], Callable[[Any], Any]]:
    kind: Any = (
        Annotated[int, msgspec.Meta(ge=LEAST_TIME, le=LARGEST_TIME)]
        | float
        | Annotated[datetime, msgspec.Meta(tz=True)]
    )
    for name in reversed(names):
        kind = msgspec.defstruct("Object", [("value", kind)], rename={"value": name}, gc=False)
    return msgspec.json.Decoder(kind).decode, attrgetter(".".join(["value"] * len(names)))


def _drop_nulls(values: Iterable[object], name: str, *, is_time: bool) -> list[object]:
    """Return the values that are not null. Raises `NullTime` or `NullParent` if all are."""
    flat_values = list(_flatten(values))
    present_values = [value for value in flat_values if value is not None]
    if not flat_values or present_values:
        return present_values
    if is_time:
        raise NullTime(f"{name} is null")
    raise NullParent(f"{name} is null")


def _get(record: object, name: str) -> object:
    if isinstance(record, dict):
        return record.get(name, MISSING_FIELD)
    with suppress(AttributeError, ValueError):  # only Protobuf has it, not for every field
        if not record.HasField(name):  # type: ignore[attr-defined]
            return None
    return getattr(record, name, MISSING_FIELD)


def _flatten(values: Iterable[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            yield from _flatten(value)
        else:
            yield value
