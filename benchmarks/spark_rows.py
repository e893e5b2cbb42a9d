"""Rows and the session for benchmarks of Spark, with any PySpark."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


DAY_MS = 24 * 3600 * 1000
BEGUN_MS = 1_357_000_000_000


def rows_by_chance(chance: np.random.Generator, count: int) -> pa.Table:
    """Return rows of one day, ordered by time."""
    times = BEGUN_MS + np.sort(chance.integers(DAY_MS, size=count))
    origins = pa.DictionaryArray.from_arrays(
        pa.array(chance.integers(3, size=count), pa.int8()), ["EWR", "JFK", "LGA"]
    )
    return pa.table(
        {
            "time": pa.array(times).cast(pa.timestamp("ms", tz="UTC")),
            "origin": origins.cast(pa.string()),
            "delay": pa.array(chance.normal(size=count)),
        }
    )


@contextmanager
def spark_session(settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Yield a local session on all cores, with this clone's packages."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    builder = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = builder.config(map=dict(settings or {})).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
