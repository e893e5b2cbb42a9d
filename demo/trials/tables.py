"""The connectors of Delta and Iceberg for Spark, and the settings of a session with both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark

from demo.trials.kafka import HOME
from spark_integration.session.jars import Jar, fetch
from spark_integration.session.versions import Release, release_of

RUNNING = release_of(pyspark.__version__)
DELTA = "io.delta"
ICEBERG = "org.apache.iceberg"
STORAGE = Jar(
    DELTA,
    "delta-storage",
    "4.4.0",
    "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
)

CONNECTORS: dict[tuple[Release, str], tuple[Jar, ...]] = {
    ((3, 5), DELTA): (
        Jar(
            DELTA,
            "delta-spark_2.12",
            "3.3.2",
            "4e92085d5d794cf949c50bb665b91384857cad58680c2d0bfc9c7ad353e98e85",
        ),
        Jar(
            DELTA,
            "delta-storage",
            "3.3.2",
            "c096975a2ca97ccc9b4005aa5cce16c9ac3903139d340da6665b66ace67d7c36",
        ),
    ),
    ((3, 5), ICEBERG): (
        Jar(
            ICEBERG,
            "iceberg-spark-runtime-3.5_2.12",
            "1.11.0",
            "94b8e36fc329f0293d44ba9e01b784a56e9501affec1842d898144c51f6e486a",
        ),
    ),
    ((4, 0), DELTA): (
        Jar(
            DELTA,
            "delta-spark_4.0_2.13",
            "4.4.0",
            "49e899667168b9412f83cbe894ce264107d7b896d6c5e12edca4e216845c1104",
        ),
        STORAGE,
    ),
    ((4, 0), ICEBERG): (
        Jar(
            ICEBERG,
            "iceberg-spark-runtime-4.0_2.13",
            "1.11.0",
            "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc",
        ),
    ),
    ((4, 1), DELTA): (
        Jar(
            DELTA,
            "delta-spark_4.1_2.13",
            "4.4.0",
            "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
        ),
        STORAGE,
    ),
    ((4, 1), ICEBERG): (
        Jar(
            ICEBERG,
            "iceberg-spark-runtime-4.1_2.13",
            "1.11.0",
            "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
        ),
    ),
}
"""By release of Spark and connector. Delta 4.2.0 fits no Spark 4.1 from 4.1.2 on: it calls a
constructor that Spark has changed. Delta's other jars are for Unity Catalog."""

JARS = tuple(jar for (release, _), jars in CONNECTORS.items() if release == RUNNING for jar in jars)
"""Those of the PySpark that runs."""

_NAMED = ", ".join(sorted({".".join(map(str, release)) for release, _ in CONNECTORS}))
MISSING = (
    f"PySpark {RUNNING[0]}.{RUNNING[1]} has no connector here for Delta and Iceberg: they are "
    f"for {_NAMED}, and `./run test --spark` with one of these fetches them"
)


def install(**options: Any) -> None:  # noqa: ANN401 - as `fetch`'s
    """Fetch the connectors, 57 MB, if there are any; options and errors are those of `fetch`."""
    fetch(JARS, HOME / "tables", **options)


def connectors() -> list[str]:
    """Return the jars that Spark needs for both, none if they are not installed."""
    jars = [HOME / "tables" / jar.file for jar in JARS]
    return [str(jar) for jar in jars] if all(jar.exists() for jar in jars) else []


def settings(directory: Path) -> dict[str, str]:
    """Return a session's settings for both, whose tables are kept in a directory.

    Delta is Spark's own catalog, and Iceberg's is `lake`. Without the connectors: none.
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
        # to read, Iceberg asks the file system for its scheme, and the quick one of tests has none
        "spark.sql.catalog.lake.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        "spark.sql.catalog.lake.hadoop.fs.file.impl.disable.cache": "true",
        "spark.sql.warehouse.dir": str(directory / "delta"),
        "spark.databricks.delta.snapshotPartitions": "1",  # else each commit is 50 tasks
    }
