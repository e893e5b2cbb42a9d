"""The connectors of Delta and Iceberg for Spark, and the settings of a session with both."""

from __future__ import annotations

from pathlib import Path

import pyspark

from spark_integration.session.versions import parse_release
from tools.trials.kafka import HOME
from tools.trials.maven import fetch, find_jars, list_jars_by_release

RUNNING = ".".join(str(part) for part in parse_release(pyspark.__version__))
LISTED = list_jars_by_release(Path(__file__).with_name("table_jars.txt"))
"""The jars by the one release of Spark that they fit. Delta 4.2.0 fits no Spark 4.1 from 4.1.2 on:
it calls a constructor that Spark has changed. Delta's other jars are for Unity Catalog.
"""

JARS = LISTED.get(RUNNING, [])
"""The connectors of the running PySpark."""

MISSING = (
    f"PySpark {RUNNING} has no connector here for Delta and Iceberg: they are for "
    f"{', '.join(sorted(LISTED))}, and `./run test --spark` with one "
    "of these fetches them"
)


def install(repository: str | None = None) -> None:
    """Fetch the connectors, 57 MB, if there are any; raises as `fetch`."""
    fetch(JARS, HOME / "tables", repository=repository)


def connectors() -> list[str]:
    """Return the jars that Spark needs for both, none if not installed."""
    return find_jars(HOME / "tables", JARS)


def settings(directory: Path) -> dict[str, str]:
    """Return a session's settings for both, with tables in a directory.

    Delta is Spark's catalog, and Iceberg's is `lake`. Without the connectors: none.
    """
    if not connectors():
        return {}
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(directory / "lake"),
        # Iceberg reads the file system's scheme, which the quick one of tests lacks
        "spark.sql.catalog.lake.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        "spark.sql.catalog.lake.hadoop.fs.file.impl.disable.cache": "true",
        "spark.sql.warehouse.dir": str(directory / "delta"),
        "spark.databricks.delta.snapshotPartitions": "1",  # or each commit is 50 tasks
    }
