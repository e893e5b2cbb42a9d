"""The relay on a real broker: the rows of a relayed mark are readable."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from msgspec.structs import replace

from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import wait_until
from noted_time import NotedTimeError, Rejected, Unreachable
from noted_time.answers import MarksAnswer
from noted_time.client import Question
from noted_time.kafka.noted_topic import NotedRecord
from noted_time.kafka.topic import Topic
from noted_time.values import StreamCut, reaches
from reader_client import KafkaRelay
from reader_client.protocol.questions import ask_marks
from tests.support.kafka_judge import Json, wait_for_relay
from tests.support.processes import environment
from tests.support.transactions import begin_transaction
from tests.trials.laws import marks_are_sound
from writer_client import KafkaNotedProducer

pytestmark = pytest.mark.acceptance

Start = Callable[..., KafkaRelay]
NOON = 1_357_041_600_000


@pytest.fixture
def start(broker: Broker, served: Served, topic: str) -> Iterator[Start]:
    """Return a function that makes a relay; no partition is taken for new."""
    made = []

    def start(**options: Any) -> KafkaRelay:  # noqa: ANN401 - any option
        given = {"url": served.url, "new_partition_ms": 0, **options}
        made.append(KafkaRelay(broker.config, topic, **given))
        return made[-1]

    yield start
    for relay in made:
        try:
            relay.close()
        except NotedTimeError:
            assert relay.failure is not None


@pytest.fixture(autouse=True)
def shorten_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reader_client.kafka.relay.LOOK_MS", 20)


def read_relayed(broker: Broker, topic: str) -> list[NotedRecord]:
    """Return the records of the noted topic."""
    return [NotedRecord.read(each.value) for each in broker.records(f"{topic}.noted")]


def write(broker: Broker, served: Served, topic: str, time: int, **options: Any) -> None:  # noqa: ANN401
    """Write a record, and note a time with it."""
    broker.send(topic, [(0, "a", NOON)])
    ends = Topic(broker.config, topic).look().ends
    served.note(topic, time, {str(p): end for p, end in ends.items()}, **options)


@contextmanager
def run_in_thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread for the block."""
    stopping = threading.Event()
    thread = threading.Thread(target=work, args=[stopping])
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


@contextmanager
def judge_relay(broker: Broker, topic: str) -> Iterator[list[Json]]:
    """Compare each relayed mark with the readable ends of the events' topic."""
    found: list[Json] = []
    unreadable, events = [], Topic(broker.config, topic)

    def judge(stopping: threading.Event) -> None:
        with closing(Consumer({**broker.config, "group.id": "judge"})) as consumer:
            consumer.assign([TopicPartition(f"{topic}.noted", 0, 0)])
            while not stopping.is_set():
                for message in consumer.consume(100, 0.05):
                    mark = NotedRecord.read(message.value()).mark
                    if not reaches(events.look(committed=True).ends, mark.cut.offsets):
                        unreadable.append(mark)
                    found.append(json.loads(message.value() or b""))

    with run_in_thread(judge):
        yield found
    assert unreadable == []


def keep_writing(broker: Broker, served: Served, topic: str, stopping: threading.Event) -> None:
    """Write with two producers whose transactions overlap."""

    def make_producer(writer: str) -> KafkaNotedProducer:
        own = {"transactional.id": f"{topic}-{writer}", "topic.metadata.refresh.interval.ms": 200}
        config = {**broker.config, **own, "linger.ms": 0}
        return KafkaNotedProducer(config, topic, served.url, writer)

    def produce(producer: KafkaNotedProducer) -> None:
        for key in "abcdefgh":
            producer.produce(value="a", event_time=time, key=key)

    time = NOON
    with make_producer("berlin") as berlin, make_producer("lima") as lima:
        while not stopping.is_set():
            time += 10
            with berlin.transaction():
                produce(berlin)
                berlin.kafka.flush()
                with lima.transaction():
                    produce(lima)
                    lima.note_time(time - 10)
                lima.flush(30)  # this makes a mark, whose rows lie behind an open transaction
                stopping.wait(0.3)
                berlin.note_time(time)


