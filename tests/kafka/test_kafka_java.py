"""The producer in Java of the page on Kafka, compiled and run as it is printed."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from noted_time.kafka.topic import Topic
from tests.support import kafka
from tests.support.kafka import Broker
from tests.support.kafka_judge import covered, judged
from tests.support.page import BLOCK, text_of
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(
        shutil.which("javac") is None,
        reason="needs a JDK, 11 or newer: apt install default-jdk-headless",
    ),
]


PAGE = "docs/kafka.md"


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a controller without streams."""
    with Served() as served:
        yield served


class Program:
    """The page's program, whose processes produce to the topic `java` as its writer `j`."""

    def __init__(self, directory: Path, broker: Broker, served: Served) -> None:
        """Compile it."""
        (source,) = (
            block for language, block in BLOCK.findall(text_of(PAGE)) if language == "java"
        )
        file = directory / "NotedProducer.java"
        file.write_text(source)
        self._path = f"{directory}:{kafka.HOME}/broker/*"
        subprocess.run(["javac", "-Xlint:all", "-Werror", "-cp", self._path, file], check=True)
        self._broker, self._served = broker, served
        self._running: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        """Start a process."""
        given = (self._broker.address, "java", self._served.url, "j")
        words = ["java", "-cp", self._path, "NotedProducer", *given]
        pipe = subprocess.PIPE
        started = subprocess.Popen(words, stdin=pipe, stderr=pipe, text=True)
        self._running.append(started)
        return started

    def end(self) -> None:
        """End all processes."""
        for each in self._running:
            each.kill()
            each.communicate()

    def written(self) -> int:
        """Return how many records the topic has."""
        return sum(Topic(self._broker.config, "java").look().ends.values())

    def noted(self) -> int:
        """Return how many of them the last mark covers."""
        return covered(self._served, "java")


@pytest.fixture
def program(tmp_path: Path, broker: Broker, served: Served) -> Iterator[Program]:
    """Return the program, its topic and its stream."""
    broker.create("java", 2)
    served.create("java")
    program = Program(tmp_path, broker, served)
    yield program
    program.end()


def feed(process: subprocess.Popen[str], lines: int) -> None:
    """Give a process lines, of which it notes every hundredth."""
    assert process.stdin is not None
    process.stdin.write("an event\n" * lines)
    process.stdin.flush()


def test_the_pages_producer_in_java_is_killed_restarted_and_replaced(
    program: Program, broker: Broker, served: Served
) -> None:
    """Its marks cover what it wrote and had not noted; meanwhile the controller is away."""
    killed = program.start()
    feed(killed, 1050)
    wait_until(lambda: (program.noted(), program.written()) == (1000, 1050))
    killed.kill()
    again = program.start()
    feed(again, 300)
    wait_until(lambda: program.noted() == 1350)
    served.stop()
    feed(again, 100)
    wait_until(lambda: program.written() == 1450)
    served.start()
    wait_until(lambda: program.noted() == 1450)
    younger = program.start()
    feed(younger, 100)
    wait_until(lambda: program.noted() == 1550)
    verdict = judged(broker, "java", controller=served)
    feed(again, 100)
    _, refused = again.communicate(timeout=PATIENCE_S)
    younger.communicate(timeout=PATIENCE_S)

    assert (verdict.records, verdict.violations) == (1550, ())
    assert "no note was accepted: 1 superseded" in refused
    assert (again.returncode, younger.returncode) == (1, 0)
    assert served.writers("java")["j"]["state"] == "finished"
