"""The name of an integer says which clock it is on, in answers, requests and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, inspect
from sqlalchemy import BigInteger, Integer

from controller.store.records import RECORD_KINDS
from controller.store.schema import metadata
from tests.support.http import Caller

CLOCKS = {
    "_at": "Unix ms of a wall clock",
    "_time": "event time",
    "_times": "event times by domain",
    "_served_ms": "a moment of the service clock",
    "_ms": "a duration",
}
"""The ends of names, and their clocks."""

EXCEPTIONS = {
    "at": "Unix ms of a wall clock",
    "now": "Unix ms of a wall clock",
    "changed_since": "Unix ms of a wall clock",
    "unless_noted_since": "Unix ms of a wall clock",
    "seen_hour": "hours since 1970 of a wall clock",
    "lower": "event time",
    "upper": "event time",
    "from_lower": "event time",
    "to_lower": "event time",
    "next_lower": "event time",
    "first_lower": "event time",
    "first_lowers": "event times by domain",
    "forgotten_lowers": "event times by domain",
    "lower_before": "event time",
    "lower_without": "event times by writer, or the event time of one",
    "complete_to": "event time",
    "to": "event time",
    "time": "event time; of some facts of a log when a record was first seen",
    "times": "event times by domain",
    "start": "event time of a window; the place of a page",
    "end": "event time of a window",
    "origin": "event time on the clock of a zone",
    "min_time_hour": "hours since 1970 in event time",
    "max_time_hour": "hours since 1970 in event time",
    "lag": "a lag in event time",
    "lateness": "a lag in event time",
    "last": "of a refused note: event time of `invalid_time` and `too_far_ahead`, else no clock",
}
"""Names whose clock is in the words of the design, or that are moments in other units."""

NO_CLOCKS = frozenset(
    """
    after at_most before buckets count created cut dropped excluded
    excluded_marks exclusions expected expected_vouching final_cut finished holding_back_count
    idle late_count late_report_count limit live marks max_offset_jump max_segments
    missing_count missing_joined_later needed next not_vouching_count number offset order pid
    points position predecessors readers refused rows scale_events sealed segment
    segments seq sequence states status successors total unanswered version
    writers_total conditions crc
    """.split()  # noqa: SIM905 - as words
)
"""Counts, offsets, numbers of marks, segments and versions."""

SUFFIXES_WITHOUT_CLOCK = ("_seq", "_offset", "_count")


def find_clock(name: str) -> str | None:
    """Return the clock of a field by its name, `""` for a number without a clock.

    >>> find_clock("excluded_at"), find_clock("served_ms"), find_clock("rows"), find_clock("since")
    ('Unix ms of a wall clock', 'a moment of the service clock', '', None)
    """
    if name in EXCEPTIONS:
        return EXCEPTIONS[name]
    if name in NO_CLOCKS or name.endswith(SUFFIXES_WITHOUT_CLOCK):
        return ""
    if name == "served_ms":
        return CLOCKS["_served_ms"]
    for suffix, clock in CLOCKS.items():
        if name.endswith(suffix):
            return clock
    return None


def has_integer(shape: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether a JSON schema is of integers, or of a list or mapping of them."""
    if not isinstance(shape, dict):
        return False
    if shape.get("type") == "integer" or "integer" in (shape.get("type") or ()):
        return True
    inner = [shape.get("items"), shape.get("additionalProperties")]
    inner += [*shape.get("anyOf", ()), *shape.get("prefixItems", ())]
    return any(has_integer(inner_shape) for inner_shape in inner)


def list_wire_names(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the integers of bodies, answers and queries, each with its place."""
    for schema, shape in document["components"]["schemas"].items():
        for name, value in shape.get("properties", {}).items():
            if has_integer(value):
                yield schema, name
    for path, calls in document["paths"].items():
        for call in calls.values():
            for parameter in call.get("parameters", ()):
                if has_integer(parameter["schema"]):
                    yield path, parameter["name"]


def is_integer(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return is_integer(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(is_integer(alternative) for alternative in kind.types)
    if isinstance(kind, inspect.DictType):
        return is_integer(kind.value_type)
    return isinstance(kind, inspect.IntType)


def list_stored_names(kinds: Iterable[type[Struct]]) -> Iterator[tuple[str, str]]:
    """Yield the integers of structs, also inside them, each with its struct."""
    waiting = [*kinds]
    known_kinds = set[type]()
    while waiting:
        kind = waiting.pop()
        if kind in known_kinds:
            continue
        known_kinds.add(kind)
        for field in inspect.type_info(kind).fields:  # type: ignore[attr-defined]
            if is_integer(field.type):
                yield kind.__name__, field.encode_name
            waiting += list_structs(field.type)


def list_structs(kind: inspect.Type) -> Iterator[type[Struct]]:
    if isinstance(kind, inspect.Metadata):
        yield from list_structs(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for alternative in kind.types:
            yield from list_structs(alternative)
    elif isinstance(kind, inspect.StructType):
        yield kind.cls
    elif isinstance(kind, inspect.NamedTupleType):
        for field in kind.fields:
            yield from list_structs(field.type)


async def list_names(call: Caller) -> set[tuple[str, str]]:
    """Return the names of all integers, each with the place that it is in."""
    document = (await call.get("/openapi.json")).json()
    return {*list_wire_names(document), *list_stored_names(RECORD_KINDS), *list_columns()}


def list_columns() -> Iterator[tuple[str, str]]:
    """Yield the integers of tables, each with its table."""
    for table in metadata.tables.values():
        for column in table.columns:
            if isinstance(column.type, BigInteger | Integer):
                yield table.name, column.name


async def test_each_integer_names_its_clock(call: Caller) -> None:
    """Or it is an exception that is written down here."""
    names = await list_names(call)

    assert {place for place in names if find_clock(place[1]) is None} == set()


async def test_no_exception_is_superfluous(call: Caller) -> None:
    names = {name for _, name in await list_names(call)}

    assert {*EXCEPTIONS, *NO_CLOCKS} - names == set()
