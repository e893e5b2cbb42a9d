"""The session that writes tables, names for them, and how they are read without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from examples.trials import tables


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


@pytest.fixture
def opened(delta_spark: SparkSession) -> Callable[[str], StaticTable]:
    """Return how to read an Iceberg table, by its name in Spark, as it is now, without Spark."""

    def read(table: str) -> StaticTable:
        catalog, *path = table.split(".")
        warehouse = delta_spark.conf.get(f"spark.sql.catalog.{catalog}.warehouse")
        return StaticTable.from_metadata("/".join([str(warehouse), *path]))

    return read
