"""The controller of the fast tests here, and their streams."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import spark_integration
from spark_integration.log.options import Option
from tests.support.bundles import take_noted
from tests.support.clock import Clock, MakeClock
from tests.support.noted_stream import NotedStream
from tests.support.queries import count_per_second
from tests.support.query_output import QueryOutput
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.starting import retry_start


@pytest.fixture(scope="session")
def shared_controller() -> Iterator[Served]:
    """Return a controller for all tests here, because a start takes a third of a second."""
    with Served() as served:
        yield served


@pytest.fixture
def controller(shared_controller: Served) -> Iterator[Served]:
    """Return a controller that knows no stream yet."""
    yield shared_controller
    for stream in shared_controller.call("GET", "")["streams"]:
        shared_controller.call("DELETE", f"/{stream['name']}")


@pytest.fixture
def flights(tmp_path: Path, controller: Served) -> NotedStream:
    """Return a stream without any event."""
    return NotedStream(tmp_path / "log", "flights", controller)


def write_rows(flights: NotedStream, lower: int) -> NotedStream:
    """Append three rows, note a lower that is below two of them, and return the stream."""
    flights.begin_log().append(0, (1000, "a"), (2000, "b"))
    flights.append(1, (9500, "c"))
    flights.note(lower)
    return flights


@pytest.fixture
def landings(tmp_path: Path, controller: Served) -> NotedStream:
    """Return a second stream without any event."""
    return NotedStream(tmp_path / "log", "landings", controller)


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a whole controller with the stream `flights`."""
    with Served() as served:
        served.create("flights", max_time_ahead_ms=None)
        yield served


class Reads:
    """Reads file logs whose marks come from one controller."""

    def __init__(self, spark: SparkSession, controller: Served) -> None:
        self.spark = spark
        self.url = controller.url

    def __call__(self, stream: NotedStream, *options: Option, **asked: Any) -> DataFrame:  # noqa: ANN401
        """Return the stream's events, exact for windows unless `settings` differ."""
        chosen = {"event_time": "time", "strict": False, **asked}
        noted = take_noted(chosen, self.url, stream.name)
        return retry_start(
            lambda: spark_integration.read_noted_log(
                self.spark, stream.root, noted, *options, **chosen
            )
        )

    def counts(self, stream: NotedStream, *options: Option, **asked: Any) -> DataFrame:  # noqa: ANN401
        """Return (start of the second, count) of each second that is over."""
        return count_per_second(self(stream, *options, **asked))

    def truth(self, stream: NotedStream) -> DataFrame:
        """Return all of the stream's events from a batch read of its files."""
        return self.spark.read.parquet(str(stream.root / stream.name)).drop("partition")


@pytest.fixture
def read(spark: SparkSession, controller: Served) -> Reads:
    """Return how the tests read file logs."""
    return Reads(spark, controller)


@pytest.fixture
def output(tmp_path: Path) -> QueryOutput:
    """Return the output of the test's query."""
    return QueryOutput(tmp_path / "checkpoint")


@pytest.fixture
def make_clock(
    spark: SparkSession, broker: Broker, controller: Served, output: QueryOutput
) -> MakeClock:
    """Return what creates topics for the test's query."""
    return MakeClock(spark, broker, controller, output)


@pytest.fixture
def clock(make_clock: MakeClock) -> Clock:
    """Return a topic without a record."""
    return make_clock(Clock)


@pytest.fixture
def other(make_clock: MakeClock) -> Clock:
    """Return a second one, for the same query."""
    return make_clock(Clock)
