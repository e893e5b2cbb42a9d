"""Rounds and formats times in a time zone."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

from noted_time.values.errors import Unreadable, suggest_names
from noted_time.values.parsing import unix_ms_of
from noted_time.values.times import DAY_MS, EPOCH, UNIX_MS, format_time

Zone = tzinfo
UTC_ZONE: Zone = UTC

FIRST_MIDNIGHT = EPOCH.replace(tzinfo=None)


def parse_zone(name: str | tzinfo) -> tzinfo:
    """Return the zone with a name, such as Europe/Berlin, or raise `Unreadable`."""
    if isinstance(name, tzinfo):
        return name
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (OSError, KeyError, ValueError) as error:
        cities = {each.lower().rpartition("/")[2]: each for each in sorted(available_timezones())}
        near = get_close_matches(name[:40].lower().rpartition("/")[2], cities, n=1, cutoff=0.75)
        remedy = suggest_names([cities[each] for each in near]) or "use for example Europe/Berlin"
        raise Unreadable(f"there is no zone {name[:40]!r} here: {remedy}") from error


def floor_time(time: int, step_ms: int, zone: tzinfo = UTC, origin: int = 0) -> int:
    """Round `time` down to a multiple of `step_ms` on the clock of a zone, in Unix ms.

    Multiples of `step_ms` (at least 1) count from `origin` ms after 1970-01-01T00:00 on that clock.
    A step of whole days starts at the first midnight of a day. If the clock skips a multiple, the
    multiple starts when the clock is put forward.

    >>> from zoneinfo import ZoneInfo
    >>> floor_time(1357036230000, 3_600_000)  # 10:30:30 to 10:00 in UTC
    1357034400000

    When summer time ends in Berlin, two hours start at two o'clock:

    >>> berlin, hour = ZoneInfo("Europe/Berlin"), 3_600_000
    >>> def shown(time: str, step_ms: int) -> str:
    ...     given = int(datetime.fromisoformat(time).timestamp() * 1000)
    ...     return format_in_zone(floor_time(given, step_ms, berlin), berlin)
    >>> shown("2026-10-25T23:30+01:00", 24 * hour)
    '2026-10-25T00:00:00+02:00'
    >>> shown("2026-10-25T02:30+02:00", hour), shown("2026-10-25T02:30+01:00", hour)
    ('2026-10-25T02:00:00+02:00', '2026-10-25T02:00:00+01:00')

    Raises `Unreadable` if the time is not Unix ms and the zone is not UTC.
    """
    if zone is UTC:
        return time - (time - origin) % step_ms
    wall_ms = (_wall(time, zone) - FIRST_MIDNIGHT) // timedelta(milliseconds=1)
    border_ms = wall_ms - (wall_ms - origin) % step_ms
    if border_ms < 0:
        raise Unreadable(f"{step_ms} ms from {origin} begin before 1970: use a smaller origin")
    border = FIRST_MIDNIGHT + timedelta(milliseconds=border_ms)
    # the border occurs twice if the clock is put back, or not at all if it is put forward
    first, second = (unix_ms_of(border.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if second < first:  # the clock skips the border and jumps between these two times
        jump = bisect_left(range(second, first), border, key=lambda ms: _wall(ms, zone))
        return second + jump
    if step_ms % DAY_MS == 0 or second > time:
        return first
    return max(first, second)


def format_in_zone(time: int, zone: tzinfo = UTC) -> str:
    """Return a time in ISO 8601 with the offset of a zone, or `Z` for UTC.

    >>> from zoneinfo import ZoneInfo
    >>> format_in_zone(1357034400000), format_in_zone(1357034400250, ZoneInfo("Europe/Berlin"))
    ('2013-01-01T10:00:00Z', '2013-01-01T11:00:00.250+01:00')
    """
    if zone is UTC:
        return format_time(time)
    return _local(time, zone).isoformat(timespec="milliseconds" if time % 1000 else "seconds")


def _wall(time: int, zone: tzinfo) -> datetime:
    return _local(time, zone).replace(tzinfo=None)


def _local(time: int, zone: tzinfo) -> datetime:
    if time not in UNIX_MS:
        raise Unreadable(f"{time} is not in Unix ms: no calendar has it, so leave out the zone")
    return (EPOCH + timedelta(milliseconds=time)).astimezone(zone)
