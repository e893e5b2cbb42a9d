"""Queries that read a log by time: other batches, the same results."""

from __future__ import annotations

from pathlib import Path

import pytest

from noted_time import ScaleEvent
from spark_integration import Batches
from spark_integration.options import Order
from tests.spark.conftest import Reads
from tests.support.disorder import disorder, replay
from tests.support.noted_stream import NotedStream
from tests.support.queries import per_second, rows_of
from tests.support.query_output import QueryOutput
from tests.support.served import Served

pytestmark = pytest.mark.spark


def test_both_orders_give_equal_results(read: Reads, flights: NotedStream, tmp_path: Path) -> None:
    """In micro-batches of twenty rows; the one may take over from the other's checkpoint."""
    orders: tuple[Order, ...] = ("share", "time")
    outputs = {order: QueryOutput(tmp_path / order) for order in orders}
    steps = disorder(7)
    replay(flights, steps[:20])
    outputs["share"].catch_up(read.counts(flights, Batches(20, "time")))
    replay(flights, steps[20:])
    for order, output in outputs.items():
        output.catch_up(read.counts(flights, Batches(20, order)))
    truth = rows_of(per_second(read.truth(flights)))

    assert {order: output.rows for order, output in outputs.items()} == {
        "share": truth,
        "time": truth,
    }


def test_a_replayed_batch_by_time_is_identical_without_a_controller(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """Marks decide where a batch ends when it is planned, and never again."""
    steps = disorder(5)
    replay(flights, steps[:20])
    names = read(flights, Batches(15, "time")).select("name")
    output.catch_up(names)
    first = dict(output.batches)
    output.forget_commit()
    replay(flights, steps[20:])
    controller.stop()
    output.catch_up(names)
    controller.start()

    last = max(first)
    assert output.batches[last] == first[last]
    assert output.rows == rows_of(read.truth(flights).select("name"))


def test_a_successor_is_read_after_the_end_of_its_predecessor(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Row by row, beyond the last mark, where each segment would otherwise give its share."""
    flights.append(0, (1000, "a"), (1100, "b"), (1200, "c"))
    flights.note(1050)
    flights.marks.scale(ScaleEvent({0: 3}, {1: (0,), 2: (0,)}))
    flights.append(1, (2500, "d"))
    flights.append(2, (1300, "e"), (2600, "f"))
    output.catch_up(read(flights, Batches(1, "time")).select("name"))

    read_in_turn = [row.name for _, batch in sorted(output.batches.items()) for row in batch]
    assert (read_in_turn[:3], sorted(read_in_turn[3:])) == (["a", "b", "c"], ["d", "e", "f"])
