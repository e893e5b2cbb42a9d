"""An unchanged Kafka Connect notes by its worker's configuration alone."""

from pathlib import Path

import pytest

from tests.kafka.conftest import Flights
from tests.support.kafka_judge import count_covered
from tests.support.page import BINDING, BLOCK, read_page
from tests.support.processes import environment
from tools.trials import classes, java, kafka
from tools.trials.daemons import Daemon
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import wait_until

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(java.compiler() is None, reason=java.MISSING),
    pytest.mark.skipif(not kafka.connect(), reason=kafka.MISSING),
]

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


class SentLines(Flights):
    """A topic, and a file whose lines a standalone worker of Kafka Connect sends to it."""

    def __init__(self, broker: Broker, served: Served, topic: str, directory: Path) -> None:
        """Configure the worker, also by the settings of the page on Java producers."""
        super().__init__(broker, served, topic)
        self._directory = directory
        self._file = directory / topic
        self._written = 0
        places = {"directory": directory, "broker": broker, "topic": topic}
        printed_blocks = (
            block.replace(BINDING, served.url)
            for language, block in BLOCK.findall(read_page("docs/guides/java.md"))
            if language == "properties" and block.startswith("producer.")
        )
        for name, own_settings in ("worker", WORKER), ("connector", CONNECTOR):
            (directory / name).write_text(own_settings.format(**places) + next(printed_blocks))
        self.append()

    def append(self) -> None:
        with self._file.open("a") as file:
            file.writelines(f"{self._written + number}\n" for number in range(LINES))
        self._written += LINES

    def start_worker(self) -> Daemon:
        path = f"{kafka.connect()}:{java.interceptor_jar()}"
        words = [classes.java(), "-cp", path, "org.apache.kafka.connect.cli.ConnectStandalone"]
        words += [str(self._directory / name) for name in ("worker", "connector")]
        return Daemon(words, self._directory / "log", environment())

    def wait_for(self, lines: int) -> None:
        wait_until(lambda: sum(self.look().ends.values()) >= lines)


def test_killed_connect_worker_notes_every_line(
    broker: Broker, served: Served, topic: str, tmp_path: Path
) -> None:
    """The next process reads the file again, because the first one had stored no offset."""
    lines = SentLines(broker, served, topic, tmp_path)
    with lines.start_worker() as worker:
        lines.wait_for(LINES)
        lines.append()
        lines.wait_for(2 * LINES)
        worker.kill()
    with lines.start_worker():
        lines.wait_for(4 * LINES)
        lines.append()  # a later stamp, so that the next mark covers all before
        wait_until(lambda: count_covered(served, topic) >= 4 * LINES)
        lines.wait_for(5 * LINES)

    assert lines.check_marks()
    assert {*lines.list_values()} == {b"%d" % line for line in range(3 * LINES)}
    assert list(lines.read_writers()) == ["connector-producer-files-0"]
