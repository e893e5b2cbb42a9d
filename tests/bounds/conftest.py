from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.controller.api.conftest import call
from tests.controller.conftest import anyio_backend, memory, quiet_log, store, time
from tests.support.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["anyio_backend", "call", "memory", "quiet_log", "store", "time"]


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """Return a controller that serves."""
    with Served() as controller:
        yield controller
