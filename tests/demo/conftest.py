"""A stage for the stories of the demo."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from demo.data import Flights, read_flights
from demo.stage import Stage, bars_on
from tools.trials.served import Served

FLIGHTS = 200


@pytest.fixture
def morning(spark: SparkSession, tmp_path: Path) -> Iterator[Stage]:
    """Return a stage with the first flights of the year, a real controller, and Spark."""
    flights = Flights(read_flights(months=1, days=1).landed[:FLIGHTS])
    with Served() as served, ThreadPoolExecutor(1) as beside:
        bars = bars_on(Console(quiet=True))
        yield Stage(flights, served.url, spark, beside, tmp_path, tmp_path, bars)
