"""Converts Arrow columns of local times by the offsets of our zone data, not of pyarrow's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from noted_time import Rejected
from noted_time.extending import DAY_MS, FIRST_MIDNIGHT, LocalSpan, convert_local, list_local_spans

Column = Any  # an Arrow array, chunked or not

ONE_MS = timedelta(milliseconds=1)

FIRST_LOCAL_MS = (datetime.min + timedelta(days=2) - FIRST_MIDNIGHT) // ONE_MS  # noqa: DTZ901
LAST_LOCAL_MS = (datetime.max - timedelta(days=2) - FIRST_MIDNIGHT) // ONE_MS  # noqa: DTZ901


class LocalTimes(NamedTuple):
    """The moments of local times in Unix ms, null for a null and for a time that the zone skipped.

    `second` has the other moment of a local time in an hour that the zone had twice. `skipped` is
    the number of rows with a time that the zone skipped.
    """

    times: Column
    second: Column
    skipped: int


def convert_local_times(values: Column, zone: tzinfo) -> LocalTimes:
    """Convert timestamps without a zone, of any unit, as times on the clock of `zone`.

    Fractions of a millisecond are rounded down. Raises `Rejected` for values of another type.

    >>> from noted_time.values import parse_zone
    >>> noon = pa.array([datetime(2013, 1, 1, 12), None], pa.timestamp("us"))
    >>> convert_local_times(noon, parse_zone("Europe/Berlin")).times.to_pylist()
    [1357038000000, None]
    """
    kind = values.type
    if not pa.types.is_timestamp(kind) or kind.tz is not None:
        raise Rejected(f"{kind} has no local times: pass timestamps without a zone")
    local = count_ms(values)
    offsets = pa.nulls(len(local), pa.int64())
    second_offsets = offsets
    spans = _list_spans(local, zone)
    years = set(pc.unique(pc.year(pc.cast(local, pa.timestamp("ms")))).to_pylist())
    for span in spans:
        if span.offset is not None and not years.isdisjoint(_list_years(span)):
            is_inside = _find_inside(local, span.start, span.end)
            offsets = pc.if_else(is_inside, span.offset, offsets)
            second_offsets = pc.if_else(is_inside, span.second_offset, second_offsets)
    other_times = _list_others(local, spans)
    if len(other_times):
        first_list: list[int | None] = []
        second_list: list[int | None] = []
        for local_ms in other_times.to_pylist():
            first, second = _find_offsets(local_ms, zone)
            first_list.append(first)
            second_list.append(second)
        places = pc.index_in(local, value_set=other_times)
        offsets = pc.coalesce(offsets, pa.array(first_list, pa.int64()).take(places))
        second_offsets = pc.coalesce(second_offsets, pa.array(second_list, pa.int64()).take(places))
    times = pc.subtract(local, offsets)
    skipped_count = times.null_count - local.null_count
    return LocalTimes(times, pc.subtract(local, second_offsets), skipped_count)


def count_ms(values: Column) -> Column:
    """Return the ms since 1970-01-01T00:00 of timestamps, rounded down, in UTC if they have a zone.

    >>> count_ms(pa.array([-1, 1], pa.timestamp("us"))).to_pylist()
    [-1, 0]
    """
    plain = pc.cast(pc.cast(values, pa.int64()), pa.timestamp(values.type.unit))
    if values.type.unit != "s":
        plain = pc.floor_temporal(plain, unit="millisecond")
    return pc.cast(pc.cast(plain, pa.timestamp("ms")), pa.int64())


def _list_spans(local: Column, zone: tzinfo) -> Sequence[LocalSpan]:
    bounds = pc.min_max(local)
    first_ms = bounds["min"].as_py()
    last_ms = bounds["max"].as_py()
    if first_ms is None:
        return []
    return list_local_spans(zone, first_ms - 2 * DAY_MS, last_ms + 2 * DAY_MS)


def _list_years(span: LocalSpan) -> range:
    first_time = FIRST_MIDNIGHT + timedelta(milliseconds=span.start)
    last_time = FIRST_MIDNIGHT + timedelta(milliseconds=span.end - 1)
    return range(first_time.year, last_time.year + 1)


def _find_inside(local: Column, start: int, end: int) -> Column:
    return pc.and_(pc.greater_equal(local, start), pc.less(local, end))


def _list_others(local: Column, spans: Sequence[LocalSpan]) -> Column:
    """Return the distinct local times outside all spans, as those before 1971."""
    other_times = local
    if spans:
        is_inside = _find_inside(local, spans[0].start, spans[-1].end)
        other_times = pc.filter(local, pc.invert(is_inside))
    return pc.drop_null(pc.unique(other_times))


def _find_offsets(local: int, zone: tzinfo) -> tuple[int | None, int | None]:
    """Return the offsets at a local time, as of the nearest `datetime` if it has none."""
    nearest = min(max(local, FIRST_LOCAL_MS), LAST_LOCAL_MS)
    moments = convert_local(FIRST_MIDNIGHT + timedelta(milliseconds=nearest), zone)
    if moments is None:
        return None, None
    first, second = moments
    return nearest - first, nearest - second
