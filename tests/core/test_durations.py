from __future__ import annotations

import pytest

from noted_time import Rejected
from noted_time.values import duration_ms
from noted_time.values.given import LONGEST_MS


@pytest.mark.parametrize(
    "text",
    ["", "90", "d", "-1d", "1.5h", "1w", "1000000d", "1d ", "٣d", "01h", "1h30m", "1H", "9" * 99],
)
def test_a_duration_of_another_form_is_refused(text: str) -> None:
    """The sentence says which forms there are."""
    with pytest.raises(Rejected, match="90d, 12h, 30m, 45s or 500ms"):
        duration_ms(text)


def test_the_longest_duration_can_be_said_in_each_unit() -> None:
    """It is as far as dates go."""
    assert (duration_ms("999999d"), duration_ms(f"{LONGEST_MS}ms")) == (LONGEST_MS, LONGEST_MS)
