"""Another mode and larger batches while a query has a backlog: the results stay the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from examples.trials.spark_programs import SparkProgram
from tests.support.disorder import disorder, replay
from tests.support.noted_stream import NotedStream
from tests.support.served import Served
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark


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

    def written(self) -> list[tuple[int, int]]:
        """Return (second, count) of the windows in the output."""
        sink = self._paths["output"] / "_spark_metadata"
        listed = [line for file in sink.glob("[0-9]*") for line in file.read_text().split("\n")[1:]]
        files = [Path(urlsplit(json.loads(each)["path"]).path) for each in listed]
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted((row["second"], row["count"]) for row in rows)

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
def test_two_modes_count_every_row_once_though_each_is_killed(
    served: Served, tmp_path: Path
) -> None:
    """SIGKILL in a batch of the backlog, and in one of the live query after the switch."""
    flights = NotedStream(tmp_path / "log", "flights", served)
    steps, adaptive = disorder(7, events=25), Adaptive(flights, tmp_path)
    replay(flights, steps[:10])
    adaptive.kill_within("backlog", adaptive.start(wait_at=steps[9].rows[-1][1]))
    run = adaptive.start(behind_ms="1000000", wait_at=steps[12].rows[-1][1])
    eventually(lambda: (adaptive.modes()[-1:], run.running()), (["live"], True))
    replay(flights, steps[10:13])
    adaptive.kill_within("live", run)
    replay(flights, steps[13:])
    run = adaptive.start()
    seconds = Counter(time // 1000 for step in steps for time, _ in step.rows)
    eventually(lambda: (adaptive.written(), run.running()), (sorted(seconds.items()), True))
    adaptive.finish(run)

    assert adaptive.written() == sorted(seconds.items())
