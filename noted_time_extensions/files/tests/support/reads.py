"""Queries on the file log of a test's stream."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from noted_time_extensions import files
from noted_time_extensions.files.spark.options import Option
from tests.support.bundles import take_noted
from tests.support.noted_stream import NotedStream
from tests.support.queries import count_per_second
from tools.trials.served import Served
from tools.trials.starting import retry_start


def write_rows(flights: NotedStream, lower: int) -> NotedStream:
    """Append three rows, note a lower that is below two of them, and return the stream."""
    flights.begin_log().append(0, (1000, "a"), (2000, "b"))
    flights.append(1, (9500, "c"))
    flights.note(lower)
    return flights


class Reads:
    """Reads file logs whose marks come from one controller."""

    def __init__(self, spark: SparkSession, controller: Served) -> None:
        self.spark = spark
        self.url = controller.url

    def __call__(self, stream: NotedStream, *options: Option, **asked: Any) -> DataFrame:  # noqa: ANN401
        """Return the stream's events, exact for windows unless `settings` differ."""
        chosen_options = {"event_time": "time", "strict": False, **asked}
        noted_stream = take_noted(chosen_options, self.url, stream.name)
        return retry_start(
            lambda: files.read_noted_log(
                self.spark, stream.root, noted_stream, *options, **chosen_options
            )
        )

    def counts(self, stream: NotedStream, *options: Option, **asked: Any) -> DataFrame:  # noqa: ANN401
        """Return (start of the second, count) of each second that is over."""
        return count_per_second(self(stream, *options, **asked))


@pytest.fixture
def read(spark: SparkSession, controller: Served) -> Reads:
    """Return how the tests read file logs."""
    return Reads(spark, controller)
