"""The results of the demo of tables."""

from __future__ import annotations

import pytest

from demo import others, tables
from demo.stage import Stage


@pytest.mark.spark
@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_claim_is_right_unlike_maximum(monkeypatch: pytest.MonkeyPatch, morning: Stage) -> None:
    """Spark fills a real table, others compact, overwrite and repair it."""
    monkeypatch.setattr(others, "COMPACTED_EVERY", 3)
    monkeypatch.setattr(others, "COPIED_BEFORE", 1)
    result = tables.play(morning)

    assert all(tables.opening(morning.flights))
    claim, newest = result.figures["methods"]
    hours = len(morning.flights.window_ends)
    findings = result.broken, claim["called"], claim["wrong"], newest["wrong"] > 0
    assert findings == ((), hours, 0, True)
