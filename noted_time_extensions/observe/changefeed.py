"""Reads the records of CockroachDB's changefeeds that declare a time as complete."""

from __future__ import annotations

import json
import re

from noted_time.extending import Rejected

RESOLVED_FIELD = b'"resolved"'

HLC_PATTERN = re.compile(r"(\d{13,19})\.\d{10}")
"""A time of CockroachDB: ns since 1970, and a logical counter."""

NS_IN_MS = 1_000_000


def read_resolved_time(key: bytes | None, value: bytes | None) -> int | None:
    """Return the time (ms) that a changefeed's record resolves, or `None`.

    Later rows of the partition changed at or after that time, except repeated rows. A resolved
    record has no key and no other field; some envelopes have it in ``__crdb__``:

    >>> read_resolved_time(None, b'{"__crdb__":{"resolved":"1790000000123456789.0000000000"}}')
    1790000000123
    >>> read_resolved_time(b"[7]", b'{"after":{"id":7,"resolved":"no"}}')

    Raises `Rejected` for other records without a key that contain `resolved`.
    """
    if key or value is None or RESOLVED_FIELD not in value:
        return None
    try:
        record = json.loads(value)
    except (ValueError, RecursionError):
        record = None
    match record:
        case {"resolved": str(time), **rest} | {"__crdb__": {"resolved": str(time)}, **rest}:
            match_of_time = HLC_PATTERN.fullmatch(time)
            if match_of_time is not None and not rest:
                return int(match_of_time[1]) // NS_IN_MS
        case {"after": _} | {"before": _}:
            return None
    raise Rejected(f"is not a resolved record of CockroachDB: {value[:80]!r}")
