"""Rounds, formats and converts times of a time zone, and finds the changes of its clock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from noted_time.values.errors import Unreadable, suggest_names
from noted_time.values.parsing import unix_ms_of
from noted_time.values.times import DAY_MS, EPOCH, UNIX_MS, YEAR_MS, format_time
from noted_time.values.zones import ReleasedZone, list_zone_names, load_zone

Zone = tzinfo
UTC_ZONE: Zone = UTC

FIRST_MIDNIGHT = EPOCH.replace(tzinfo=None)

OFFSET_PROBE_MS = 5 * DAY_MS
"""No zone has changed its clock twice in so short a time since 1971."""

KEPT_YEARS = 4096
"""How many years of zones are kept with their changes, each of at most a few."""


class ClockChange(NamedTuple):
    """The moment `at` (Unix ms) when a clock is set from an offset from UTC to another, in ms."""

    at: int
    offset_before: int
    offset_after: int


def _find_city(zone: str) -> str:
    return zone.lower().rpartition("/")[2]


def parse_zone(name: str | tzinfo) -> tzinfo:
    """Return the zone with a name, such as Europe/Berlin, or raise `Unreadable`.

    Its data are the newest that are installed. A zone of another library is replaced by the zone
    with its name. Without a name, as for a fixed offset, it must be hashable.
    """
    if isinstance(name, ReleasedZone):
        return name
    text = str(name)
    try:
        return UTC if text == "UTC" else load_zone(text)
    except (KeyError, ValueError) as error:
        if isinstance(name, tzinfo) and isinstance(name, Hashable):
            return name
        zones_by_city = {_find_city(zone): zone for zone in list_zone_names()}
        remedy = "use for example Europe/Berlin"
        for city in get_close_matches(_find_city(text[:40]), zones_by_city, n=1, cutoff=0.75):
            remedy = suggest_names([zones_by_city[city]])
        raise Unreadable(f"there is no zone {text[:40]!r} here: {remedy}") from error


def floor_time(time: int, step_ms: int, zone: tzinfo = UTC, origin: int = 0) -> int:
    """Round `time` down to a multiple of `step_ms` on the clock of a zone, in Unix ms.

    Multiples of `step_ms` (at least 1) count from `origin` ms after 1970-01-01T00:00 on that clock.
    A step of whole days starts at the first midnight of a day. If the clock skips a multiple, the
    multiple starts when the clock is put forward.

    >>> floor_time(1357036230000, 3_600_000)  # 10:30:30 to 10:00 in UTC
    1357034400000

    When summer time ends in Berlin, two hours start at two o'clock:

    >>> berlin, hour = parse_zone("Europe/Berlin"), 3_600_000
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


