"""Finds the times of a Kafka record, in a JSON field or by a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from confluent_kafka import Message

from noted_time.extras import load_function
from noted_time.observing import ANY_TIME, IN_MS, TimeForm
from noted_time.values import LARGEST_TIME, LEAST_TIME, Rejected

SHOWN_NAMES = 10

WrittenTime = int | float | str | datetime
TimeOf = Callable[[Message], WrittenTime | Sequence[WrittenTime] | None]

EventTime = int | list[int] | None  # in ms, several for several events, `None` for a placeholder


def make_time_getter(field: str | TimeOf, form: TimeForm = IN_MS) -> Callable[[Message], EventTime]:
    """Return a function that finds the time of a record.

    `field` is the path of a JSON field, a function, or its name as ``"module:function"``. Without a
    time, the returned function raises `Rejected`, or any error of the user's function.
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
    decode, inside = _make_decoder(field.split("."))
    is_in_ms, bounds = form.unit in (None, "ms"), form.bounds or ANY_TIME
    start, stop = bounds.start, bounds.stop

    def get_time_in_json(message: Message) -> EventTime:
        try:
            time = inside(decode(message.value() or b""))
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
    return lambda message: [each for each in _flatten([function(message)]) if each is not None]


def get_values(record: object, names: Iterable[str]) -> list[object]:
    """Return the values at a path, including values in arrays.

    >>> get_values({"spans": [{"at": 1}, {"at": [2, 3]}, {}]}, ["spans", "at"])
    [1, 2, 3]
    >>> get_values({"spans": []}, ["spans", "at"])
    []
    """
    level = [*_flatten([record])]
    for name in names:
        inner = [_get(each, name) for each in level]
        if level and all(each is None for each in inner):
            there = sorted({key for each in level if isinstance(each, dict) for key in each})
            among = ", ".join(there[:SHOWN_NAMES]) or "the fields of a value that is not an object"
            raise Rejected(f"there is no {name!r} among {among}")
        level = [*_flatten(each for each in inner if each is not None)]
    return level


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
        kind = msgspec.defstruct("Object", [("it", kind)], rename={"it": name}, gc=False)
    return msgspec.json.Decoder(kind).decode, attrgetter(".".join("it" for _ in names))


def _get(record: object, name: str) -> object:
    return record.get(name) if isinstance(record, dict) else getattr(record, name, None)


def _flatten(values: Iterable[object]) -> Iterator[object]:
    for each in values:
        if isinstance(each, Sequence) and not isinstance(each, str | bytes):
            yield from _flatten(each)
        else:
            yield each
