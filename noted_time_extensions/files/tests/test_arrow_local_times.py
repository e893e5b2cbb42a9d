"""Local times in columns of Arrow, which have the times of their rows."""

from __future__ import annotations

import re
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noted_time import Rejected
from noted_time.observing import TimeForm
from noted_time.observing.time_forms import NoSuchTime
from noted_time.values import DAY_MS, HOUR_MS, list_clock_changes, parse_time
from noted_time.values.zones import ReleasedZone, load_zone
from noted_time_extensions.files.local_times import convert_local_times
from tests.core.test_local_times import as_datetime, zones

APIA = load_zone("Pacific/Apia")
BERLIN = load_zone("Europe/Berlin")
MONROVIA = load_zone("Africa/Monrovia")
VANCOUVER = load_zone("America/Vancouver")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@st.composite
def local_columns(draw: st.DrawFn) -> tuple[ReleasedZone, list[int | None]]:
    """Return a zone and times on its clock in ms, many of them beside a change of the clock."""
    zone = draw(zones)
    start = parse_time(f"{draw(st.integers(1971, 2040))}-01-01T00:00Z")
    changes = list_clock_changes(zone, start, start + 2 * 365 * DAY_MS)
    change_times = [change.at + change.offset_before for change in changes]
    near = st.sampled_from([start, *change_times])
    beside = st.builds(int.__add__, near, st.integers(-2 * DAY_MS, 2 * DAY_MS))
    any_time = st.integers(-60 * 365 * DAY_MS, 250 * 365 * DAY_MS)
    return zone, draw(st.lists(st.none() | near | beside | any_time, min_size=1, max_size=20))


def read_by_observer(zone: ReleasedZone, local: int | None) -> int | None:
    if local is None:
        return None
    try:
        return TimeForm(zone=zone).ms_of(as_datetime(local))
    except NoSuchTime:
        return None


@given(local_columns(), st.sampled_from([*PER_SECOND]), st.integers(0, 999))
@example((APIA, [parse_time("2011-12-30T12:00Z")]), "ms", 0)
@example((MONROVIA, [parse_time("1972-01-07T00:30Z")]), "us", 999)
def test_arrow_column_has_the_times_of_rows(
    column: tuple[ReleasedZone, list[int | None]], unit: str, fraction: int
) -> None:
    """Arrow's unit may be coarser than ms, or finer: then the rest is dropped."""
    zone, times = column
    size = PER_SECOND[unit]
    values: list[int | None] = []
    local_times: list[int | None] = []
    for time in times:
        if time is None:
            values.append(None)
            local_times.append(None)
            continue
        value = time * size // 1000
        if size > 1000:
            value += fraction
        values.append(value)
        local_times.append(value * 1000 // size)
    conversion = convert_local_times(pa.array(values, pa.timestamp(unit)), zone)

    assert conversion.times.to_pylist() == [read_by_observer(zone, time) for time in local_times]
    assert conversion.skipped == conversion.times.null_count - local_times.count(None)


def test_arrow_column_is_read_by_the_newest_law() -> None:
    """Since November 2026, Vancouver is 7 hours behind UTC; the system may not know it yet."""
    noon = datetime(2026, 11, 20, 12)  # noqa: DTZ001 - local
    times = convert_local_times(pa.array([noon], pa.timestamp("us")), VANCOUVER).times

    assert times.to_pylist() == [parse_time("2026-11-20T19:00Z")]


def test_chunks_are_converted_as_one_column() -> None:
    """02:30 of 25 October exists twice, and of 29 March not at all."""
    repeated_time = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001 - local
    july = datetime(2026, 7, 1)  # noqa: DTZ001 - local
    skipped_time = datetime(2026, 3, 29, 2, 30)  # noqa: DTZ001 - local
    values = pa.chunked_array([[repeated_time, None], [skipped_time], [july]], pa.timestamp("us"))
    first = parse_time("2026-10-25T00:30Z")
    midnight = parse_time("2026-06-30T22:00Z")
    conversion = convert_local_times(values, BERLIN)

    assert conversion.times.to_pylist() == [first, None, None, midnight]
    assert conversion.second.to_pylist() == [first + HOUR_MS, None, None, midnight]
    assert conversion.skipped == 1


@pytest.mark.parametrize("far", [-(10**17), 10**17])
def test_time_outside_of_the_calendar_has_the_nearest_offset(far: int) -> None:
    conversion = convert_local_times(pa.array([far, 0], pa.timestamp("ms")), BERLIN)

    assert abs(conversion.times[0].as_py() - far) <= HOUR_MS
    assert conversion.times[1].as_py() == -HOUR_MS


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us", "UTC"), pa.string()])
def test_only_timestamps_without_a_zone_are_local(kind: pa.DataType) -> None:
    with pytest.raises(Rejected, match=f"^{re.escape(str(kind))} has no local times: pass"):
        convert_local_times(pa.array([], kind), BERLIN)
