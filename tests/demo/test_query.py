from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo.data import Flights, read_flights
from demo.query import Run, archived, hourly, run_to_the_end, with_own_watermark, write_archive
from demo.schedule import hourly_batches

pytestmark = pytest.mark.spark

DELAYS = (2, 4)


def test_a_copy_a_delay_gives_what_a_query_a_delay_gives(
    spark: SparkSession, archive: Path, tmp_path: Path, several: Run
) -> None:
    """The one query over shifted copies gives out just what plain `withWatermark` at 4 h does."""
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.statefulOperator.allowMultiple", "false")
    flights = session.readStream.schema("departure timestamp, origin string")
    plain = flights.option("maxFilesPerTrigger", "1").parquet(str(archive))
    late = plain.withWatermark("departure", "4 hours").withColumn("delay_hours", F.lit(0))

    run = run_to_the_end(hourly(late), tmp_path / "plain")

    alone = {number: sorted(count[1:] for count in each) for number, each in run.given_out.items()}
    assert alone == {
        number: sorted(count[1:] for count in each if count.delay_hours == 4)
        for number, each in several.given_out.items()
    }


@pytest.fixture(scope="module")
def day() -> Flights:
    """Return the flights of the year's first day: some land seven hours after later ones."""
    return read_flights(months=1, days=1)


@pytest.fixture(scope="module")
def archive(day: Flights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the archived flights."""
    directory = tmp_path_factory.mktemp("flown") / "archive"
    write_archive(directory, hourly_batches(day))
    return directory


@pytest.fixture(scope="module")
def several(spark: SparkSession, archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the run of the query at all delays."""
    counts = hourly(with_own_watermark(archived(spark, archive), DELAYS))
    return run_to_the_end(counts, tmp_path_factory.mktemp("several"))
