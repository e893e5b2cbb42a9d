"""Recognises times in another unit than Unix ms."""

from __future__ import annotations

from noted_time.values import LEAST_UNIX_MS, Bounds, ImplausibleTime, format_month

UNIX_SECONDS = Bounds(10**8 + 1, LEAST_UNIX_MS)
"""1973 to 5138 in seconds, or January 1970 to March 1973 in ms."""


def look_like_seconds(time: int) -> bool:
    return time in UNIX_SECONDS


def describe_doubt(time: int) -> str:
    """Return a question about a time that looks like seconds.

    >>> describe_doubt(1795255200)
    '1795255200, which is January 1970: are these seconds?'
    """
    return f"{time}, which is {format_month(time)}: are these seconds?"


def check_time(time: int, lower: int | None) -> None:
    """Raise `ImplausibleTime` if `time` is in seconds, and the lower in ms."""
    if lower is not None and lower > LEAST_UNIX_MS and look_like_seconds(time):
        raise ImplausibleTime(time, lower)
