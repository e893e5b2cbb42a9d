"""The session that writes tables, and readers without Spark."""

from collections.abc import Callable

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from tools.trials import tables


@pytest.fixture
def delta_spark(request: pytest.FixtureRequest) -> SparkSession:
    """Return a session with Delta and Iceberg; its tests are skipped without the connectors."""
    if not tables.connectors():
        pytest.skip(tables.MISSING)
    session: SparkSession = request.getfixturevalue("spark")
    return session


@pytest.fixture
def open_table(delta_spark: SparkSession) -> Callable[[str], StaticTable]:
    """Return a function that opens an Iceberg table by its Spark name, without Spark."""

    def read(table: str) -> StaticTable:
        catalog, *path = table.split(".")
        warehouse = delta_spark.conf.get(f"spark.sql.catalog.{catalog}.warehouse")
        return StaticTable.from_metadata("/".join([str(warehouse), *path]))

    return read
