"""Larger batches, and another mode, while a query has a backlog: the results stay the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from noted_time import BacklogPolicy, Rejected
from tests.support.disorder import disorder, replay
from tests.support.queries import rows_of
from tests.support.spark_programs import SparkProgram
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Reads
    from tests.support.marks_server import MarksServer
    from tests.support.noted_stream import NotedStream
    from tests.support.query_output import QueryOutput

pytestmark = pytest.mark.spark


def planned(checkpoint: Path) -> list[tuple[int, bool | None]]:
    """Return (rows, flag) of each batch with rows in the offset log, in their order."""
    files = sorted(
        (path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()),
        key=lambda path: int(path.name),
    )
    ends = [json.loads(path.read_text().split("\n")[2]) for path in files]
    read = [sum(end["segments"].values()) for end in ends]
    rows = [after - before for before, after in zip([0, *read], read, strict=False)]
    return [(each, end.get("backlog")) for each, end in zip(rows, ends, strict=True) if each]


def test_batches_are_larger_while_the_query_is_behind(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Small again once it is near; the windows are the same."""
    for second in range(10):
        flights.append(0, *((second * 1000 + ms, "a") for ms in range(10)))
        flights.note((second + 1) * 1000)
    options: dict[str, Any] = {"max_rows_per_trigger": 5, "backlog_rows_per_trigger": 40}
    counts = read.counts(flights, backlog=BacklogPolicy(behind_ms=1500), **options)
    output.catch_up(counts)
    for second in range(10, 12):
        flights.append(0, *((second * 1000 + ms, "a") for ms in range(10)))
    flights.note(11_000)
    output.catch_up(counts)

    large = [(40, True), (40, True), (20, True)]
    assert planned(output.checkpoint) == [*large, *[(5, False)] * 4]
    assert output.rows == [(second, 10) for second in range(11)]


def test_the_flag_decides_nothing_when_a_batch_is_run_again(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: MarksServer
) -> None:
    """It ends where it was planned to end, under another policy and without a controller."""
    steps = disorder(5)
    replay(flights, steps[:20])
    options: dict[str, Any] = {"max_rows_per_trigger": 10, "backlog_rows_per_trigger": 30}
    output.catch_up(read.counts(flights, backlog=BacklogPolicy(behind_ms=1), **options))
    first, ends = dict(output.batches), planned(output.checkpoint)
    output.forget_commit()
    controller.stop()
    output.catch_up(read.counts(flights, max_rows_per_trigger=5))
    controller.start()

    last = max(first)
    assert (output.batches[last], planned(output.checkpoint)[: len(ends)]) == (first[last], ends)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"backlog_rows_per_trigger": 5}, "without backlog="),
        ({"backlog": BacklogPolicy(), "backlog_rows_per_trigger": 0}, "no less than"),
        (
            {
                "backlog": BacklogPolicy(),
                "max_rows_per_trigger": 9,
                "backlog_rows_per_trigger": 8,
            },
            "no less than",
        ),
    ],
)
def test_limits_that_contradict_each_other_are_refused(
    read: Reads, flights: NotedStream, options: dict[str, Any], why: str
) -> None:
    """A smaller batch while there is more to read helps nobody."""
    with pytest.raises(Rejected, match=why):
        read(flights.begun(), **options)


def test_two_modes_give_the_windows_of_one_live_query_through_a_kill_at_the_switch(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: MarksServer, tmp_path: Path
) -> None:
    """SIGKILL when the backlog is read and the live query is about to start."""
    steps = disorder(7, events=25)
    told = {
        "root": str(flights.root),
        "stream": flights.name,
        "url": controller.url,
        "checkpoint": str(tmp_path / "adaptive"),
        "output": str(tmp_path / "output"),
        "modes": str(tmp_path / "modes"),
        "stop": str(tmp_path / "stop"),
    }
    modes, output_of = tmp_path / "modes", tmp_path / "output"

    def begun() -> list[str]:
        return modes.read_text().split() if modes.exists() else []

    def written() -> list[tuple[object, ...]]:
        schema = "second LONG, count LONG"
        counts = read.spark.read.schema(schema).json(str(output_of))
        return rows_of(counts.select("second", "count"))

    replay(flights, steps[:8])
    killed = SparkProgram("count_adaptively", {**told, "wait_before": "live"}, tmp_path / "1.log")
    eventually(lambda: (begun()[-1:], killed.running()), (["live"], True), timeout_s=120)
    killed.kill()
    replay(flights, steps[8:])
    again = SparkProgram("count_adaptively", dict(told), tmp_path / "2.log")
    query = output.start(read.counts(flights, max_rows_per_trigger=20))
    query.processAllAvailable()
    query.stop()
    eventually(lambda: (written(), again.running()), (output.rows, True), timeout_s=120)
    eventually(lambda: begun()[-1:], ["live"], timeout_s=60)
    (tmp_path / "stop").touch()
    again.finish()

    assert (written(), begun()[0], begun()[-1]) == (output.rows, "backlog", "live")
