"""The records of change data capture that say up to which time it is complete (CockroachDB)."""

from __future__ import annotations

import json
import re

from noted_time.values import Rejected

RESOLVED_FIELD = b'"resolved"'
"""In the value of each such record; few others have it, and those are parsed to tell them apart."""

HLC_PATTERN = re.compile(r"(\d{13,19})\.\d{10}")
"""A time of CockroachDB: ns since 1970, and a logical counter."""

NS_IN_MS = 1_000_000


def read_resolved_time(key: bytes | None, value: bytes | None) -> int | None:
    """Return the time in ms that a record of a changefeed resolves, `None` for all others.

    Each row that comes later in the same partition was changed at that time or after it, unless it
    is repeated. Such a record has no key, and its value has nothing else at the top level:

    >>> read_resolved_time(None, b'{"resolved":"1790000000123456789.0000000000"}')
    1790000000123
    >>> read_resolved_time(None, b'{"__crdb__":{"resolved":"1790000000123456789.0000000000"}}')
    1790000000123
    >>> read_resolved_time(b"[7]", b'{"after":{"id":7,"resolved":"no"}}')

    The second is that of the envelopes `bare`, `row` and `enriched`. Raises `Rejected` for a record
    without a key that names `resolved` in any other way, as one from another tool may.
    """
    if key or value is None or RESOLVED_FIELD not in value:
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    match found:
        case {"resolved": str(time), **rest} | {"__crdb__": {"resolved": str(time)}, **rest}:
            matched = None if rest else HLC_PATTERN.fullmatch(time)
            if matched is not None:
                return int(matched[1]) // NS_IN_MS
        case {"after": _} | {"before": _}:
            return None
    raise Rejected(f"is not a resolved record of CockroachDB: {value[:80]!r}")
