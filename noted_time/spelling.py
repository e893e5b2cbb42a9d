"""How a moment is spelled in a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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
