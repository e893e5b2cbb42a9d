from pathlib import Path

import pytest

from tests.support.suites import find_programs


@pytest.fixture(scope="session")
def dbt() -> Path:
    """Return the program, of an environment of its own."""
    return find_programs("dbt") / "dbt"
