"""Local times of random zones: the spans of a zone have the moments that `datetime` gives.

The law: of an hour that exists twice it is the first moment, and of a skipped hour there is none.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta
from itertools import pairwise
from operator import attrgetter

from hypothesis import given
from hypothesis import strategies as st

from noted_time.values import (
    DAY_MS,
    EPOCH,
    UNIX_MS,
    LocalSpan,
    convert_local,
    list_clock_changes,
    list_local_spans,
)
from noted_time.values.zones import (
    ReleasedZone,
    list_zone_names,
    list_zone_sources,
    load_released_zone,
    load_zone,
)

LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - on the clock of any zone

CHANGED_ZONES = ("Africa/Casablanca", "America/Edmonton", "America/Inuvik", "America/Vancouver")
"""Their laws changed in 2026, so that installed releases may differ."""

RELEASES = [zone_source.release for zone_source in list_zone_sources()]


def find_zone(key: str, release: str | None) -> ReleasedZone:
    """Return the zone of a release, or the newest if that release lacks it."""
    try:
        return load_released_zone(key, release)
    except KeyError:
        return load_zone(key)


zones = st.builds(
    find_zone,
    st.sampled_from(CHANGED_ZONES) | st.sampled_from(list_zone_names()),
    st.sampled_from(RELEASES),
)
moments = st.integers(UNIX_MS.start, UNIX_MS.stop - 1)


def read_by_spans(spans: list[LocalSpan], local: int) -> tuple[int, int] | None:
    """Return both moments of a local time, which a span must cover."""
    span = spans[bisect_right(spans, local, key=attrgetter("start")) - 1]
    assert span.start <= local < span.end
    if span.offset is None or span.second_offset is None:
        return None
    return local - span.offset, local - span.second_offset


def as_datetime(local: int) -> datetime:
    return LOCAL_EPOCH + timedelta(milliseconds=local)


@given(zones, moments, st.integers(0, 3 * 365 * DAY_MS), st.data())
def test_spans_give_the_moments_of_datetime(
    zone: ReleasedZone, first: int, length: int, data: st.DataObject
) -> None:
    last = min(first + length, UNIX_MS.stop - 1)
    spans = [*list_local_spans(zone, first, last)]
    borders = []
    for span in spans:
        borders += [span.start, span.end - 1]
    shown_times = st.sampled_from(borders) | st.integers(spans[0].start, spans[-1].end - 1)
    local = data.draw(shown_times)

    assert read_by_spans(spans, local) == convert_local(as_datetime(local), zone)


@given(zones, moments, st.integers(0, 3 * 365 * DAY_MS), st.data())
def test_spans_cover_what_the_clock_shows(
    zone: ReleasedZone, first: int, length: int, data: st.DataObject
) -> None:
    last = min(first + length, UNIX_MS.stop - 1)
    spans = list_local_spans(zone, first, last)
    changes = [clock_change.at for clock_change in list_clock_changes(zone, first, last)]
    borders = [first, last]
    for changed_at in changes:
        borders += [changed_at, max(first, changed_at - 1)]
    moment = data.draw(st.sampled_from(borders) | st.integers(first, last))
    wall = (EPOCH + timedelta(milliseconds=moment)).astimezone(zone)
    local = (wall.replace(tzinfo=None) - LOCAL_EPOCH) // timedelta(milliseconds=1)

    for span, next_span in pairwise(spans):
        assert span.end == next_span.start
    assert spans[0].start <= local < spans[-1].end


@given(zones)
def test_spans_begin_in_1971_and_end_in_2199(zone: ReleasedZone) -> None:
    early = [*list_local_spans(zone, 0, UNIX_MS.start + DAY_MS)]
    late = [*list_local_spans(zone, UNIX_MS.stop - DAY_MS, UNIX_MS.stop + DAY_MS)]

    for spans, local in ((early, early[0].start), (late, late[-1].end - 1)):
        assert read_by_spans(spans, local) == convert_local(as_datetime(local), zone)
    assert [*list_local_spans(zone, 0, 0)] == []
