"""Rolling updates to the next version and back, under load, with kills."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.replicas.replica_processes import BUCKETS, read_buckets
from tests.support.next_version import NEXT, NextVersion
from tests.support.processes import ROOT, ServeProcess, run_command
from tests.trials.facts import Answer
from tests.trials.judge import judge
from tests.upgrade.load import Load
from tools.trials.calls import Calls
from tools.trials.postgres import Server
from tools.trials.waiting import slowdown, wait_until

STREAMS = ("a-1", "b-2", "c-3", "d-4")
BEYOND_S = 2.0
"""How much longer than a takeover a pause may be."""


class Pair:
    """Two controllers at fixed addresses, and their clients."""

    def __init__(self, directory: Path, database: str) -> None:
        self._directory = directory
        self.database = database
        self.controllers = [self._serve(ROOT) for _ in range(2)]
        self.urls = [controller.url for controller in self.controllers]
        for stream in STREAMS:
            self.controllers[0].create(stream, writer_timeout_ms=600_000)
        self.load = Load(",".join(self.urls), STREAMS)
        self.slowest = 1.0

    def close(self) -> None:
        """End both."""
        for controller in self.controllers:
            controller.kill()

    def replace(self, index: int, code: Path, end: Callable[[ServeProcess], object]) -> float:
        """End a controller, use the other, start it again, and return the longest pause."""
        start = time.monotonic()
        port = self.controllers[index].port
        end(self.controllers[index])
        self.load.wait_for_progress(start)
        self.controllers[index] = self._serve(code, port)
        wait_until(self._is_shared)
        self.load.wait_for_progress(time.monotonic())
        self.slowest = max(self.slowest, slowdown())
        return self.load.pause(start, time.monotonic())

    def _serve(self, code: Path, port: int = 0) -> ServeProcess:
        """Start a controller that runs that code, and wait until it listens."""
        options = ("--database", self.database)
        running = ServeProcess(self._directory, *options, port=port, PYTHONPATH=str(code))
        return running.ready()

    def _is_shared(self) -> bool:
        return [read_buckets(controller).get("this") for controller in self.controllers] == [
            BUCKETS / 2
        ] * 2


@pytest.fixture
def pair(server: Server, tmp_path: Path) -> Iterator[Pair]:
    """Two controllers of this version under load."""
    database = server.make_database()
    process = run_command("migrate", "--database", database, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    with ExitStack() as stack:
        running = Pair(tmp_path, database)
        stack.callback(running.close)
        stack.enter_context(running.load)
        wait_until(lambda: len(running.load.last_acknowledged()) == len(STREAMS))
        yield running


def test_rolling_forward_back_and_forward_loses_nothing(pair: Pair, tmp_path: Path) -> None:
    """No acknowledged note is lost, and no chain has a gap.

    No pause is longer than a takeover after a kill of a controller of this version.
    """
    takeovers = [pair.replace(0, ROOT, ServeProcess.kill), pair.replace(1, ROOT, ServeProcess.kill)]
    next_version = NextVersion(tmp_path / "later")
    next_version.migrate(pair.database)
    rolled_gaps = [
        pair.replace(0, next_version.code, ServeProcess.stop),
        pair.replace(1, next_version.code, ServeProcess.kill),
        pair.replace(1, ROOT, ServeProcess.stop),
        pair.replace(0, ROOT, ServeProcess.kill),
        pair.replace(0, next_version.code, ServeProcess.kill),
        pair.replace(1, next_version.code, ServeProcess.stop),
    ]
    pair.load.end()
    versions = pair.controllers[0].ask("GET", "/controllers").json()["controllers"]

    for stream in STREAMS:
        assert _lost(pair, stream) == []
        assert _gaps(pair, stream) == []
    assert [version["revision"] for version in versions] == [NEXT] * 2
    assert max(rolled_gaps) <= max(takeovers) + BEYOND_S * pair.slowest, (takeovers, rolled_gaps)


def _lost(pair: Pair, stream: str) -> list[str]:
    """Return the writers whose stored time or position is below their acknowledged one."""
    (stored_writer,) = Calls(pair.urls[0]).get(f"{stream}/writers")["writers"]
    last = pair.load.last_acknowledged()[stream]
    is_there = (
        stored_writer["times"]["default"] >= last and stored_writer["position"]["0"] >= 10 * last
    )
    return [] if is_there else [f"{stored_writer}, {last} was acknowledged"]


def _gaps(pair: Pair, stream: str) -> list[Any]:
    """Return where the marks, or what readers saw of them, are not one chain."""
    marks = Calls(pair.urls[0]).all_marks(stream)
    chain = [(mark["seq"], mark["lower"]) for mark in marks]
    read_marks = pair.load.read[stream]
    is_other = not read_marks or read_marks != chain[: len(read_marks)]
    return [*judge(answers=[Answer(0, marks)]), *([(stream, read_marks)] if is_other else [])]
