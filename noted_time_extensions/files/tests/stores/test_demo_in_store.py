"""The demonstration with a file log in a store."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from demo.data import Flights, read_flights
from demo.findings import find
from demo.stage import Stage, bars_on
from tools.trials.served import Served


def test_no_flight_in_a_bucket_is_lost(spark: SparkSession, bucket: str, tmp_path: Path) -> None:
    """Arrow's client of S3 reads the same rows."""
    flights = Flights(read_flights(months=1, days=1).landed[:100])
    with Served() as served, ThreadPoolExecutor(1) as beside:
        bars = bars_on(Console(quiet=True))
        stage = Stage(flights, served.url, spark, beside, tmp_path, tmp_path, bars, store=bucket)
        findings = find(stage, run_own=False)

    assert (findings.agree, findings.measured[0].lost) == (True, 0)
