"""Rejects rows that are mostly ahead of their arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noted_time.extending import DAY_MS, HOUR_MS, Rejected, format_duration, pluralize
from noted_time_extensions.analyse.curves import find_lead

if TYPE_CHECKING:
    from noted_time_extensions.analyse.reading.rows import Rows, Times

HALF_HOUR_MS = HOUR_MS // 2

MOST_BETWEEN_ZONES_MS = 26 * HOUR_MS
"""From UTC-12 to UTC+14."""

LATENCY_MS = 300_000
"""Rows with times of another zone are ahead by its offset, less the time that they take."""

CLOCK_ERROR_MS = 60_000

FACTOR_ERROR = 0.01
"""An event and its arrival are months apart, at most, of the half century since 1970."""


def check_leads(rows: Rows, ahead_ms: int) -> None:
    """Raise `Rejected` if most rows are more than `ahead_ms` ahead of their arrival.

    Then a zone or a unit is wrong, or the times are planned, and no delay follows from them.
    """
    if rows.arrivals is None:
        return
    median_lead_ms = find_lead(rows.arrivals, rows.times, ahead_ms)
    if median_lead_ms is None:
        return
    leads = rows.times - rows.arrivals
    ahead_count = int(np.count_nonzero(leads > ahead_ms))
    fact = (
        f"{ahead_count:,} of {pluralize(len(leads), 'row')} are ahead of their arrival by more "
        f"than {format_duration(ahead_ms)}, by {format_duration(median_lead_ms)} in the median"
    )
    factor = _find_factor(rows.times, rows.arrivals)
    if factor is not None:
        raise Rejected(
            f"{fact}, because {rows.event_time} is about {factor:,} times the arrival: a unit? "
            "Write both columns in one unit, because --unit is for both"
        )
    hours = int(leads.max()) // HOUR_MS + 1
    planned_remedy = f"If these times are planned, pass --ahead {hours}h"
    if is_offset(median_lead_ms):
        raise Rejected(
            f"{fact}: a zone? If the times of {rows.event_time} are local, pass their --zone. "
            f"{planned_remedy}"
        )
    raise Rejected(
        f"{fact}: is {rows.event_time} the time of an event, and right? {planned_remedy}"
    )


def is_offset(lead_ms: int) -> bool:
    """Return whether a lead is nearly a whole or half hour, as between two zones.

    >>> [is_offset(ms) for ms in (3_598_000, 3_630_000, 1_700_000, 900_000, 99_000_000)]
    [True, True, True, False, False]
    """
    offset = (lead_ms + LATENCY_MS) // HALF_HOUR_MS * HALF_HOUR_MS
    return 0 < offset <= MOST_BETWEEN_ZONES_MS and lead_ms - offset <= CLOCK_ERROR_MS


def _find_factor(times: Times, arrivals: Times) -> int | None:
    """Return the power of 1,000 that separates times from their arrivals, if any."""
    median_time = float(np.median(times))
    median_arrival = float(np.median(arrivals))
    if median_arrival <= DAY_MS:
        return None
    for factor in (10**3, 10**6, 10**9):
        if abs(median_time / median_arrival / factor - 1) < FACTOR_ERROR:
            return factor
    return None
