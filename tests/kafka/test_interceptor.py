"""The interceptor under plain producers in Java: each mark is judged against each record."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from noted_time import Rejected
from tests.support import java
from tests.support.calls import HOUR_MS
from tests.support.java import JavaProducer
from tests.support.kafka import Broker
from tests.support.kafka_judge import all_marks, judged
from tests.support.served import Served
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(java.compiler() is None, reason=java.MISSING),
]

NOON = 1_357_041_600_000
NOWHERE = "127.0.0.1:9"
Start = Callable[..., JavaProducer]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Return a controller without streams."""
    with Served() as served:
        yield served


@pytest.fixture
def topic(broker: Broker, served: Served, request: pytest.FixtureRequest) -> str:
    """Return a topic of two partitions, named like the test, with its stream."""
    name = str(request.node.originalname)
    broker.create(name, 2)
    served.make(name, max_time_ahead_ms=None)
    return name


@pytest.fixture
def start(broker: Broker, served: Served, topic: str, tmp_path: Path) -> Iterator[Start]:
    """Return what starts a producer of the topic; those that still run are killed."""
    started: list[JavaProducer] = []

    def start(writer: str = "berlin", version: str = "4.3", **given: object) -> JavaProducer:
        own = {f"noted.time.{name}": value for name, value in given.items()}
        settings = {**broker.config, **java.interceptor(served.url, writer), **own}
        started.append(JavaProducer(tmp_path / str(len(started)), topic, settings, version))
        return started[-1]

    yield start
    for producer in started:
        producer.kill()


def now() -> list[tuple[None, str]]:
    """Return some records without a timestamp."""
    return [(None, "sold")] * 50


def lower(served: Served, topic: str) -> int:
    """Return the lower of the last mark, 0 without one."""
    marks = all_marks(served, topic)
    return int(marks[-1]["lower"]) if marks else 0


def send_until_noted(producers: Iterable[JavaProducer], served: Served, topic: str) -> None:
    """Have all send records until time is noted beyond the present, and some more."""
    present = time.time() * 1000

    def is_noted() -> bool:
        for producer in producers:
            producer.send(*now())
        return lower(served, topic) > present

    wait_until(is_noted)


def test_killed_eight_times_their_notes_cover_what_they_wrote(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """Two writers, of both versions; partitions are added, and the controller is away once."""
    writers = ("berlin", "lima")
    served.make(topic, expected_writers=writers)
    for number in range(5):
        running = [start(*each) for each in zip(writers, java.VERSIONS, strict=True)]
        if number == 3:
            served.start()
        send_until_noted(running, served, topic)
        if number == 4:
            break
        broker.grow(topic, 3 + number)
        if number == 2:
            served.stop()
        for producer in running:
            producer.send(*now())
            producer.kill()
    for producer in running:
        producer.close()

    verdict = judged(broker, topic, controller=served)
    assert (verdict.violations, verdict.records > 500) == ((), True)
    assert {row["state"] for row in served.writers(topic).values()} == {"idle"}
    assert max(each.partition for each in broker.records(topic)) > 1


def test_a_producer_of_historic_times_takes_none_from_other_writers(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """It is started again, and finds records in the topic that are newer than any it will send."""
    behind, ahead = (start(writer, order="stamps") for writer in ("behind", "ahead"))
    for producer, stamp in (behind, NOON), (ahead, NOON + HOUR_MS):
        producer.send((stamp, "sold"))
        producer.flush()
        wait_until(lambda stamp=stamp: stamp in times(served, topic))  # type: ignore[misc]
    behind.kill()
    behind = start("behind", order="stamps")
    behind.send((NOON + 1, "sold"))
    behind.flush()
    wait_until(lambda: NOON not in times(served, topic))

    assert times(served, topic) == {NOON + 1, NOON + HOUR_MS}
    assert judged(broker, topic, controller=served).violations == ()


def times(served: Served, topic: str) -> set[int]:
    """Return the times that the writers have noted."""
    return {row["times"].get("default", 0) for row in served.writers(topic).values()}


def test_a_java_runtime_without_a_compiler_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`./run java` says what to install."""
    monkeypatch.setattr(java, "BUILT", tmp_path)
    monkeypatch.setattr(java, "compiler", lambda: None)

    with pytest.raises(Rejected, match=r"no javac: .* Install a JDK, 11 or newer"):
        java.interceptor_jar()
