"""Times may be integers or aware datetimes; people read ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import NotedTimeError, Rejected
from noted_time.values import (
    DAY_MS,
    HOUR_MS,
    MAX_INT64,
    WEEK_MS,
    DeliveryFailed,
    Fenced,
    ImplausibleTime,
    InvalidCut,
    InvalidFinalTime,
    InvalidNote,
    Recreated,
    Session,
    Unreadable,
    parse_duration,
    unix_ms_of,
)
from noted_time.values.calendar import floor_time, format_in_zone, parse_zone
from noted_time.values.parsing import LONGEST_MS
from noted_time.values.zones import load_zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)

NOON_MS = 1357041600000


@given(st.integers(-(10**14), 10**14))
def test_a_whole_millisecond_is_exact(ms: int) -> None:
    time = EPOCH + timedelta(milliseconds=ms // 2)

    assert (unix_ms_of(time), unix_ms_of(time, up=True)) == (ms // 2, ms // 2)


@pytest.mark.parametrize(
    "time",
    [
        NOON,
        NOON.astimezone(timezone(timedelta(hours=-5))),
        pd.Timestamp(NOON),
        np.int64(NOON_MS),
        NOON_MS,
    ],
)
def test_spellings_of_an_instant_are_equal(time: Any) -> None:  # noqa: ANN401
    assert unix_ms_of(time) == NOON_MS


def test_fractions_of_a_millisecond_are_rounded_as_asked() -> None:
    """Claims are rounded down and events up. pandas counts nanoseconds."""
    time = pd.Timestamp(NOON) + pd.Timedelta(1, "ns")

    assert (unix_ms_of(time), unix_ms_of(time, up=True)) == (NOON_MS, NOON_MS + 1)


class Period(timedelta):
    """A difference of some libraries, which cannot be divided."""

    def __floordiv__(self, other: object) -> int:  # type: ignore[override]
        raise AttributeError(other)

    def __neg__(self) -> Period:
        return Period(-self.days, -self.seconds, -self.microseconds)


class Moment(datetime):
    """A time of such a library, as in Airflow's templates."""

    def __sub__(self, other: object) -> Period:  # type: ignore[override]
        assert isinstance(other, datetime)
        difference = datetime.__sub__(self, other)
        return Period(difference.days, difference.seconds, difference.microseconds)


def test_times_of_other_libraries_are_accepted() -> None:
    time = Moment(2013, 1, 1, 12, 0, 0, 1, tzinfo=UTC)

    assert (unix_ms_of(time), unix_ms_of(time, up=True)) == (NOON_MS, NOON_MS + 1)


NO_ZONE = "has no time zone: create it with tzinfo=datetime"
NO_TIME = r"neither an integer .Unix ms. nor an aware datetime"
INVALID_TIMES = [
    (NOON.replace(tzinfo=None), NO_ZONE),
    (pd.NaT, NO_ZONE),
    (pd.Timestamp(2013, 1, 1), NO_ZONE),
    (1.5, NO_TIME),
    ("noon", NO_TIME),
    (None, NO_TIME),
    (np.datetime64("2013-01-01"), NO_TIME),
]


@pytest.mark.parametrize(("time", "says"), INVALID_TIMES)
def test_an_invalid_time_is_refused(time: Any, says: str) -> None:  # noqa: ANN401
    """Seconds as a float are the usual mistake."""
    with pytest.raises(Rejected, match=says):
        unix_ms_of(time)


@pytest.mark.parametrize(
    "text",
    ["", "90", "d", "-1d", "1.5h", "1w", "1000000d", "1d ", "٣d", "01h", "1h30m", "1H", "9" * 99],
)
def test_a_duration_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="90d, 12h, 30m, 45s or 500ms"):
        parse_duration(text)


def test_the_longest_duration_can_be_given_in_each_unit() -> None:
    assert (parse_duration("999999d"), parse_duration(f"{LONGEST_MS}ms")) == (
        LONGEST_MS,
        LONGEST_MS,
    )


