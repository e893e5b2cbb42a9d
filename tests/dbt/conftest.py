from pathlib import Path

import pytest

from tests.support.suites import find_programs


@pytest.fixture(scope="session")
def dbt() -> Path:
    """Return the dbt program of the suite's environment."""
    return find_programs("dbt") / "dbt"
