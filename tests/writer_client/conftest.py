"""Each test has a stream of its own."""

from itertools import count

import pytest

from tests.support.served import Served

_numbers = count()


@pytest.fixture
def stream(served: Served) -> str:
    """Return the name of a new stream."""
    name = f"written-{next(_numbers)}"
    served.create(name)
    return name
