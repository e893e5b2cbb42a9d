"""Larger batches, and another mode, while a query has a backlog: the results stay the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from noted_time import BacklogPolicy
from spark_integration import Batches, CatchUp
from tests.spark.conftest import Reads
from tests.support.disorder import disorder, replay
from tests.support.noted_stream import NotedStream
from tests.support.queries import per_second, rows_of
from tests.support.query_output import QueryOutput
from tests.support.served import Served
from tests.support.spark_programs import SparkProgram
from tests.support.waiting import eventually

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
    larger = CatchUp(BacklogPolicy(behind_ms=1500), 40)
    counts = read.counts(flights, Batches(5), larger)
    output.catch_up(counts)
    for second in range(10, 12):
        flights.append(0, *((second * 1000 + ms, "a") for ms in range(10)))
    flights.note(11_000)
    output.catch_up(counts)

    large = [(40, True), (40, True), (20, True)]
    assert planned(output.checkpoint) == [*large, *[(5, False)] * 4]
    assert output.rows == [(second, 10) for second in range(11)]


def test_the_flag_decides_nothing_when_a_batch_is_run_again(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """It ends where it was planned to end, also under another policy and without a controller."""
    steps = disorder(5)
    replay(flights, steps[:20])
    larger = CatchUp(BacklogPolicy(behind_ms=1), 30)
    output.catch_up(read.counts(flights, Batches(10), larger))
    first, ends = dict(output.batches), planned(output.checkpoint)
    output.forget_commit()
    controller.stop()
    output.catch_up(read.counts(flights, Batches(5)))
    controller.start()

    last = max(first)
    assert (output.batches[last], planned(output.checkpoint)[: len(ends)]) == (first[last], ends)


class Adaptive:
    """Runs of `count_adaptively` on one checkpoint, one after the other."""

    def __init__(self, stream: NotedStream, directory: Path) -> None:
        self._directory = directory
        self._runs = 0
        names = ("checkpoint", "output", "modes", "waiting", "stop")
        self._paths = {name: directory / "adaptive" / name for name in names}
        self._paths["modes"].parent.mkdir()
        where = {"root": str(stream.root), "stream": stream.name, "url": stream.server.url}
        self._given = {**where, **{name: str(path) for name, path in self._paths.items()}}

    def start(self, **given: str) -> SparkProgram:
        """Start the next run."""
        self._runs += 1
        self._paths["modes"].write_text("")
        log = self._directory / f"{self._runs}.log"
        return SparkProgram("count_adaptively", {**self._given, **given}, log)

    def modes(self) -> list[str]:
        """Return the modes that the last run has begun so far."""
        return self._paths["modes"].read_text().split()

    def written(self, spark: SparkSession) -> list[tuple[object, ...]]:
        """Return (second, count) of the windows in the output."""
        counts = spark.read.schema("second LONG, count LONG").json(str(self._paths["output"]))
        return rows_of(counts.select("second", "count"))

    def kill_before(self, mode: str, run: SparkProgram) -> None:
        """SIGKILL the run when it is about to begin a mode."""
        eventually(lambda: (self.modes()[-1:], run.running()), ([mode], True))
        run.kill()

    def kill_within(self, mode: str, run: SparkProgram) -> None:
        """SIGKILL the run in the middle of a batch of a mode, one that was planned."""
        waiting = self._paths["waiting"]
        eventually(lambda: (waiting.exists(), run.running()), (True, True))
        run.kill()
        waiting.unlink()
        assert self.modes()[-1] == mode

    def finish(self, run: SparkProgram) -> None:
        """Let a run end that has become live."""
        eventually(lambda: (self.modes()[-1:], run.running()), (["live"], True))
        self._paths["stop"].touch()
        run.finish()


@pytest.mark.timeout(900)
def test_two_modes_count_every_row_once_through_kills_within_and_between_them(
    read: Reads, flights: NotedStream, tmp_path: Path
) -> None:
    """SIGKILL in a batch of the backlog, at the switch, and in a batch of the live query."""
    steps, adaptive = disorder(7, events=25), Adaptive(flights, tmp_path)
    replay(flights, steps[:10])
    adaptive.kill_within("backlog", adaptive.start(wait_at=steps[9].rows[-1][1]))
    adaptive.kill_before("live", adaptive.start(wait_before="live"))
    run = adaptive.start(behind_ms="1000000", wait_at=steps[12].rows[-1][1])
    eventually(lambda: (adaptive.modes()[-1:], run.running()), (["live"], True))
    replay(flights, steps[10:13])
    adaptive.kill_within("live", run)
    replay(flights, steps[13:])
    run = adaptive.start()
    truth = rows_of(per_second(read.truth(flights)))
    eventually(lambda: (adaptive.written(read.spark), run.running()), (truth, True))
    adaptive.finish(run)

    assert adaptive.written(read.spark) == truth