def list_clock_changes(zone: tzinfo, start: int, end: int) -> Iterator[ClockChange]:
    """Yield the changes of the clock after a time, and at or before another, from 1971 to 2199.

    >>> berlin = parse_zone("Europe/Berlin")
    >>> changes = list_clock_changes(berlin, 1357034400000, 1388570400000)
    >>> [format_in_zone(each.at, berlin) for each in changes]
    ['2013-03-31T03:00:00+02:00', '2013-10-27T02:00:00+01:00']
    """
    start = max(start, UNIX_MS.start)
    end = min(end, UNIX_MS.stop)
    for year in range(start // YEAR_MS, end // YEAR_MS + 1):
        for change in _find_clock_changes(zone, year):
            if start < change.at <= end:
                yield change


def list_clock_borders(after: int, step_ms: int, zone: tzinfo, origin: int = 0) -> Iterator[int]:
    """Yield the moments after a time when the clock is changed, or shows a multiple of `step_ms`.

    Multiples count from `origin` as in `floor_time`. Between these moments, it returns one value.
    """
    while True:
        offset = find_offset(after, zone)
        border = after + step_ms - (after + offset - origin) % step_ms
        change = next(list_clock_changes(zone, after, border), None)
        after = border if change is None else change.at
        yield after


def has_disorder(change: ClockChange, step_ms: int, origin: int = 0) -> bool:
    """Return whether a change of the clock puts times back into an earlier step of `step_ms`.

    This is so if the clock shows again times on both sides of a multiple. If the multiple is the
    first of these times, it begins twice, and both steps are in order.

    >>> back_from_two_to_one = ClockChange(7_200_000, offset_before=0, offset_after=-3_600_000)
    >>> [has_disorder(back_from_two_to_one, minutes * 60_000) for minutes in (30, 60, 90, 120)]
    [False, False, True, False]
    """
    first_repeated = change.at + change.offset_after
    last_repeated = change.at + change.offset_before - 1
    is_first_a_multiple = (first_repeated - origin) % step_ms == 0
    last_multiple = last_repeated - (last_repeated - origin) % step_ms
    return last_multiple > first_repeated and not is_first_a_multiple


def find_offset(time: int, zone: tzinfo) -> int:
    """Return by how many ms the clock of a zone is ahead of UTC at a moment, in Unix ms."""
    offset = _local(time, zone).utcoffset() or timedelta()
    return offset // timedelta(milliseconds=1)


def format_in_zone(time: int, zone: tzinfo = UTC) -> str:
    """Return a time in ISO 8601 with the offset of a zone, or `Z` for UTC.

    >>> format_in_zone(1357034400000), format_in_zone(1357034400250, parse_zone("Europe/Berlin"))
    ('2013-01-01T10:00:00Z', '2013-01-01T11:00:00.250+01:00')
    """
    if zone is UTC:
        return format_time(time)
    return _local(time, zone).isoformat(timespec="milliseconds" if time % 1000 else "seconds")


class LocalSpan(NamedTuple):
    """Local times from `start` to `end`, exclusive, which a clock shows in one way.

    Both are ms after 1970-01-01T00:00 on that clock. A local time is `offset` ms ahead of UTC, and
    `second_offset` when the clock shows it once more: the two differ in an hour that exists twice.
    Both are `None` for local times that the clock skips.
    """

    start: int
    end: int
    offset: int | None
    second_offset: int | None


def list_local_spans(zone: tzinfo, first_moment: int, last_moment: int) -> Sequence[LocalSpan]:
    """Divide the local times that a clock shows from one moment to another, both included.

    The spans are in order of local time, and have no gap. Both moments are in Unix ms. Times
    outside 1971 to 2199 have no span.

    >>> from noted_time.values import parse_time, parse_zone
    >>> march, november = map(parse_time, ("2026-03-20T11:00Z", "2026-11-01T11:00Z"))
    >>> spans = list_local_spans(parse_zone("Europe/Berlin"), march, november)
    >>> [(span.offset, span.second_offset) for span in spans]
    [(3600000, 3600000), (None, None), (7200000, 7200000), (7200000, 3600000), (3600000, 3600000)]
    """
    first_moment = max(first_moment, UNIX_MS.start)
    last_moment = min(last_moment, UNIX_MS.stop - 1)
    if last_moment < first_moment:
        return []
    first_local = first_moment + find_offset(first_moment, zone)
    end_of_local = last_moment + find_offset(last_moment, zone) + 1
    spans = []
    start = first_local - DAY_MS
    offset = find_offset(max(first_moment - DAY_MS, UNIX_MS.start), zone)
    for change in list_clock_changes(zone, first_moment - DAY_MS, last_moment + DAY_MS):
        offset_before = change.offset_before
        offset_after = change.offset_after
        border, other_border = sorted((change.at + offset_before, change.at + offset_after))
        spans.append(LocalSpan(start, border, offset_before, offset_before))
        if offset_before < offset_after:
            spans.append(LocalSpan(border, other_border, None, None))
        else:
            spans.append(LocalSpan(border, other_border, offset_before, offset_after))
        if first_moment < change.at <= last_moment:
            first_local = min(first_local, change.at + offset_after)
            end_of_local = max(end_of_local, change.at + offset_before)
        start = other_border
        offset = offset_after
    spans.append(LocalSpan(start, end_of_local, offset, offset))
    return _clip_spans(spans, first_local, end_of_local)


def convert_local(time: datetime, zone: tzinfo) -> tuple[int, int] | None:
    """Return both moments when a clock shows a time, in Unix ms, `None` if it skips the time.

    The two are equal but in an hour that exists twice.

    >>> from noted_time.values import parse_zone
    >>> berlin = parse_zone("Europe/Berlin")
    >>> first, second = convert_local(datetime(2026, 10, 25, 2, 30), berlin)
    >>> second - first, convert_local(datetime(2026, 3, 29, 2, 30), berlin)
    (3600000, None)
    """
    first = unix_ms_of(time.replace(tzinfo=zone, fold=0))
    second = unix_ms_of(time.replace(tzinfo=zone, fold=1))
    return None if second < first else (first, second)


@lru_cache(maxsize=KEPT_YEARS)
def _find_clock_changes(zone: tzinfo, year: int) -> tuple[ClockChange, ...]:
    """Return the changes within a `year` of 365 days, counted from 1970."""
    changes = []
    start = max(year * YEAR_MS, UNIX_MS.start)
    stop = min((year + 1) * YEAR_MS, UNIX_MS.stop - 1)
    offset_before = find_offset(start, zone)
    for probe_start in range(start, stop, OFFSET_PROBE_MS):
        probe_end = min(probe_start + OFFSET_PROBE_MS, stop)
        offset_after = find_offset(probe_end, zone)
        if offset_before != offset_after:
            moments = range(probe_start, probe_end)
            index = bisect_left(moments, 1, key=lambda ms: find_offset(ms, zone) == offset_after)
            changes.append(ClockChange(probe_start + index, offset_before, offset_after))
            offset_before = offset_after
    return tuple(changes)


def _wall(time: int, zone: tzinfo) -> datetime:
    return _local(time, zone).replace(tzinfo=None)


def _local(time: int, zone: tzinfo) -> datetime:
    if time not in UNIX_MS:
        raise Unreadable(f"{time} is not in Unix ms: no calendar has it, so leave out the zone")
    return (EPOCH + timedelta(milliseconds=time)).astimezone(zone)


def _clip_spans(spans: Sequence[LocalSpan], first_local: int, end_of_local: int) -> list[LocalSpan]:
    clipped_spans = []
    for span in spans:
        start = max(span.start, first_local)
        end = min(span.end, end_of_local)
        if start < end:
            clipped_spans.append(span._replace(start=start, end=end))
    return clipped_spans
