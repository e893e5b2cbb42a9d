"""A query that is restarted from its checkpoint continues as if it had never stopped."""

from __future__ import annotations

import pytest

from spark_integration import Batches
from tests.spark.conftest import Reads
from tests.support.disorder import disorder, replay
from tests.support.noted_stream import NotedStream
from tests.support.query_output import QueryOutput
from tests.support.served import Served

pytestmark = pytest.mark.spark

BEFORE_YEAR_1 = -(2**62)
IN_MICROSECONDS = 1_357_034_220_000_000


def test_a_replayed_batch_is_identical_even_without_a_controller(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """Every batch after the second is run again with marks and files that came since."""
    steps = disorder(5)
    replay(flights, steps[:20])
    counts = read.counts(flights, Batches(30))
    output.catch_up(counts)
    first = dict(output.batches)
    output.forget_commit()
    replay(flights, steps[20:])
    controller.stop()
    output.catch_up(counts)
    controller.start()

    last = max(first)
    assert output.batches[last] == first[last]


def test_the_watermark_never_goes_back_when_a_stream_is_made_again(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """The new stream's marks begin below; time stands until they are above, then it advances."""
    counts = read.counts(flights.begun())
    flights.append(0, (1000, "a"))
    flights.note(5000)
    output.catch_up(counts)
    flights.marks = controller.stream(flights.name)
    flights.append(0, (5500, "b"))
    flights.note(1200)
    output.catch_up(counts)
    lowers = [output.last_lower()]
    flights.note(7000)
    output.catch_up(counts)
    lowers.append(output.last_lower())

    assert (lowers, output.rows) == ([5000, 7000], [(1, 1), (5, 1)])


def test_a_mark_that_spark_cannot_express_never_enters_a_query(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """One writer's clock counts microseconds; recreated, the stream continues where it was."""
    counts = read.counts(flights.begun())
    flights.note(BEFORE_YEAR_1)
    flights.append(0, (1000, "a"))
    flights.note(1500)
    output.catch_up(counts)
    flights.note(IN_MICROSECONDS)
    output.catch_up(counts)
    lowers = [output.last_lower()]
    flights.marks = controller.stream(flights.name)
    flights.append(0, (1600, "b"))
    flights.note(2000)
    output.catch_up(counts)
    lowers.append(output.last_lower())

    assert (lowers, output.rows) == ([1500, 2000], [(1, 2)])


def test_a_query_whose_offset_log_holds_such_a_mark_starts_again(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """An earlier version admitted it, and failed at each restart."""
    flights.append(0, (1000, "a"))
    flights.note(1500)
    counts = read.counts(flights)
    output.catch_up(counts)
    output.log_lower(2**63 - 1)
    flights.append(0, (1600, "b"))
    flights.note(2000)
    output.catch_up(counts)

    assert (output.last_lower(), output.rows) == (2000, [(1, 2)])


def test_what_was_read_before_a_restart_is_not_read_again(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """A restart gives a batch of its own for the watermark, and no event twice."""
    names = read(flights.begun()).select("name")
    flights.append(0, (1000, "a"))
    flights.note(1500)
    output.catch_up(names)
    output.catch_up(names)
    flights.append(0, (1600, "b"))
    output.catch_up(names)

    assert output.rows == [("a",), ("b",)]
