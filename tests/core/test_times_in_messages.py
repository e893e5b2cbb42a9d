"""People read times in ISO 8601; times of another clock stay integers."""

from __future__ import annotations

import pytest

from noted_time.values import ImplausibleTime, InvalidFinalTime, InvalidNote, Rejected
from spark_integration import ReadRange

TEN = 1_357_034_400_000


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (InvalidNote("UA", "invalid_time", TEN), "last is 2013-01-01T10:00:00Z"),
        (InvalidNote("UA", "too_far_ahead", TEN), "last is 2013-01-01T10:00:00Z"),
        (InvalidNote("UA", "invalid_time", 42), "last is 42"),
        (InvalidNote("UA", "too_many_writers", 100_000_000_000), "last is 100000000000"),
        (InvalidNote("UA", "invalid_position", {0: TEN}), f"last is {{0: {TEN}}}"),
        (ImplausibleTime(TEN // 1000, TEN), "in seconds? "),
        (ImplausibleTime(TEN // 1000, TEN), "the lower is 2013-01-01T10:00:00Z"),
        (
            InvalidFinalTime("default", TEN - 1, TEN),
            "final time 2013-01-01T09:59:59.999Z of domain 'default' is not above 2013-01-01T10:00",
        ),
    ],
)
def test_a_time_in_a_message_is_spelled(message: Rejected, says: str) -> None:
    """Numbers that are none, such as offsets and counts, are left alone."""
    assert says in str(message)


def test_a_range_names_its_bounds_as_times() -> None:
    """As the call may have had them as `datetime`s."""
    with pytest.raises(Rejected, match="start_at 2013-01-01T10:00:00Z is not below end_at 2013-"):
        ReadRange(TEN, TEN)
