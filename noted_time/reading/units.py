"""Recognises times in another unit than Unix ms."""

from __future__ import annotations

from noted_time.values import LEAST_UNIX_MS, ImplausibleTime, look_like_seconds


def check_time(time: int, lower: int | None) -> None:
    """Raise `ImplausibleTime` if `time` is in seconds, and the lower in ms."""
    if lower is not None and lower > LEAST_UNIX_MS and look_like_seconds(time):
        raise ImplausibleTime(time, lower)
