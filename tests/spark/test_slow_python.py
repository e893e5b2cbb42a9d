"""Tests start a query again if Python was too slow for Spark, as on a busy machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.starting import UNCONNECTED, started


@dataclass
class Given:
    """A query that runs, or has failed after its start had returned."""

    error: PySparkException | None = None
    status = {"message": "Waiting for data to arrive"}  # noqa: RUF012 - as of a query

    def exception(self) -> PySparkException | None:
        """Return what it failed with."""
        return self.error

    def awaitTermination(self) -> bool:  # noqa: N802 - Spark's name
        """Raise what it failed with."""
        assert self.error is not None
        raise self.error


@pytest.mark.parametrize(("error", "starts"), [(f"Python worker {UNCONNECTED}.", 2), ("other", 1)])
def test_a_query_is_started_again_if_python_did_not_connect_back(error: str, starts: int) -> None:
    """Spark gives up after ten seconds, and the query fails after its start has returned."""
    queries = [Given(PySparkException(error)), Given()]

    found = started(lambda: cast("StreamingQuery", queries.pop(0)))

    assert (len(queries), found.exception() is None) == (2 - starts, starts == 2)