TEN = 1_357_034_400_000


@pytest.mark.parametrize(
    ("kind", "facts", "says"),
    [
        (InvalidNote, ("UA", "invalid_time", TEN), "it noted 2013-01-01T10:00:00Z before"),
        (InvalidNote, ("UA", "too_far_ahead", TEN), "last is 2013-01-01T10:00:00Z"),
        (InvalidNote, ("UA", "invalid_time", 42), "it noted 42 before"),
        (InvalidNote, ("UA", "too_many_writers", 100_000_000_000), "last is 100000000000"),
        (InvalidNote, ("UA", "invalid_position", {0: TEN}), f"it was at {{0: {TEN}}} before"),
        (ImplausibleTime, (TEN // 1000, TEN), "in seconds? "),
        (ImplausibleTime, (TEN // 1000, TEN), "the lower is 2013-01-01T10:00:00Z"),
        (
            InvalidFinalTime,
            ("default", TEN - 1, TEN),
            "final time 2013-01-01T09:59:59.999Z of domain 'default' is not above 2013-01-01T10:00",
        ),
        (InvalidFinalTime, ("default", MAX_INT64, TEN), "of domain 'default' is an end of int64"),
        (Recreated, ("topic 'a'", "its id differs"), "its id differs. Restart first, because"),
        (Recreated, ("topic 'a'", "its id differs"), "If this error repeats, the stream"),
        (DeliveryFailed, ("UA", 3, "too large"), "produce what failed again, then call forgive()"),
        (Fenced, ("UA", Session("f7"), 2), "To run both, give each process its own writer name"),
    ],
)
def test_message_shows_the_time_as_text(
    kind: type[NotedTimeError], facts: tuple[Any, ...], says: str
) -> None:
    """Numbers that are none, such as offsets and counts, are left alone."""
    assert says in str(kind(*facts))


def test_certain_loss_of_a_log_needs_no_restart() -> None:
    assert ": its id differs. The stream still has the old offsets" in str(
        Recreated("topic 'a'", "its id differs", is_certain=True)
    )


@pytest.mark.parametrize(
    ("kind", "given", "facts"),
    [
        (InvalidNote, ("UA", "invalid_time", TEN), {"status": "invalid_time", "last": TEN}),
        (InvalidCut, ({0: 5}, {1: 7}), {"behind": {0: 5}, "beyond": {1: 7}}),
        (InvalidFinalTime, ("ship", 5, TEN), {"domain": "ship", "lower": TEN}),
        (
            Fenced,
            ("UA", Session("f7", "host-b", TEN), 2),
            {"writer": "UA", "label": "host-b", "session": "f7", "began_at": TEN, "rows": 2},
        ),
        (DeliveryFailed, ("UA", 3, "too large"), {"failed": 3, "reason": "too large"}),
    ],
)
def test_error_has_its_facts_as_attributes(
    kind: type[NotedTimeError], given: tuple[Any, ...], facts: dict[str, Any]
) -> None:
    error = kind(*given)

    assert {name: getattr(error, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("zone", "time", "step_ms", "floor"),
    [
        ("America/Havana", "2026-11-01T05:30Z", DAY_MS, "2026-11-01T00:00:00-04:00"),
        ("America/Havana", "2026-11-01T05:30Z", HOUR_MS, "2026-11-01T00:00:00-05:00"),
        ("Europe/Berlin", "2026-10-25T01:00Z", HOUR_MS, "2026-10-25T02:00:00+01:00"),
    ],
)
def test_repeated_hour_begins_twice_and_a_day_once(
    zone: str, time: str, step_ms: int, floor: str
) -> None:
    time_ms = unix_ms_of(datetime.fromisoformat(time))

    assert format_in_zone(floor_time(time_ms, step_ms, ZoneInfo(zone)), ZoneInfo(zone)) == floor


class NamedZone(ZoneInfo):
    """A zone of another library, with a name."""

    def __str__(self) -> str:
        return "Europe/Berlin"


class UnhashableZone(ZoneInfo):
    """A zone of another library, without a name."""

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "tzfile('Europe/Berlin')"


@pytest.mark.parametrize(
    ("given", "zone"),
    [
        ("Europe/Berlin", load_zone("Europe/Berlin")),
        (load_zone("Europe/Berlin"), load_zone("Europe/Berlin")),
        (NamedZone("Asia/Tokyo"), load_zone("Europe/Berlin")),
        (ZoneInfo("UTC"), UTC),
        (timezone(timedelta(hours=1)), timezone(timedelta(hours=1))),
    ],
)
def test_zone_of_a_library_is_the_one_of_its_name(given: str | tzinfo, zone: tzinfo) -> None:
    """A fixed offset has no name, and stays."""
    assert parse_zone(given) == zone


def test_zone_without_a_name_must_be_hashable() -> None:
    """The changes of its clock are kept by the zone."""
    with pytest.raises(Unreadable, match=r"there is no zone .* here"):
        parse_zone(UnhashableZone("Asia/Tokyo"))


def test_week_begins_on_the_weekday_of_its_origin() -> None:
    """1970-01-05 was a Monday."""
    berlin = ZoneInfo("Europe/Berlin")
    sunday = unix_ms_of(datetime(2026, 11, 29, 23, tzinfo=UTC))

    week_before = floor_time(sunday - 1, WEEK_MS, berlin, origin=4 * DAY_MS)
    assert format_in_zone(week_before, berlin) == "2026-11-23T00:00:00+01:00"
    week = floor_time(sunday, WEEK_MS, berlin, origin=4 * DAY_MS)
    assert format_in_zone(week, berlin) == "2026-11-30T00:00:00+01:00"


@pytest.mark.parametrize(
    ("zone", "time", "step_ms", "floor"),
    [
        ("Pacific/Chatham", "2026-09-26T14:10Z", HOUR_MS, "2026-09-27T03:45:00+13:45"),
        ("Antarctica/Troll", "2026-03-29T01:10Z", 2 * HOUR_MS, "2026-03-29T03:00:00+02:00"),
        ("Europe/Berlin", "2026-03-29T01:10Z", 50 * 60_000, "2026-03-29T03:00:00+02:00"),
        ("Africa/Cairo", "2026-04-23T22:10Z", DAY_MS, "2026-04-24T01:00:00+03:00"),
    ],
)
def test_skipped_hour_begins_summer_time(zone: str, time: str, step_ms: int, floor: str) -> None:
    time_ms = unix_ms_of(datetime.fromisoformat(time))

    assert format_in_zone(floor_time(time_ms, step_ms, ZoneInfo(zone)), ZoneInfo(zone)) == floor


def turn_after(day: datetime, zone: ZoneInfo) -> int:
    days = [day + timedelta(days=number) for number in range(400)]
    offsets = [day.astimezone(zone).utcoffset() for day in days]
    turn = next((place for place, offset in enumerate(offsets) if offset != offsets[0]), 0)
    early = unix_ms_of(days[max(turn - 1, 0)])
    late = unix_ms_of(days[turn])
    while late - early > 1:
        middle = (early + late) // 2
        offset = (EPOCH + timedelta(milliseconds=middle)).astimezone(zone).utcoffset()
        early, late = (middle, late) if offset == offsets[0] else (early, middle)
    return late


@given(
    zone=st.sampled_from(sorted(available_timezones())).map(ZoneInfo),
    day=st.datetimes(datetime(1974, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - without the zone
    beside=st.integers(-2 * HOUR_MS, 3 * HOUR_MS),
    step_ms=st.sampled_from([7 * 60_000, HOUR_MS // 4, 3 * HOUR_MS // 2, HOUR_MS, DAY_MS]),
)
def test_floor_is_not_above_time(zone: ZoneInfo, day: datetime, beside: int, step_ms: int) -> None:
    time = turn_after(day, zone) + beside

    floor = floor_time(time, step_ms, zone)

    assert floor <= time
    assert floor_time(floor, step_ms, zone) == floor
