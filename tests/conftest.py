"""What the Java of every test is told, and the one Spark session of a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Each Java here ends before it would gain from what it optimizes: a third less CPU time."""

os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a local session of two cores; its workers find the packages of this clone.

    A process has but one, whose settings are those of the first to ask: it reads Kafka where the
    connector is installed.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half a second, for few tests

    from tests.support import kafka  # noqa: PLC0415

    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", ",".join(kafka.connector()))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
