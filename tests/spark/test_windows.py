"""The marks of the writers close windows, and nothing else."""

import pytest

from demo.trials.waiting import eventually
from tests.spark.conftest import Reads
from tests.support.noted_stream import NotedStream
from tests.support.queries import count_per_second
from tests.support.query_output import QueryOutput

pytestmark = [pytest.mark.spark, pytest.mark.shows("read_noted_log")]


def test_window_closes_exactly_when_the_lower_reaches_its_end(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """It does not close a millisecond before.

    A strict query needs one more. The last note has no row.
    """
    flights.append(0, (1000, "a"), (1999, "b"), (2500, "c"))
    flights.note(2000)
    query = output.start(read.counts(flights, strict=True))
    query.processAllAvailable()
    eventually(output.last_lower, 2000)
    query.processAllAvailable()
    before = output.rows
    flights.note(2001)

    assert before == []
    assert eventually(lambda: output.rows, [(1, 2)])
    query.stop()


def test_filter_on_another_column_lets_time_advance(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Spark pushes the filter down. It must not remove the marks."""
    flights.append(0, (1000, "a"), (1100, "b"))
    flights.note(2000)
    output.catch_up(count_per_second(read(flights).where("name = 'a' AND time IS NOT NULL")))

    assert output.rows == [(1, 1)]
