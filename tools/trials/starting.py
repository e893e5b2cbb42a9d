"""Starts Spark's queries, again if their Python processes took too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

Result = TypeVar("Result")

UNCONNECTED = "failed to connect back"
"""Part of the error if Spark did not wait long enough for Python."""

LOOK_S = 0.05

STARTS = 6
"""How often a start is tried."""


def retry_start(start: Callable[[], Result]) -> Result:
    """Return the result of `start`, called again while Python does not connect back to Spark.

    Spark waits ten seconds for each Python process, without a setting. A busy machine exceeds this.
    The sixth failure is raised.

    >>> from itertools import count
    >>> calls = count()
    >>> def start() -> int:
    ...     if next(calls) == 0:
    ...         raise PySparkException("Python worker failed to connect back.")
    ...     return next(calls)
    >>> retry_start(start)
    2
    """
    for _ in range(STARTS - 1):
        try:
            return start()
        except PySparkException as error:
            if UNCONNECTED not in str(error):
                raise
    return start()


def start_query(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Return the query that `start` starts, once its sources have their Python processes.

    It is started again if one of these did not connect back; other failures are not handled.
    """

    def start_and_wait() -> StreamingQuery:
        return _wait_for_start(start())

    return retry_start(start_and_wait)


def _wait_for_start(query: StreamingQuery) -> StreamingQuery:
    while query.status["message"].startswith("Initializing"):
        time.sleep(LOOK_S)
    if UNCONNECTED in str(query.exception()):
        query.awaitTermination()
    return query
