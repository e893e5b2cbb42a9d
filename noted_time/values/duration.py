"""Durations as people write them."""

from __future__ import annotations

import re

from noted_time.values.errors import Unreadable
from noted_time.values.spelling import UNITS_MS

LONGEST_MS = 999_999 * UNITS_MS["d"]
FORM = re.compile(r"(0|[1-9][0-9]{0,15})(ms|s|m|h|d)", re.ASCII)


def duration_ms(text: str) -> int:
    """Return the ms of a duration: a whole number and its unit; raises `Unreadable`.

    >>> duration_ms("500ms"), duration_ms("90m"), duration_ms("1h"), duration_ms("0s")
    (500, 5400000, 3600000, 0)
    >>> duration_ms("1.5h")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    noted_time.Unreadable: invalid duration '1.5h'; use for example 90d, 12h, ...
    """
    parts = FORM.fullmatch(text)
    found = int(parts[1]) * UNITS_MS[parts[2]] if parts else LONGEST_MS + 1
    if found > LONGEST_MS:
        raise Unreadable(
            f"invalid duration {text[:40]!r}; use for example 90d, 12h, 30m, 45s or 500ms"
        )
    return found
