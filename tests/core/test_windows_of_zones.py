"""Windows on the clock of a zone, compared with a model that looks at every minute.

The law: `start_of(t) <= t < end_of(start_of(t))`, and each end is a start. A size that breaks it at
a change of the clock is refused.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache
from itertools import groupby, pairwise, product
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

from noted_time import Mark, Rejected, StreamCut
from noted_time.reading import MarkHistory, Tiling, find_complete_windows
from noted_time.reading.windows import CHECKED_AHEAD_MS, COMMON_SIZES_MS
from noted_time.values import (
    DAY_MS,
    EPOCH,
    FIRST_MONDAY_MS,
    HOUR_MS,
    UNIX_MS,
    WEEK_MS,
    ClockChange,
    floor_time,
    format_duration,
    format_in_zone,
    has_disorder,
    list_clock_changes,
    parse_time,
)

MINUTE_MS = 60_000
LAST_CHANGE = parse_time("2029-01-01T00:00Z")
NOW = parse_time("2026-07-01T00:00Z")
ZONES = sorted(available_timezones())
SIZES = [
    *(15 * MINUTE_MS, 20 * MINUTE_MS, 25 * MINUTE_MS, 30 * MINUTE_MS),
    *(45 * MINUTE_MS, 50 * MINUTE_MS, 90 * MINUTE_MS, 100 * MINUTE_MS),
    *(1 * HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS, 4 * HOUR_MS, 6 * HOUR_MS, 7 * HOUR_MS),
    *(12 * HOUR_MS, 36 * HOUR_MS, DAY_MS, 2 * DAY_MS, WEEK_MS),
]

sizes = st.sampled_from(SIZES)
quarters = st.sampled_from(range(0, 97 * 15 * MINUTE_MS, 15 * MINUTE_MS))
origins = st.sampled_from([0, FIRST_MONDAY_MS]) | quarters


@cache
def list_all_changes(zone: str) -> list[ClockChange]:
    return [*list_clock_changes(ZoneInfo(zone), UNIX_MS.start + 8 * DAY_MS, LAST_CHANGE)]


@st.composite
def zones_with_changes(draw: st.DrawFn) -> tuple[str, ClockChange]:
    zone = draw(st.sampled_from(ZONES))
    changes = list_all_changes(zone)
    assume(changes)
    change = draw(st.sampled_from(changes))
    assume(change.at % MINUTE_MS == 0)  # the clock of Monrovia was 44.5 minutes behind until 1972
    return zone, change


def scan_windows(tiling: Tiling, change: ClockChange) -> list[tuple[int, int]]:
    """Return each stretch of times with one start around a change: the start, and the first time.

    The clock is set back by three hours at most.
    """
    reach = min(abs(change.offset_after - change.offset_before), 3 * HOUR_MS) + HOUR_MS
    near = range(change.at - reach, change.at + reach, MINUTE_MS)

    def find_start(time: int) -> int:
        return floor_time(time, tiling.size_ms, tiling.zone, tiling.origin)

    return [(start, next(times)) for start, times in groupby(near, find_start)]


def obeys_law(stretches: list[tuple[int, int]]) -> bool:
    """Return whether each window is one stretch, which begins at its start."""
    starts = {start for start, _ in stretches}
    for start, first_time in stretches[1:]:
        if start != first_time:
            return False
    return len(starts) == len(stretches) and stretches[0][0] <= stretches[0][1]


@given(zones_with_changes(), sizes, origins)
@example(("Antarctica/Casey", ClockChange(1_267_714_800_000, 39_600_000, 28_800_000)), DAY_MS, 0)
def test_disorder_is_where_the_model_breaks_the_law(
    changed: tuple[str, ClockChange], size: int, origin: int
) -> None:
    zone, change = changed
    tiling = Tiling(size, origin, ZoneInfo(zone))

    assert has_disorder(change, size, origin) is not obeys_law(scan_windows(tiling, change))


@given(zones_with_changes(), sizes, origins)
@example(("Europe/Berlin", ClockChange(1_774_746_000_000, HOUR_MS, 2 * HOUR_MS)), 2 * HOUR_MS, 0)
def test_windows_equal_a_scan_of_minutes(
    changed: tuple[str, ClockChange], size: int, origin: int
) -> None:
    zone, change = changed
    tiling = Tiling(size, origin, ZoneInfo(zone))
    stretches = scan_windows(tiling, change)

    for (start, _), (next_start, end) in pairwise(stretches):
        try:
            window_end = tiling.end_of(start)
        except Rejected:
            reject()
        assert window_end == end
        assert tiling.start_of(end) == next_start


@given(zones_with_changes(), sizes, origins, st.integers(-3 * CHECKED_AHEAD_MS // 2, 2 * DAY_MS))
def test_size_is_refused_if_a_change_of_two_years_breaks_the_law(
    changed: tuple[str, ClockChange], size: int, origin: int, distance: int
) -> None:
    """The window of the time counts from its start."""
    zone = ZoneInfo(changed[0])
    time = changed[1].at + distance
    assume(time - size in UNIX_MS)
    tiling = Tiling(size, origin, zone)
    start = floor_time(time, size, zone, origin)
    changes = list_clock_changes(zone, start, time + CHECKED_AHEAD_MS)
    is_lawful = all(obeys_law(scan_windows(tiling, change)) for change in changes)

    assert is_refusing(tiling, time) is not is_lawful


def is_refusing(tiling: Tiling, time: int) -> bool:
    try:
        tiling.start_of(time)
    except Rejected:
        return True
    return False


@given(zones_with_changes(), sizes, origins)
def test_the_size_that_is_named_instead_is_not_refused(
    changed: tuple[str, ClockChange], size: int, origin: int
) -> None:
    zone = ZoneInfo(changed[0])
    time = changed[1].at - HOUR_MS
    try:
        Tiling(size, origin, zone).start_of(time)
    except Rejected as error:
        suggested_size = str(error).rpartition("use ")[2]
        nearest = next(size for size in COMMON_SIZES_MS if suggested_size == format_duration(size))
        assert not is_refusing(Tiling(nearest, origin, zone), time)


@given(st.sampled_from(ZONES), st.integers(1971, 2028))
@example("Europe/Berlin", 2026)
@example("America/Boa_Vista", 2000)
def test_changes_equal_a_scan_of_hours(zone: str, year: int) -> None:
    """In October 2000, summer time of Boa Vista lasted for a week."""
    first = parse_time(f"{year}-01-01T00:00Z")
    last = parse_time(f"{year + 1}-01-01T00:00Z")
    clock = ZoneInfo(zone)
    expected = []
    before = read_offset(first, clock)
    for hour in range(first + HOUR_MS, last + 1, HOUR_MS):
        after = read_offset(hour, clock)
        if after != before:
            expected.append((hour, before, after))
        before = after

    changes = []
    for changed_at, before, after in list_clock_changes(clock, first, last):
        next_hour = changed_at + -changed_at % HOUR_MS
        changes.append((next_hour, before, after))
        assert read_offset(changed_at - 1, clock) == before
        assert read_offset(changed_at, clock) == after
    assert changes == expected


def read_offset(time: int, zone: ZoneInfo) -> int:
    offset = (EPOCH + timedelta(milliseconds=time)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("zone", "size", "borders"),
    [
        (
            "Europe/Berlin",
            2 * HOUR_MS,
            ["2026-03-29T00:00+01:00", "2026-03-29T03:00+02:00", "2026-03-29T04:00+02:00"],
        ),
        (
            "Europe/Berlin",
            2 * HOUR_MS,
            ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T04:00+01:00"],
        ),
        (
            "Europe/Berlin",
            90 * MINUTE_MS,
            ["2026-10-25T00:00+02:00", "2026-10-25T01:30+02:00", "2026-10-25T03:00+01:00"],
        ),
        (
            "Australia/Lord_Howe",
            HOUR_MS,
            ["2026-10-04T01:00+10:30", "2026-10-04T02:30+11:00", "2026-10-04T03:00+11:00"],
        ),
        (
            "Australia/Lord_Howe",
            HOUR_MS,
            ["2026-04-05T01:00+11:00", "2026-04-05T02:00+10:30", "2026-04-05T03:00+10:30"],
        ),
        (
            "Pacific/Apia",
            DAY_MS,
            ["2011-12-29T00:00-10:00", "2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00"],
        ),
    ],
)
def test_windows_begin_where_the_clock_shows_a_multiple(
    zone: str, size: int, borders: list[str]
) -> None:
    """A multiple that the clock skips begins at the change, and one that it repeats begins twice.

    On Lord Howe Island, the clock changes by half an hour. Samoa had no 30 December 2011.
    """
    tiling = Tiling(size, zone=ZoneInfo(zone))
    first, second, third = (parse_time(border) for border in borders)

    assert tiling.end_of(first) == second
    assert tiling.end_of(second) == third
    assert tiling.start_of(second - 1) == first
    assert tiling.start_of(second) == second
    assert tiling.start_of(third - 1) == second


@pytest.mark.parametrize(
    ("zone", "size", "origin", "time", "refusal"),
    [
        (
            "America/New_York",
            90 * MINUTE_MS,
            0,
            "2026-07-01T00:00Z",
            (
                "windows of 1h 30m overlap in America/New_York when its clock is put back at "
                "2026-11-01T01:00:00-05:00: use 1h"
            ),
        ),
        (
            "Europe/Berlin",
            100 * MINUTE_MS,
            0,
            "2026-07-01T00:00Z",
            (
                "windows of 1h 40m overlap in Europe/Berlin when its clock is put back at "
                "2026-10-25T02:00:00+01:00: use 2h"
            ),
        ),
        (
            "Europe/Berlin",
            DAY_MS,
            150 * MINUTE_MS,
            "2026-07-01T00:00Z",
            (
                "windows of 1d overlap in Europe/Berlin when its clock is put back at "
                "2026-10-25T02:00:00+01:00: use 30m"
            ),
        ),
        (
            "America/St_Johns",
            DAY_MS,
            0,
            "2009-07-01T00:00Z",
            (
                "windows of 1d overlap in America/St_Johns when its clock is put back at "
                "2009-10-31T23:01:00-03:30: use 1m"
            ),
        ),
    ],
)
def test_refusal_names_the_change_and_the_nearest_size(
    zone: str, size: int, origin: int, time: str, refusal: str
) -> None:
    """Until 2011, the clock of St. John's was put back from a minute past midnight."""
    tiling = Tiling(size, origin, ZoneInfo(zone))

    with pytest.raises(Rejected, match=f"^{re.escape(refusal)}$"):
        tiling.start_of(parse_time(time))
    with pytest.raises(Rejected, match=f"^{re.escape(refusal)}$"):
        tiling.end_of(parse_time(time))


