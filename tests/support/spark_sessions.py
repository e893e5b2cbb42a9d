"""Spark sessions as tests start them: on loopback, for micro-batches of a few rows."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.surroundings import SMALL_BATCHES
from spark_integration.session.versions import release_of
from tests.support.waiting import PATIENCE_S, wait_until

Result = TypeVar("Result")

ROOT = Path(__file__).resolve().parents[2]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    **SMALL_BATCHES,
    "spark.sql.streaming.minBatchesToRetain": "100",  # tests look at batches long after
}


if release_of(pyspark.__version__) < (4, 1):
    SETTINGS = {name: value.replace(".checkpointing.", ".") for name, value in SETTINGS.items()}

UNCONNECTED = "failed to connect back"
"""What the error has in it when Spark did not wait long enough for Python."""

FAILED = (PySparkException, Py4JError)
"""What a batch query fails with: the latter in Spark 3.5."""


def start_spark(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return a session of two cores; its workers find the packages of this clone.

    A process has but one, whose settings are those of the first to ask.
    """
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def connected(start: Callable[[], Result]) -> Result:
    """Return what `start` returns; it is called again if Python did not connect back to Spark.

    Spark waits ten seconds for each Python process that it starts, which no setting changes and a
    busy machine exceeds.

    >>> from itertools import count
    >>> calls = count()
    >>> def start() -> int:
    ...     if next(calls) == 0:
    ...         raise PySparkException("Python worker failed to connect back.")
    ...     return next(calls)
    >>> connected(start)
    2
    """
    try:
        return start()
    except PySparkException as error:
        if UNCONNECTED not in str(error):
            raise
    return start()


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Return the query that `start` starts, once its sources have their Python processes.

    It is started again if one of these did not connect back; how else it fails is its own.
    """
    return connected(lambda: _initialized(start()))


def _initialized(query: StreamingQuery) -> StreamingQuery:
    wait_until(lambda: not query.status["message"].startswith("Initializing"))
    if UNCONNECTED in str(query.exception()):
        wait_for_end(query)
    return query


def wait_for_end(query: StreamingQuery) -> None:
    """Wait until a query ends; raises what it failed with."""
    assert query.awaitTermination(int(PATIENCE_S)), query.status
