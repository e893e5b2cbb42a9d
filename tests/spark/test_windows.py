"""Windows close by the marks of the writers, and only by them."""

from __future__ import annotations

import pytest

from spark_integration import Batches
from tests.spark.conftest import Reads
from tests.support.disorder import disorder, replay
from tests.support.noted_stream import NotedStream
from tests.support.queries import per_second, rows_of
from tests.support.query_output import QueryOutput
from tests.support.served import Served
from tests.support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.shows("read_noted_log")]

YEAR_MS = 365 * 24 * 3600 * 1000


@pytest.mark.parametrize(("strict", "lower"), [(False, 2000), (True, 2001)])
def test_a_window_closes_exactly_when_the_lower_reaches_its_end(
    read: Reads, flights: NotedStream, output: QueryOutput, *, strict: bool, lower: int
) -> None:
    """Not a millisecond before; strict asks for one more, since single rows need it."""
    flights.append(0, (1000, "a"), (1999, "b"), (2500, "c"))
    flights.note(lower - 1)
    query = output.start(read.counts(flights, strict=strict))
    query.processAllAvailable()
    eventually(output.last_lower, lower - 1)
    query.processAllAvailable()
    before = output.rows
    flights.note(lower)

    assert before == []
    assert eventually(lambda: output.rows, [(1, 2)])
    query.stop()


def test_no_event_is_lost_to_disorder(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Three writers, eight seconds late at times, in micro-batches of twenty rows and two runs."""
    steps = disorder(1)
    replay(flights, steps[:20])
    counts = read.counts(flights, Batches(20))
    output.catch_up(counts)
    replay(flights, steps[20:])
    output.catch_up(counts)

    assert output.rows == rows_of(per_second(read.truth(flights)))


def test_a_micro_batch_holds_no_more_rows_than_asked_for(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Files of unequal size in three segments are cut at the limit."""
    flights.append(0, *((n, "a") for n in range(11)))
    flights.append(1, *((n, "b") for n in range(5)))
    flights.append(4, (1, "c"))
    output.catch_up(read(flights, Batches(4)).select("name"))

    assert [len(rows) for rows in output.batches.values()] == [4, 4, 4, 4, 1]


def test_a_quiet_stream_closes_its_windows_as_time_is_noted_on(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """No further event comes; the running query gives out what the second note completes."""
    flights.append(0, (1000, "a"))
    flights.note(1500)
    query = output.start(read.counts(flights))
    query.processAllAvailable()
    flights.note(9000)

    assert eventually(lambda: output.rows, [(1, 1)])
    query.stop()


def test_a_row_dated_a_year_ahead_does_not_move_the_watermark(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """What comes after it, at its proper time, is counted."""
    flights.append(0, (YEAR_MS, "ahead"), (1000, "a"))
    flights.note(1500)
    counts = read.counts(flights)
    output.catch_up(counts)
    flights.append(0, (1600, "b"))
    flights.note(2000)
    output.catch_up(counts)

    assert output.rows == [(1, 2)]


def test_a_filter_on_another_column_lets_time_advance(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Spark pushes such a filter down as far as it can; it must not remove the marks."""
    flights.append(0, (1000, "a"), (1100, "b"))
    flights.note(2000)
    output.catch_up(per_second(read(flights).where("name = 'a' AND time IS NOT NULL")))

    assert output.rows == [(1, 1)]


def test_the_query_reads_on_while_the_controller_is_away_and_catches_up(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """Events of the time without a controller are read; their window closes when it is back."""
    flights.append(0, (1000, "a"))
    flights.note(1500)
    query = output.start(read.counts(flights))
    query.processAllAvailable()
    controller.stop()
    flights.append(0, (1600, "b"))
    query.processAllAvailable()
    while_away = query.lastProgress
    controller.start()
    flights.note(2000)

    assert eventually(lambda: output.rows, [(1, 2)])
    assert while_away is not None
    assert while_away.sources[0].endOffset.count('"lower": 1500') == 1
    query.stop()
