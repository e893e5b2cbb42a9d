"""Converts local times in Spark by the offsets of our zone data, not of the JVM's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta, tzinfo
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time.values import (
    FIRST_MIDNIGHT,
    LocalSpan,
    Time,
    list_local_spans,
    parse_zone,
    unix_ms_of,
)

US_PER_MS = 1000
US_PER_SECOND = 10**6
US_PER_DAY = 86_400 * US_PER_SECOND


class OffsetBranch(NamedTuple):
    """Local times before `end`, and not before the previous one, are `offset` ahead of UTC.

    Both are in ms, `end` after 1970-01-01T00:00 on the clock. Without `offset`, they are null.
    """

    end: int
    offset: int | None


def build_utc_expression(
    local_column: Column, zone: tzinfo | str, first: Time, last: Time
) -> Column:
    """Return the instants of a TIMESTAMP_NTZ column on the clock of a zone, such as Europe/Berlin.

    The expression has the offsets of our zone data from `first` to `last` (Unix ms or aware
    `datetime`s), as observers have. So neither the JVM's zone data nor the session's zone matter.
    In an hour that exists twice, it takes the first pass. It is null for a null, for a time that
    the zone skipped, and for a time outside `first` to `last`. Raises `Unreadable` for an unknown
    zone.
    """
    spans = list_local_spans(parse_zone(zone), unix_ms_of(first), unix_ms_of(last))
    offset_us = F.when(local_column.isNull(), _build_number(None))
    for branch in list_branches(spans):
        is_before = local_column < _build_local_time(branch.end)
        offset_us = offset_us.when(is_before, _build_number(branch.offset))
    return F.timestamp_micros(_count_us(local_column) - offset_us)


def list_branches(spans: Sequence[LocalSpan]) -> list[OffsetBranch]:
    """Return the branches for the first moments of local times.

    >>> once, twice = LocalSpan(10, 20, 7, 7), LocalSpan(20, 25, 7, 2)
    >>> [tuple(each) for each in list_branches([once, twice, LocalSpan(25, 30, 2, 2)])]
    [(10, None), (25, 7), (30, 2)]
    """
    branches: list[OffsetBranch] = []
    for span in spans:
        if not branches:
            branches.append(OffsetBranch(span.start, None))
        elif branches[-1].offset == span.offset:
            branches.pop()
        branches.append(OffsetBranch(span.end, span.offset))
    return branches


def _build_number(offset_ms: int | None) -> Column:
    return F.lit(None if offset_ms is None else offset_ms * US_PER_MS).cast("bigint")


def _build_local_time(local_ms: int) -> Column:
    time = FIRST_MIDNIGHT + timedelta(milliseconds=local_ms)
    return F.expr(f"TIMESTAMP_NTZ'{time.isoformat(sep=' ')}'")


def _count_us(local_column: Column) -> Column:
    """Return the microseconds after 1970-01-01T00:00 on the clock.

    A cast to TIMESTAMP would ask the session's zone.
    """
    days = F.unix_date(local_column.cast("date")).cast("bigint")
    minutes = F.hour(local_column) * 60 + F.minute(local_column)
    seconds = minutes * 60 + F.date_part(F.lit("SECOND"), local_column)
    return days * US_PER_DAY + (seconds * US_PER_SECOND).cast("bigint")