def test_changes_before_the_first_time_do_not_count() -> None:
    tiling = Tiling(DAY_MS, zone=ZoneInfo("America/St_Johns"))
    time = parse_time("2012-01-01T12:00-03:30")

    assert format_in_zone(tiling.start_of(time), tiling.zone) == "2012-01-01T00:00:00-03:30"


@pytest.mark.parametrize(
    ("last", "is_refused"), [("2013-08-01T00:00Z", False), ("2013-09-01T00:00Z", True)]
)
def test_windows_are_refused_before_the_first_is_returned(last: str, is_refused: bool) -> None:  # noqa: FBT001 - a column
    """In August 2015, the clock of Pyongyang was put back by half an hour."""
    first_mark = Mark(1, lower=parse_time("2010-01-01T00:00Z"), upper=0, cut=StreamCut({}))
    last_mark = Mark(2, lower=parse_time(last), upper=0, cut=StreamCut({}))
    history = MarkHistory([first_mark, last_mark])
    tiling = Tiling(20 * MINUTE_MS, zone=ZoneInfo("Asia/Pyongyang"))

    def count_windows() -> int:
        windows = find_complete_windows(history, tiling, after=first_mark.lower, limit=3)
        return len([*windows])

    if is_refused:
        with pytest.raises(Rejected, match=r"use 15m$"):
            count_windows()
    else:
        assert count_windows() == 3


ALIASES = {"Australia/LHI", "NZ-CHAT"}

REFUSED_ZONES = {
    10 * MINUTE_MS: {"Pacific/Chatham"},
    20 * MINUTE_MS: {"Pacific/Chatham", "Australia/Lord_Howe"},
    30 * MINUTE_MS: {"Pacific/Chatham"},
    1 * HOUR_MS: {"Pacific/Chatham"},
    2 * HOUR_MS: {"Antarctica/Troll"},
    3 * HOUR_MS: {"Pacific/Chatham"},
}
"""The clock is put back at 03:45 in Chatham, and by half an hour on Lord Howe Island.

In Troll, it is put back by two hours from 03:00.
"""


@pytest.mark.parametrize("size", COMMON_SIZES_MS)
def test_common_sizes_are_allowed_in_nearly_all_zones(size: int) -> None:
    """Weeks begin on any day."""
    origins = (0, FIRST_MONDAY_MS, 3 * DAY_MS) if size == WEEK_MS else (0,)
    refused_zones = set()
    for zone, origin in product(ZONES, origins):
        if is_refusing(Tiling(size, origin, ZoneInfo(zone)), NOW):
            refused_zones.add(zone)

    assert refused_zones - ALIASES == REFUSED_ZONES.get(size, set())
