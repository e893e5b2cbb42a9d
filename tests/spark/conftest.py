"""The controller of the fast tests here, and their streams."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.clock import Clock, MakeClock
from tests.support.noted_stream import NotedStream
from tests.support.query_output import QueryOutput
from tools.trials.kafka import Broker
from tools.trials.served import Served


@pytest.fixture(scope="session")
def shared_controller() -> Iterator[Served]:
    """Return a controller for all tests here, because a start takes a third of a second."""
    with Served() as server:
        yield server


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


@pytest.fixture
def landings(tmp_path: Path, controller: Served) -> NotedStream:
    """Return a second stream without any event."""
    return NotedStream(tmp_path / "log", "landings", controller)


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a whole controller with the stream `flights`."""
    with Served() as server:
        server.create("flights", max_time_ahead_ms=None)
        yield server


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
