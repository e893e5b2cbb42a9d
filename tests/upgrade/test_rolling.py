"""Rolled from one version to the next, back, and forward again, under load, with kills among it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from controller.store.schema import REVISION
from tests.replicas.served import BUCKETS, buckets
from tests.support.calls import Calls
from tests.support.following import Answer, broken
from tests.support.postgres import Server
from tests.support.processes import ServeProcess, command
from tests.support.waiting import slowdown, wait_until
from tests.upgrade.load_process import Load
from tests.upgrade.versions import PRESENT, serve

STREAMS = ("a-1", "b-2", "c-3", "d-4")
BEYOND_S = 2.0
"""How much longer than a takeover a pause may be."""


class Pair:
    """Two controllers at addresses that stay, and the clients that call them."""

    def __init__(self, directory: Path, database: str, code: Path) -> None:
        self._directory, self._database = directory, database
        self.controllers = [serve(code, directory, database) for _ in range(2)]
        self.urls = [each.url for each in self.controllers]
        self.loads: list[Load] = []
        self.slowest = 1.0

    def close(self) -> None:
        """End both."""
        for each in self.controllers:
            each.kill()

    def replace(self, index: int, code: Path, end: Callable[[ServeProcess], object]) -> float:
        """End a controller, go on with the other, start it anew; returns the longest pause."""
        begun = time.monotonic()
        port = self.controllers[index].port
        end(self.controllers[index])
        self._moves(begun)
        self.controllers[index] = serve(code, self._directory, self._database, port)
        wait_until(self._is_shared)
        self._moves(time.monotonic())
        self.slowest = max(self.slowest, slowdown())
        ended = time.monotonic()
        return max(load.pause(begun, ended) for load in self.loads)

    def _moves(self, since: float) -> None:
        for load in self.loads:
            load.moves(since)

    def _is_shared(self) -> bool:
        return [buckets(each).get("this") for each in self.controllers] == [BUCKETS / 2] * 2


@pytest.fixture
def pair(server: Server, base: Path, tmp_path: Path) -> Iterator[Pair]:
    """Two controllers of the former version under load by clients of both versions."""
    database = server.make_database()
    migrated = command("migrate", "--database", database, cwd=tmp_path, PYTHONPATH=str(base))
    assert migrated.returncode == 0, migrated.stderr
    with ExitStack() as stack:
        made = Pair(tmp_path, database, base)
        stack.callback(made.close)
        for stream in STREAMS:
            made.controllers[0].create(stream, writer_timeout_ms=600_000)
        urls = ",".join(made.urls)
        for prefix, code in (("former", base), ("present", PRESENT)):
            load = Load(code, tmp_path, urls, prefix, STREAMS)
            made.loads.append(stack.enter_context(load))
        wait_until(lambda: all(len(load.acknowledged()) == len(STREAMS) for load in made.loads))
        yield made


def kill(controller: ServeProcess) -> None:
    """End it as a power cut would."""
    controller.kill()


def stop(controller: ServeProcess) -> None:
    """Ask it to stop."""
    controller.stop()


def test_forward_back_and_forward_again_loses_nothing(
    pair: Pair, base: Path, tmp_path: Path
) -> None:
    """No acknowledged note is lost, chains have no gap, and no pause is longer than a takeover's.

    A takeover is that of a controller of the former version that is killed beside another one.
    """
    database = pair._database
    takeovers = [pair.replace(0, base, kill), pair.replace(1, base, kill)]
    migrated = command("migrate", "--database", database, cwd=tmp_path)
    assert migrated.returncode == 0, migrated.stderr
    rolled = [
        pair.replace(0, PRESENT, stop),
        pair.replace(1, PRESENT, kill),
        pair.replace(1, base, stop),
        pair.replace(0, base, kill),
        pair.replace(0, PRESENT, kill),
        pair.replace(1, PRESENT, stop),
    ]
    for load in pair.loads:
        load.end()
    versions = pair.controllers[0].ask("GET", "/controllers").json()["controllers"]

    assert [lost for stream in STREAMS for lost in _lost(pair, stream)] == []
    assert [gap for stream in STREAMS for gap in _gaps(pair, stream)] == []
    assert [each["revision"] for each in versions] == [REVISION] * 2
    assert max(rolled) <= max(takeovers) + BEYOND_S * pair.slowest, (takeovers, rolled)


def _lost(pair: Pair, stream: str) -> list[str]:
    """Return the writers of which less is stored than was acknowledged."""
    calls = Calls(pair.urls[0])
    stored = {each["writer"]: each for each in calls.get(f"{stream}/writers")["writers"]}
    heard = {k: v for load in pair.loads for k, v in load.acknowledged().items()}
    return [
        f"{writer} has {stored[writer]}, {last} was acknowledged"
        for writer, last in heard.items()
        if writer.endswith(stream)
        if stored[writer]["times"]["default"] < last or stored[writer]["position"]["0"] < 10 * last
    ]


def _gaps(pair: Pair, stream: str) -> list[Any]:
    """Return where the marks, or what readers saw of them, are not one chain."""
    marks = Calls(pair.urls[0]).all_marks(stream)
    chain = [(mark["seq"], mark["lower"]) for mark in marks]
    found: list[Any] = [*broken([Answer(0, marks)])]
    for load in pair.loads:
        seen = [(it["seq"], it["lower"]) for it in load.lines("read") if it["stream"] == stream]
        if not seen or seen != chain[: len(seen)]:
            found.append((load.prefix, stream, seen))
    return found
