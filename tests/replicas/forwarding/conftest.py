import pytest

from controller.api.replicas import forwarding


@pytest.fixture(autouse=True)
def short_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make waiting requests check again soon."""
    monkeypatch.setattr(forwarding, "RETRY_INTERVAL_S", 0.01)


@pytest.fixture
def short_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make requests wait for an owner for a moment only."""
    monkeypatch.setattr(forwarding, "HOLD_S", 0.05)
