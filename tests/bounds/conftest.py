from collections.abc import Iterator

import pytest

from tests.controller.api.conftest import call
from tests.controller.conftest import memory, quiet_log, store, time
from tests.support.served import Served

__all__ = ["call", "memory", "quiet_log", "store", "time"]


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """Return a controller that serves."""
    with Served() as controller:
        yield controller
