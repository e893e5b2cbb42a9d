"""Fixtures for tests of the reader client."""

import pytest

from tools.trials.served import Served


@pytest.fixture
def stream(served: Served) -> str:
    """Return the name of a new stream with one mark: lower 10 at offset 100 of segment 0."""
    name = served.new()
    served.note(name, 10, {"0": 100})
    return name
