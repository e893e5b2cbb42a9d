"""How moments and durations are spelled in a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spelled(unix_ms: int) -> str:
    """Return a moment in Unix ms as people read it, or the number beyond the years they count.

    >>> spelled(1357041600000), spelled(2**62)
    ('2013-01-01T12:00:00+00:00', '4611686018427387904')
    """
    try:
        return (_EPOCH + timedelta(milliseconds=unix_ms)).isoformat()
    except OverflowError:
        return str(unix_ms)


def month(unix_ms: int) -> str:
    """Return the month of a moment in Unix ms.

    >>> month(1357041600000)
    'January 2013'
    """
    return f"{_EPOCH + timedelta(milliseconds=unix_ms):%B %Y}"


def shown_duration(ms: int) -> str:
    """Return a duration in its largest unit and the next smaller one, the rest cut off.

    >>> [shown_duration(ms) for ms in (0, 500, 5_400_000, 240_017, 90_000_000)]
    ['0ms', '500ms', '1h 30m', '4m', '1d 1h']
    """
    parts = []
    for unit, size in UNITS_MS.items():
        number, ms = divmod(ms, size)
        parts.append(f"{number}{unit}" if number else "")
    first = next((at for at, part in enumerate(parts) if part), None)
    return "0ms" if first is None else " ".join(filter(None, parts[first : first + 2]))
