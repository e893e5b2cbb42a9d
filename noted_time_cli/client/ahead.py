"""Finds writers that note times ahead of the controller's clock."""

from __future__ import annotations

from collections.abc import Iterable

from noted_time.client import Json
from noted_time.values import UNIX_MS, YEAR_MS, format_seconds, format_time, join_names

LEAST_LEAD_MS = 5000  # clocks set by NTP differ by less


def is_ahead(time: int, now: int) -> bool:
    """Return whether a time is ahead of the clock. Times that are not near it are of another clock.

    >>> noon = 1_357_041_600_000
    >>> [is_ahead(time, noon) for time in (noon + 5000, noon + 5001, noon * 2, 42)]
    [False, True, False, False]
    """
    return time in UNIX_MS and LEAST_LEAD_MS < time - now < YEAR_MS


def describe_lead(row: Json, now: int) -> str:
    """Return how far the latest time of a writer is ahead of the clock, or `""`.

    >>> describe_lead({"state": "live", "times": {"default": 1357041900000}}, 1357041600000)
    'noted 2013-01-01T12:05:00Z, 5m ahead'
    """
    if row["state"] not in {"live", "idle"} or not row["times"]:
        return ""
    latest_time = max(row["times"].values())
    if not is_ahead(latest_time, now):
        return ""
    return f"noted {format_time(latest_time)}, {format_seconds(latest_time - now)} ahead"


def describe_leads(rows: Iterable[Json], now: int) -> str:
    """Return a sentence that names the writers ahead of the clock, or `""`."""
    writers: list[str] = []
    for row in rows:
        lead = describe_lead(row, now)
        if lead:
            writers.append(f"{row['writer']} ({lead})")
    if not writers:
        return ""
    return (
        f"Ahead of the controller's clock: {join_names(writers)}. What they write below these "
        "times is late: correct their clocks or their event times."
    )
