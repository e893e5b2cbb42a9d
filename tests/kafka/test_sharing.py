"""Several observers of one topic on a real broker: each mark is judged against each record."""

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.kafka import Broker
from tests.support.kafka_judge import judged
from tests.support.processes import environment
from tests.support.served import Served
from tests.support.waiting import wait_until
from writer_client import EventTimeNoter, KafkaTimes, PartitionWriters, SharedObserver

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000
POLL_MS = 50
SESSION_MS = 6000
"""The shortest that the broker allows."""


@pytest.fixture
def topic(broker: Broker, served: Served, request: pytest.FixtureRequest) -> str:
    """Return a topic of four partitions, named like the test, with its stream."""
    name = str(request.node.name)
    broker.create(name, 4)
    served.make(name)
    return name


@pytest.fixture
def command(
    broker: Broker, served: Served, topic: str, tmp_path: Path
) -> Iterator[subprocess.Popen[str]]:
    """A process that shares the topic: by a field, whose values are in order."""
    config = tmp_path / "client.properties"
    config.write_text(f"session.timeout.ms={SESSION_MS}\n")
    words = ["observe", "kafka", "field", broker.address, topic, "--share"]
    options = f"--field at --delay 0s --idle 0s --poll 50ms --timeout 10m --config {config}"
    with subprocess.Popen(
        [sys.executable, "-m", "noted_time", *words, *options.split()],
        env=environment(NOTED_TIME_URL=served.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        yield running
        running.kill()


@pytest.fixture
def other(broker: Broker, served: Served, topic: str) -> Iterator[SharedObserver]:
    """An observer in this process, which shares the topic with the command: by timestamps."""
    with SharedObserver(
        {**broker.config, "session.timeout.ms": SESSION_MS},
        topic,
        PartitionWriters(served.url, topic, "observer", domain="default", timeout_ms=600_000),
        lambda _: KafkaTimes(broker.config, topic),
        lambda client, view: EventTimeNoter(
            client, view, delay_ms=0, idle_timeout_ms=0, poll_ms=POLL_MS
        ),
        poll_ms=POLL_MS,
    ) as observer:
        yield observer


@contextmanager
def producing(broker: Broker, topic: str) -> Iterator[Callable[[], int]]:
    """Send records to all partitions in turn, each later than all before; yields what counts."""
    sent, stopping = itertools.count(1), threading.Event()
    state = {"last": 0}

    def run() -> None:
        while not stopping.is_set():
            partitions = broker.topics()[topic]
            numbers = [next(sent) for _ in range(partitions * 5)]
            broker.send(
                topic, [(n % partitions, f'{{"at": {NOON + n}}}', NOON + n) for n in numbers]
            )
            state["last"] = numbers[-1]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield lambda: state["last"]
    finally:
        stopping.set()
        thread.join()


def test_one_is_killed_and_the_other_observes_its_partitions_and_new_ones(
    broker: Broker,
    served: Served,
    topic: str,
    command: subprocess.Popen[str],
    other: SharedObserver,
) -> None:
    """Whichever process notes a partition, no record is below a lower that does not cover it."""
    with producing(broker, topic) as last:

        def passes() -> None:
            """Wait until time has passed what was sent by now."""
            now = NOON + last()
            wait_until(lambda: served.get(topic)["marks"]["default"])
            wait_until(lambda: served.lower(topic) > now)

        def taken_over() -> int:
            """Return how many of the writers the command has."""
            rows = served.get(f"{topic}/writers")["writers"]
            return str(rows).count(f":{command.pid}'")

        wait_until(lambda: (taken_over(), len(other.partitions)) == (2, 2))
        passes()
        command.kill()
        wait_until(lambda: len(other.partitions) == 4)
        broker.grow(topic, 6)
        wait_until(lambda: len(other.partitions) == 6)
        passes()

    said, warned = command.communicate()
    verdict = judged(broker, topic, controller=served)
    assert (verdict.violations, verdict.marks > 2) == ((), True), verdict
    said_so = f"observer-… observes {topic}, in group noted-time.{topic}.observer\n"
    assert said == said_so, warned
    assert f"noted-time stream create {topic} --expected-writer observer-0" in warned
