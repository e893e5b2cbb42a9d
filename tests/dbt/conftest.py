from pathlib import Path

import pytest

from tests.support.suites import programs_of


@pytest.fixture(scope="session")
def dbt() -> Path:
    """Return the program, of an environment of its own."""
    return programs_of("dbt") / "dbt"
