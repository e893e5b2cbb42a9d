"""Which records of a changefeed resolve a time."""

import pytest

from noted_time import Rejected
from noted_time.wing import resolved_time


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"[1]", b'{"after":{"resolved":"1790000000123456789.0000000000"}}'),
        (b"[1]", b'{"id":1,"resolved":"1790000000123456789.0000000000"}'),
        (None, b'{"after":{"resolved":"1790000000123456789.0000000000"}}'),
        (None, b'{"after":{"id":1}}'),
        (b"[1]", None),
        (None, b"\x00\x00\x00\x00\x07resolved"),
    ],
)
def test_rows_resolve_nothing(key: bytes | None, value: bytes | None) -> None:
    """Also those of a table with such a column, deletions, and Avro."""
    assert resolved_time(key, value) is None


@pytest.mark.parametrize(
    "value",
    [
        b'{"resolved":1790000000123456789}',
        b'{"resolved":"1790000000123"}',
        b'{"resolved":"1790000000123456789.0000000000","also":1}',
        b'{"resolved":"-1.0000000000"}',
        b'{"resolved":null}',
        b'["resolved"]',
        b'{"resolved":',
        b'{"resolved":' + b"[" * 100_000,
        b'{"resolved":' + b"1" * 5_000 + b"}",
    ],
)
def test_what_only_looks_like_one_is_refused(value: bytes) -> None:
    """Its time would be a guess."""
    with pytest.raises(Rejected, match="is not a resolved record of CockroachDB"):
        resolved_time(None, value)


def test_a_time_that_is_too_late_is_refused() -> None:
    """It would move the partition's time there for good."""
    value = b'{"resolved":"1790000000123456789.0000000000"}'
    with pytest.raises(Rejected, match=r"resolves 2026-09-21T14:13:20\.123Z, ahead of this clock"):
        resolved_time(None, value, latest=1790000000122)

    assert resolved_time(None, value, latest=1790000000123) == 1790000000123
