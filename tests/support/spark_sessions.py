"""Spark sessions of tests: on loopback, for small micro-batches."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_integration.session.versions import parse_release
from tools.trials.spark_settings import SMALL_BATCHES
from tools.trials.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    **SMALL_BATCHES,
    "spark.sql.streaming.minBatchesToRetain": "100",  # tests read batches later
    # compilation is worth it for more rows
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


if parse_release(pyspark.__version__) < (4, 1):
    SETTINGS = {name: value.replace(".checkpointing.", ".") for name, value in SETTINGS.items()}

FAILED = (PySparkException, Py4JError)
"""Errors of a batch query; Spark 3.5 raises the latter."""


def start_spark(settings: Mapping[str, str] | None = None, python: str = "") -> SparkSession:
    """Return a session of two cores; its workers find this clone's packages.

    They run this Python, or another program. A process has one session, with the settings of the
    first caller.
    """
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = python or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def wait_for_end(query: StreamingQuery) -> None:
    assert query.awaitTermination(int(PATIENCE_S)), query.status
