"""The session that writes tables, and names for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import tables


@pytest.fixture
def delta_spark(request: pytest.FixtureRequest) -> SparkSession:
    """Return a session with Delta and Iceberg; its tests are skipped without the connectors."""
    if not tables.connectors():
        pytest.skip(tables.MISSING)
    session: SparkSession = request.getfixturevalue("spark")
    return session


@pytest.fixture
def iceberg_table(tmp_path: Path) -> str:
    """Return the name of an Iceberg table in Spark that no other test has."""
    return f"lake.{tmp_path.name}.rows"


@pytest.fixture
def delta_path(tmp_path: Path) -> str:
    """Return the directory of a Delta table that no other test has."""
    return str(tmp_path / "delta")
