"""One real controller for the tests of this directory; each test has a stream of its own."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.served import Served

_numbers = count()


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """Return a controller that serves."""
    with Served() as controller:
        yield controller


@pytest.fixture
def stream(served: Served) -> str:
    """Return the name of a new stream."""
    name = f"written-{next(_numbers)}"
    served.create(name)
    return name
