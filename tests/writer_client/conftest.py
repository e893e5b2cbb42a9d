"""Fixtures for tests of the writer client."""

import pytest

from tools.trials.served import Served


@pytest.fixture
def stream(served: Served) -> str:
    """Return the name of a new stream."""
    return served.new()
