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
        self._directory, self.database = directory, database
        self.controllers = [self._serve(ROOT) for _ in range(2)]
        self.urls = [each.url for each in self.controllers]
        for stream in STREAMS:
            self.controllers[0].create(stream, writer_timeout_ms=600_000)
        self.load = Load(",".join(self.urls), STREAMS)
        self.slowest = 1.0

    def close(self) -> None:
        """End both."""
        for each in self.controllers:
            each.kill()

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
        return [read_buckets(each).get("this") for each in self.controllers] == [BUCKETS / 2] * 2


@pytest.fixture
def pair(server: Server, tmp_path: Path) -> Iterator[Pair]:
    """Two controllers of this version under load."""
    database = server.make_database()
    migrated = run_command("migrate", "--database", database, cwd=tmp_path)
    assert migrated.returncode == 0, migrated.stderr
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
    later = NextVersion(tmp_path / "later")
    later.migrate(pair.database)
    rolled = [
        pair.replace(0, later.code, ServeProcess.stop),
        pair.replace(1, later.code, ServeProcess.kill),
        pair.replace(1, ROOT, ServeProcess.stop),
        pair.replace(0, ROOT, ServeProcess.kill),
        pair.replace(0, later.code, ServeProcess.kill),
        pair.replace(1, later.code, ServeProcess.stop),
    ]
    pair.load.end()
    versions = pair.controllers[0].ask("GET", "/controllers").json()["controllers"]

    assert [lost for stream in STREAMS for lost in _lost(pair, stream)] == []
    assert [gap for stream in STREAMS for gap in _gaps(pair, stream)] == []
    assert [each["revision"] for each in versions] == [NEXT] * 2
    assert max(rolled) <= max(takeovers) + BEYOND_S * pair.slowest, (takeovers, rolled)


def _lost(pair: Pair, stream: str) -> list[str]:
    """Return the writers whose stored time or position is below their acknowledged one."""
    (stored,) = Calls(pair.urls[0]).get(f"{stream}/writers")["writers"]
    last = pair.load.last_acknowledged()[stream]
    is_there = stored["times"]["default"] >= last and stored["position"]["0"] >= 10 * last
    return [] if is_there else [f"{stored}, {last} was acknowledged"]


def _gaps(pair: Pair, stream: str) -> list[Any]:
    """Return where the marks, or what readers saw of them, are not one chain."""
    marks = Calls(pair.urls[0]).all_marks(stream)
    chain = [(mark["seq"], mark["lower"]) for mark in marks]
    seen = pair.load.read[stream]
    is_other = not seen or seen != chain[: len(seen)]
    return [*judge(answers=[Answer(0, marks)]), *([(stream, seen)] if is_other else [])]
