"""An unchanged Kafka Connect notes by its worker's configuration alone."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.trials import classes, java, kafka
from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import wait_until
from noted_time.kafka.topic import Topic
from tests.support.kafka_judge import count_covered, judge_marks
from tests.support.page import BINDING, BLOCK, read_page

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(java.compiler() is None, reason=java.MISSING),
    pytest.mark.skipif(not kafka.connect(), reason=kafka.MISSING),
]

TOPIC = "lines"
LINES = 300
WORKER = """
bootstrap.servers={broker.address}
listeners=http://127.0.0.1:0
offset.storage.file.filename={directory}/offsets
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
plugin.discovery=service_load
producer.noted.time.period.ms=100
"""
CONNECTOR = """
name=files
connector.class=FileStreamSource
tasks.max=1
file={directory}/{topic}
topic={topic}
"""


class Worker:
    """A standalone worker with one task, which sends the lines of a file."""

    def __init__(self, directory: Path, broker: Broker, served: Served) -> None:
        """Write the configuration, including the settings of the page on Java producers."""
        given = {"directory": directory, "broker": broker, "topic": TOPIC}
        self._directory = directory
        self._sent = 0
        self._process: subprocess.Popen[bytes] | None = None
        of_worker, of_connector = (
            block.replace(BINDING, served.url)
            for language, block in BLOCK.findall(read_page("docs/guides/java.md"))
            if language == "properties" and block.startswith("producer.")
        )
        (directory / "worker").write_text(WORKER.format(**given) + of_worker)
        (directory / "connector").write_text(CONNECTOR.format(**given) + of_connector)
        self.append()

    def append(self) -> None:
        with (self._directory / TOPIC).open("a") as file:
            file.writelines(f"{self._sent + each}\n" for each in range(LINES))
        self._sent += LINES

    def start(self) -> None:
        path = f"{kafka.connect()}:{java.interceptor_jar()}"
        words = [classes.java(), "-cp", path, "org.apache.kafka.connect.cli.ConnectStandalone"]
        with (self._directory / "out").open("ab") as out:
            self._process = subprocess.Popen(
                [*words, "worker", "connector"],
                cwd=self._directory,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def worker(tmp_path: Path, broker: Broker, served: Served) -> Iterator[Worker]:
    """Create topic and stream, and return a worker that is not started."""
    broker.create(TOPIC)
    served.create(TOPIC)
    worker = Worker(tmp_path, broker, served)
    yield worker
    worker.kill()


def test_killed_connect_worker_notes_every_line(
    worker: Worker, broker: Broker, served: Served
) -> None:
    """The next process reads the file again, because the first one had stored no offset."""

    def wrote(lines: int) -> None:
        wait_until(lambda: sum(topic.look().ends.values()) >= lines)

    topic = Topic(broker.config, TOPIC)
    worker.start()
    wrote(LINES)
    worker.append()
    wrote(2 * LINES)
    worker.kill()
    worker.start()
    wrote(4 * LINES)
    worker.append()  # a later stamp, so that the next mark covers all before
    wait_until(lambda: count_covered(served, TOPIC) >= 4 * LINES)
    wrote(5 * LINES)

    values = {record.value for record in broker.records(TOPIC)}
    assert judge_marks(broker, TOPIC, controller=served).violations == ()
    assert values == {b"%d" % line for line in range(3 * LINES)}
    assert list(served.writers(TOPIC)) == ["connector-producer-files-0"]
