"""Reads the times of Arrow columns by the rules of single rows."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta, tzinfo
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from noted_time import Rejected
from noted_time.extending import (
    ANY_TIME,
    EPOCH,
    FIRST_TIMES,
    UNIX_MS,
    EventTimeKind,
    NoSuchTime,
    TimeForm,
    Unit,
    describe_skipped,
)
from noted_time_extensions.files.local_times import Column, convert_local_times, count_ms


class ArrowTimes(NamedTuple):
    """The times of a column in Unix ms, null for rows without one.

    `second` has the other time of a row whose local time its zone had twice. `left_out` counts the
    rows in an hour that the zone skipped, which are null.
    """

    times: Column
    second: Column
    left_out: Counter[str]


def list_first(values: Column, column: str, form: TimeForm) -> list[object]:
    """Return the first times of a column, for `TimeForm.judge`."""
    first = pc.drop_null(values)[:FIRST_TIMES]
    if not pa.types.is_timestamp(values.type):
        return list(first.to_pylist())
    times = pc.drop_null(convert_times(first, column, form).times).to_pylist()
    first_times: list[object] = []
    for time in times:
        plausible_ms = time if time in UNIX_MS else 0
        first_times.append(EPOCH + timedelta(milliseconds=plausible_ms))
    return first_times


def find_kind(values: pa.DataType, unit: Unit | None = None) -> EventTimeKind:
    """Return the kind of times in a column of this type. Dates are numbers if the unit is days."""
    if pa.types.is_timestamp(values):
        return "local" if values.tz is None else "instant"
    if pa.types.is_date(values):
        return "number" if unit == "d" else "local"
    if pa.types.is_string(values) or pa.types.is_large_string(values):
        return "text"
    return "number"


def convert_times(values: Column, column: str, form: TimeForm) -> ArrowTimes:
    """Convert all times, also those outside 1971 to 2199."""
    form = replace(form, bounds=ANY_TIME)
    kind = values.type
    if kind == pa.int64() and form.unit in (None, "ms") and form.format is None:
        return ArrowTimes(values, values, Counter())
    with suppress(pa.ArrowException):  # fast path for text: all or none have a zone
        if pa.types.is_timestamp(kind):
            return _convert_timestamps(values, form.find_zone(column, kind.tz))
        if pa.types.is_string(kind) and form.format is None:
            utc_or_local = pa.timestamp("us", "UTC" if form.zone is None else None)
            return _convert_timestamps(pc.cast(values, utc_or_local), form.zone)
    times: list[int | None] = []
    second_times: list[int | None] = []
    left_out = Counter[str]()
    for value in values.to_pylist():
        time = None
        try:
            time = None if value is None else form.ms_of(value)
        except NoSuchTime:
            left_out[describe_skipped(form.zone)] += 1
        except Rejected as error:
            raise Rejected(f"{column!r}: {error}") from error
        times.append(time)
        second_times.append(getattr(time, "second", time))
    time_column = pa.chunked_array([pa.array(times, pa.int64())])
    second_column = pa.chunked_array([pa.array(second_times, pa.int64())])
    if second_column == time_column:
        second_column = time_column
    return ArrowTimes(time_column, second_column, left_out)


def _convert_timestamps(values: Column, zone: tzinfo | None) -> ArrowTimes:
    """Convert timestamps, which are local times if there is a zone."""
    if zone is None:
        times = count_ms(values)
        return ArrowTimes(times, times, Counter())
    times, second, skipped_count = convert_local_times(values, zone)
    left_out = Counter[str]()
    if skipped_count:
        left_out[describe_skipped(zone)] = skipped_count
    return ArrowTimes(times, second, left_out)
