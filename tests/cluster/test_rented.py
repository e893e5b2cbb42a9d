"""Rented Spark: a Connect server without this package, and a client with few rights."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from noted_time import Mark, StreamCut
from noted_time.kafka.noted_topic import NotedRecord, name_noted_topic
from tools.trials.connect_server import connect_server, plain_python
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.spark_programs import SparkProgram

pytestmark = [pytest.mark.needs_spark("3.5"), pytest.mark.shows("rented Spark")]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "spark-elsewhere.md"

PLAIN = ("confluent_kafka", "obstore")
"""The modules that a client with this package alone lacks."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of the tests' server."""
    with connect_server(tmp_path_factory.mktemp("rented")) as remote:
        yield remote


class MarkedTopic:
    """A topic of two partitions with its noted topic, and clients that count it."""

    def __init__(self, broker: Broker, remote: str, directory: Path) -> None:
        self.broker = broker
        self._directory = directory
        self.topic = f"clock-{uuid4().hex[:8]}"
        self._asked = {
            "remote": remote,
            "topic": self.topic,
            "bootstrap": broker.address,
            "checkpoint": str(directory / "checkpoint"),
            "output": str(directory / "output"),
        }
        self._clients = 0
        self.ends = {0: 0, 1: 0}
        broker.create(self.topic)
        broker.create(name_noted_topic(self.topic), 1)

    def write(self, *seconds: int) -> None:
        """Write a record of each second to both partitions."""
        rows = []
        for second in seconds:
            for partition in self.ends:
                rows.append((partition, "x", 1000 * second))
        self.broker.send(self.topic, rows)
        self.ends = {partition: end + len(seconds) for partition, end in self.ends.items()}

    def mark(self, second: int, *, stream: str = "", of: str = "") -> None:
        """Write a mark of all rows, as a relay does, or a mark `of` another topic."""
        lower = 1000 * second
        mark = Mark(1, lower, lower, StreamCut(self.ends), 0)
        record = NotedRecord(stream or self.topic, "9f", "default", of or None, mark)
        self.broker.send(name_noted_topic(self.topic), [(0, record.value, 0)], "default")

    def count(self, how: str = "marked", lacking: tuple[str, ...] = PLAIN, **asked: Any) -> Any:  # noqa: ANN401
        """Return the counts of a new client, or its error."""
        self._clients += 1
        log = self._directory / f"client-{self._clients}.log"
        asked = {**self._asked, "count": how, "lacking": lacking, **asked}
        self.client = SparkProgram("rented", asked, log)
        return json.loads(self.client.finish())


@pytest.fixture
def topic(broker: Broker, server: str, tmp_path: Path) -> MarkedTopic:
    """Return a topic without a record."""
    return MarkedTopic(broker, server, tmp_path)


def test_server_has_nothing_of_this_package() -> None:
    code = "import noted_time"
    process = subprocess.run([plain_python(), "-I", "-c", code], capture_output=True, check=False)

    assert b"No module named 'noted_time'" in process.stderr


def test_windows_are_counted_by_marks_over_a_restart(topic: MarkedTopic) -> None:
    """The client has this package alone, and says that it cannot check the topic's id."""
    topic.write(1, 2)
    topic.mark(2)
    first = topic.count()
    topic.write(2, 3)
    topic.mark(3)

    assert (first, topic.count()) == ([[1, 2]], [[1, 2], [2, 4]])
    assert topic.client.has_said("cannot check whether marks belong to another topic")


def test_mark_of_another_topic_fails_a_query_with_a_kafka_client(topic: MarkedTopic) -> None:
    """The broker knows the topic's id, and the mark has another."""
    topic.write(1)
    topic.mark(2, of="a-b")

    assert "is of a topic with the id a-b" in topic.count(lacking=(), client={})


def test_program_of_the_page_runs_without_the_package(topic: MarkedTopic) -> None:
    """A record of another stream fails the query."""
    code = PAGE.read_text().rpartition("```python\n")[2].partition("```")[0]
    lacking = ("noted_time", "spark_integration")
    topic.write(1, 2)
    topic.mark(2)
    counts = topic.count("printed", lacking, code=code)
    topic.mark(3, stream="trains")

    assert counts == [[1, 2]]
    assert f"has no mark of {topic.topic} at offset 1" in topic.count("printed", lacking, code=code)


def test_complete_window_is_read_over_connect(topic: MarkedTopic, token_controller: Served) -> None:
    """The client asks broker and controller, so it needs the Kafka client."""
    topic.write(1, 2)
    token_controller.stream(topic.topic).note("w", 2000, topic.ends)

    window = [1000, 2000]
    counts = topic.count(
        "complete", (), url=token_controller.url, token=token_controller.token, window=window
    )

    assert counts == [[1, 2]]
