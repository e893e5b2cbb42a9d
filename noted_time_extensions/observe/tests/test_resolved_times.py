"""Messages of changefeeds, with and without a resolved time."""

import pytest

from noted_time import Rejected
from noted_time_extensions.observe.changefeed import read_resolved_time


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
    """Rows of a table with such a column, deletions, and Avro do not."""
    assert read_resolved_time(key, value) is None


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
def test_similar_message_is_not_a_resolved_time(value: bytes) -> None:
    """Its time would be a guess."""
    with pytest.raises(Rejected, match="is not a resolved record of CockroachDB"):
        read_resolved_time(None, value)
