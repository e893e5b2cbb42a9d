import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def collect_tasks() -> Iterator[None]:
    """Collect the tasks that loops left, which Python 3.11 cannot do during a later `ast.parse`."""
    yield
    gc.collect()
