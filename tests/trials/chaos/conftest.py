from collections.abc import Iterator

import pytest

from tools.trials.postgres import Server, find_binaries


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server of these tests' own, to be killed and started again."""
    directory = find_binaries()
    if directory is None:
        pytest.skip("neither PostgreSQL's binaries nor the wheel are installed")
    with Server(directory) as running:
        yield running
