import pytest

from controller.api.fleet import forwarding


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make waiting requests check again soon."""
    monkeypatch.setattr(forwarding, "LOOK_AGAIN_S", 0.01)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make requests wait for an owner for a moment only."""
    monkeypatch.setattr(forwarding, "HOLD_S", 0.05)
