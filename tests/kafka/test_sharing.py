"""Several observers of one topic on a real broker: each mark is judged against each record."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.kafka import Broker
from tests.support.kafka_judge import judged
from tests.support.served import Served
from tests.support.waiting import wait_until
from writer_client import EventTimeNoter, KafkaTimes, PartitionWriters, SharedObserver

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000
POLL_MS = 50


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Return a controller without streams."""
    with Served() as served:
        yield served


@pytest.fixture
def topic(broker: Broker, served: Served, request: pytest.FixtureRequest) -> str:
    """Return a topic of four partitions, named like the test, with its stream."""
    name = str(request.node.name)
    broker.create(name, 4)
    served.make(name)
    return name


def sharing(broker: Broker, served: Served, topic: str) -> SharedObserver:
    """Return an observer of some partitions: by the records' timestamps, in their order."""
    return SharedObserver(
        broker.config,
        topic,
        PartitionWriters(served.url, topic, "observer", domain="default", timeout_ms=600_000),
        KafkaTimes(broker.config, topic),
        lambda client, view: EventTimeNoter(
            client, view, delay_ms=0, idle_timeout_ms=0, poll_ms=POLL_MS
        ),
        poll_ms=POLL_MS,
    )


@contextmanager
def producing(broker: Broker, topic: str) -> Iterator[Callable[[], int]]:
    """Send records to all partitions in turn, each later than all before; yields what counts."""
    sent, stopping = itertools.count(1), threading.Event()
    state = {"last": 0}

    def run() -> None:
        while not stopping.is_set():
            partitions = broker.topics()[topic]
            numbers = [next(sent) for _ in range(partitions * 5)]
            broker.send(topic, [(n % partitions, str(n), NOON + n) for n in numbers])
            state["last"] = numbers[-1]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield lambda: state["last"]
    finally:
        stopping.set()
        thread.join()


def test_two_share_a_topic_and_one_continues_for_both_as_it_grows(
    broker: Broker, served: Served, topic: str
) -> None:
    """Whichever process notes a partition, no record is below a lower that does not cover it."""
    with producing(broker, topic) as last:

        def passes() -> None:
            """Wait until time has passed what was sent by now."""
            now = NOON + last()
            wait_until(lambda: served.get(topic)["marks"]["default"])
            wait_until(lambda: served.lower(topic) > now)

        one = sharing(broker, served, topic)
        two = sharing(broker, served, topic)
        with one:
            with two:
                wait_until(lambda: one.partitions and two.partitions)
                passes()
            wait_until(lambda: len(one.partitions) == 4)
            broker.grow(topic, 6)
            wait_until(lambda: len(one.partitions) == 6)
            passes()

    verdict = judged(broker, topic, controller=served)
    assert (verdict.violations, verdict.marks > 2) == ((), True), verdict
