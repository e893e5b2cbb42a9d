import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def dbt() -> Path:
    """Return the program; tests that need it are skipped without the environment that has it."""
    programs = os.environ.get("NOTED_TIME_DBT")
    if programs is None:
        pytest.skip("needs dbt: ./run test --dbt")
    return Path(programs) / "dbt"
