"""Converts times on the clock of a zone to moments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

from noted_time.values.calendar import find_offset, list_clock_changes
from noted_time.values.parsing import unix_ms_of
from noted_time.values.times import DAY_MS, UNIX_MS


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


def list_local_spans(zone: tzinfo, first: int, last: int) -> Sequence[LocalSpan]:
    """Divide the local times that a clock shows from one moment to another, both included.

    The spans are in order of local time, and have no gap. Both moments are in Unix ms. Times
    outside 1971 to 2199 have no span.

    >>> from noted_time.values import parse_time, parse_zone
    >>> march, november = map(parse_time, ("2026-03-20T11:00Z", "2026-11-01T11:00Z"))
    >>> spans = list_local_spans(parse_zone("Europe/Berlin"), march, november)
    >>> [(span.offset, span.second_offset) for span in spans]
    [(3600000, 3600000), (None, None), (7200000, 7200000), (7200000, 3600000), (3600000, 3600000)]
    """
    first, last = max(first, UNIX_MS.start), min(last, UNIX_MS.stop - 1)
    if last < first:
        return []
    least = first + find_offset(first, zone)
    beyond = last + find_offset(last, zone) + 1
    spans = []
    start = least - DAY_MS
    offset = find_offset(max(first - DAY_MS, UNIX_MS.start), zone)
    for change in list_clock_changes(zone, first - DAY_MS, last + DAY_MS):
        before, after = change.offset_before, change.offset_after
        border, other_border = sorted((change.at + before, change.at + after))
        spans.append(LocalSpan(start, border, before, before))
        if before < after:
            spans.append(LocalSpan(border, other_border, None, None))
        else:
            spans.append(LocalSpan(border, other_border, before, after))
        if first < change.at <= last:
            least = min(least, change.at + after)
            beyond = max(beyond, change.at + before)
        start, offset = other_border, after
    spans.append(LocalSpan(start, beyond, offset, offset))
    return _clip_spans(spans, least, beyond)


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


def _clip_spans(spans: Sequence[LocalSpan], least: int, beyond: int) -> list[LocalSpan]:
    clipped = []
    for span in spans:
        start, end = max(span.start, least), min(span.end, beyond)
        if start < end:
            clipped.append(span._replace(start=start, end=end))
    return clipped