@contextmanager
def kill_at_end(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Kill the process at the end of the block."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_relayed_mark_follows_its_rows(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """There are transactions, a second relay that is killed, growth and a controller restart."""
    words = [sys.executable, "-m", "noted_time", "relay", "kafka", broker.address, topic]
    with (
        judge_relay(broker, topic) as found,
        run_in_thread(partial(keep_writing, broker, served, topic)),
    ):

        def more() -> None:
            now = served.get(topic)["marks"]["default"] or {"lower": 0}
            wait_until(lambda: found and found[-1]["lower"] > now["lower"])

        with start(new_partition_ms=200):
            more()
        with kill_at_end(
            subprocess.Popen(words, env=environment(NOTED_TIME_URL=served.url))
        ) as other:
            more()
            with start(new_partition_ms=200):
                more()
                broker.grow(topic, 4)
                wait_until(lambda: len(found[-1]["cut"]) == 4)
                other.kill()
                served.stop()
                served.start()
                more()

    marks = served.all_marks(topic)
    assert list(marks_are_sound(found, broker.records(topic))) == []
    assert {mark["seq"] for mark in marks} >= {mark["seq"] for mark in found} > {1}


def test_relay_continues_at_the_end_of_its_topic(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """Each mark is relayed once, also in a domain that is added later."""
    first = start()
    for time in (10, 20):
        write(broker, served, topic, time)
        wait_for_relay(first, broker, time // 10)
    served.create(topic, domains=["default", "ingestion"])
    write(broker, served, topic, 30)
    write(broker, served, topic, 5, domain="ingestion")
    wait_for_relay(start(), broker, 4)
    settings = Topic(broker.config, f"{topic}.noted").settings()

    found = [(each.domain, each.mark.seq) for each in read_relayed(broker, topic)]
    assert sorted(found) == [("default", 1), ("default", 2), ("default", 3), ("ingestion", 1)]
    assert [each.key for each in broker.records(f"{topic}.noted")] == [
        domain.encode() for domain, _ in found
    ]
    assert (settings["cleanup.policy"], broker.topics()[f"{topic}.noted"]) == ("compact", 1)


def test_relay_names_a_mark_that_waits_long(
    broker: Broker, served: Served, topic: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the partition, once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reader_client.kafka.relay.WARN_AFTER_MS", 0)
        relay = start()
        write(broker, served, topic, 10)
        wait_for_relay(relay, broker, 1)
        served.note(topic, 20, {"1": 1})
        for _ in range(3):
            relay.look()
    broker.send(topic, [(1, "a", NOON)])
    wait_for_relay(relay, broker, 2)

    (said,) = (each for each in caplog.messages if "waits:" in each)
    assert "waits: partition 1 of" in said
    assert "is readable to 0, and the cut has 1" in said


def test_relay_names_a_foreign_transaction_in_its_topic(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """It might hide marks of another stream; the relay continues after its end."""
    relay = start()
    write(broker, served, topic, 10)
    wait_for_relay(relay, broker, 1)
    other = begin_transaction(broker, f"{topic}.noted", "hello", key=b"default")
    with pytest.raises(Unreachable, match="has a transaction of another program"):
        relay.look()
    other.abort_transaction()
    write(broker, served, topic, 20)
    wait_until(lambda: look_once(relay) and len(read_relayed(broker, topic)) == 2)


def look_once(relay: KafkaRelay) -> bool:
    """Look like a running relay, which retries later."""
    with suppress(Unreachable):
        relay.look()
    return True


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        ("stream", "was deleted and created again|another relay"),
        ("topic", "was deleted and created again|this is a mark of .* over topic id"),
        ("noted", "was deleted"),
        ("stranger", "offset 2: no relay has written b'hello'. Delete Kafka topic"),
        ("other-stream", "offset 2: this is a mark of stream 'other'.*If another relay writes it"),
        ("backup", "went back to mark 2, as after a restored backup"),
        ("lower", "offset 2: mark 2 of .* has the lower 2000000 there, and 20 at the controller"),
        ("cut", r"offset 2: mark 2 .*\{0: 1000\} of its cut there, and \{0: 2\} at the controller"),
        ("lower-of-the-past", "offset 2: mark 1 of .* has the lower 2000000 there, and 10 at"),
    ],
)
def test_relay_ends_if_it_can_no_longer_be_exact(
    broker: Broker, served: Served, act: str, sentence: str
) -> None:
    """A running relay ends, and the next one does not start."""
    broker.create(topic := f"relay-{act}", 1)
    served.make(topic)
    relay, again = (KafkaRelay(broker.config, topic, served.url, new_partition_ms=0) for _ in "ab")
    for time in (10, 20):
        write(broker, served, topic, time)
        wait_for_relay(relay, broker, time // 10)
    first, record = read_relayed(broker, topic)
    if act == "stream":
        served.ask("DELETE", f"/streams/{topic}")
        served.make(topic)
    elif act == "topic":
        broker.create(topic, 1)
    elif act == "noted":
        broker.delete(f"{topic}.noted")
    else:
        mark = record.mark
        values = {
            "stranger": [b"hello"],
            "other-stream": [replace(record, stream="other").value],
            "backup": [replace(record, mark=replace(mark, seq=7)).value],
            "lower": [replace(record, mark=replace(mark, lower=2_000_000)).value],
            "cut": [replace(record, mark=replace(mark, cut=StreamCut({0: 1000}))).value],
            "lower-of-the-past": [  # and then the true record
                replace(first, mark=replace(first.mark, lower=2_000_000)).value,
                record.value,
            ],
        }
        producer = Producer(broker.config)
        for value in values[act]:
            producer.produce(f"{topic}.noted", value, b"default")
        producer.flush()

    for each in [relay, again][: 1 + (act != "noted")]:
        with closing(each), pytest.raises(Rejected, match=sentence):
            wait_for_relay(each, broker, 9)


def test_relay_compares_a_dropped_mark_with_its_successor(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """A relay continues after an absence longer than marks are kept; a forged mark ends it."""
    for time in (10, 20):
        write(broker, served, topic, time)
        wait_for_relay(start(), broker, time // 10)
    first = read_relayed(broker, topic)[0]
    broker.delete(f"{topic}.noted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reader_client.kafka.relay.ask_marks", skip_first_mark)
        for lower, is_forged in ((10, False), (20, True)):
            values = replace(first, mark=replace(first.mark, lower=lower)).value
            broker.create(f"{topic}.noted", 1)
            broker.send(f"{topic}.noted", [(0, values, 0)], "default")
            relay = start()
            if is_forged:
                with pytest.raises(
                    Rejected, match=r"mark 1 .* the lower 20 there, and below 20 at"
                ):
                    relay.look()
            else:
                wait_for_relay(relay, broker, 2)


def skip_first_mark(stream: str, seq: int, *more: Any) -> Question[MarksAnswer]:  # noqa: ANN401 - any
    return ask_marks(stream, max(seq, 1), *more)
