from __future__ import annotations

import pytest

from controller.api import relay


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is held look again soon."""
    monkeypatch.setattr(relay, "LOOK_AGAIN_S", 0.01)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests wait for an owner for a moment only."""
    monkeypatch.setattr(relay, "HOLD_S", 0.05)
