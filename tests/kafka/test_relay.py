"""The relay on a real broker: the rows of a relayed mark are readable."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from msgspec.structs import replace

from noted_time import NotedTimeError, Rejected, Unreachable
from noted_time.answers import MarksAnswer
from noted_time.client import Json, Question
from noted_time.kafka.noted_topic import NotedRecord, name_noted_topic
from noted_time.kafka.topic import Topic
from noted_time.values import StreamCut, reaches
from reader_client import KafkaRelay
from reader_client.protocol.questions import ask_marks
from tests.kafka.conftest import Flights
from tests.support.processes import environment
from tests.support.transactions import begin_transaction
from tests.trials.laws import marks_are_sound
from tools.trials.daemons import Daemon
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import wait_until
from writer_client import KafkaNotedProducer

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000


class RelayedFlights(Flights):
    """Flights, the topic of their marks, and its relays."""

    def __init__(self, broker: Broker, served: Served, topic: str) -> None:
        super().__init__(broker, served, topic)
        self.noted = name_noted_topic(topic)
        self._relays: list[KafkaRelay] = []

    def make_relay(self, new_partition_ms: int = 0) -> KafkaRelay:
        """Return a relay, which by default takes no partition for new."""
        relay = KafkaRelay(
            *self.place, controller=self.served.url, new_partition_ms=new_partition_ms
        )
        self._relays.append(relay)
        return relay

    def close(self) -> None:
        super().close()
        for relay in self._relays:
            try:
                relay.close()
            except NotedTimeError:
                assert relay.failure is not None

    def write(self, time: int, **options: Any) -> None:  # noqa: ANN401 - of `Calls.note`
        """Write a record, and note a time with it."""
        self.send((0, "a", NOON))
        position = {str(partition): end for partition, end in self.look().ends.items()}
        self.served.note(self.topic, time, position, **options)

    def wait_for_relay(self, relay: KafkaRelay, count: int) -> None:
        def count_relayed() -> int:
            relay.look()
            return self.noted in self.broker.topics() and relay.noted.look().ends.get(0, 0)

        wait_until(lambda: count_relayed() >= count)

    def relay_marks(self, relay: KafkaRelay, count: int = 2) -> list[NotedRecord]:
        """Relay marks with the lowers 10, 20 and so on, and return their records."""
        for number in range(1, count + 1):
            self.write(10 * number)
            self.wait_for_relay(relay, number)
        return self.list_relayed()

    def list_relayed(self) -> list[NotedRecord]:
        return [NotedRecord.read(record.value) for record in self.broker.records(self.noted)]

    def recreate_stream(self) -> None:
        self.served.ask("DELETE", f"/streams/{self.topic}")
        self.served.make(self.topic)

    def send_marks(self, *values: bytes) -> None:
        """Write to the topic of marks, in place of a relay."""
        self.broker.send(self.noted, [(0, value, 0) for value in values], "default")


@pytest.fixture
def flights(
    broker: Broker, served: Served, topic: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RelayedFlights]:
    """Return the topic with its stream and its relays, which look often."""
    monkeypatch.setattr("reader_client.kafka.relay.LOOK_MS", 20)
    with closing(RelayedFlights(broker, served, topic)) as flights:
        yield flights


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
def judge_relay(flights: RelayedFlights) -> Iterator[list[Json]]:
    """Compare each relayed mark with the readable ends of the events' topic."""
    marks: list[Json] = []
    unreadable = []

    def judge(stopping: threading.Event) -> None:
        with closing(Consumer({**flights.broker.config, "group.id": "judge"})) as consumer:
            consumer.assign([TopicPartition(flights.noted, 0, 0)])
            while not stopping.is_set():
                for message in consumer.consume(100, 0.05):
                    mark = NotedRecord.read(message.value()).mark
                    if not reaches(flights.look(committed=True).ends, mark.cut.offsets):
                        unreadable.append(mark)
                    marks.append(json.loads(message.value() or b""))

    with run_in_thread(judge):
        yield marks
    assert unreadable == []


@contextmanager
def keep_writing(flights: RelayedFlights) -> Iterator[None]:
    """Write with two producers whose transactions overlap."""

    def start(writer: str) -> KafkaNotedProducer:
        transactional_config = {"transactional.id": f"{flights.topic}-{writer}", "linger.ms": 0}
        return flights.start(
            writer, {**transactional_config, "topic.metadata.refresh.interval.ms": 200}
        )

    def produce(producer: KafkaNotedProducer, time: int) -> None:
        for key in "abcdefgh":
            producer.produce(value="a", event_time=time, key=key)

    def write(stopping: threading.Event) -> None:
        time = NOON
        with start("berlin") as berlin, start("lima") as lima:
            while not stopping.is_set():
                time += 10
                with berlin.transaction():
                    produce(berlin, time)
                    berlin.kafka.flush()
                    with lima.transaction():
                        produce(lima, time)
                        lima.note_time(time - 10)
                    lima.flush(30)  # this makes a mark, whose rows lie behind an open transaction
                    stopping.wait(0.3)
                    berlin.note_time(time)

    with run_in_thread(write):
        yield


def test_relayed_mark_follows_its_rows(flights: RelayedFlights, tmp_path: Path) -> None:
    """There are transactions, a second relay that is killed, growth and a controller restart."""
    command = [sys.executable, "-m", "noted_time", "relay", "kafka", flights.broker.address]
    command.append(flights.topic)
    env = environment(NOTED_TIME_URL=flights.served.url)
    with judge_relay(flights) as found, keep_writing(flights):

        def more() -> None:
            now = flights.served.get(flights.topic)["marks"]["default"] or {"lower": 0}
            wait_until(lambda: found and found[-1]["lower"] > now["lower"])

        with flights.make_relay(new_partition_ms=200):
            more()
        with Daemon(command, tmp_path / "log", env) as other:
            more()
            with flights.make_relay(new_partition_ms=200):
                more()
                flights.broker.grow(flights.topic, 4)
                wait_until(lambda: len(found[-1]["cut"]) == 4)
                other.kill()
                flights.served.stop()
                flights.served.start()
                more()

    assert list(marks_are_sound(found, flights.list_records())) == []
    marks = flights.list_marks()
    assert {mark["seq"] for mark in marks} >= {mark["seq"] for mark in found} > {1}


def test_relay_continues_at_the_end_of_its_topic(flights: RelayedFlights) -> None:
    """Each mark is relayed once, also in a domain that is added later."""
    flights.relay_marks(flights.make_relay())
    flights.served.create(flights.topic, domains=["default", "ingestion"])
    flights.write(30)
    flights.write(5, domain="ingestion")
    flights.wait_for_relay(flights.make_relay(), 4)
    settings = Topic(flights.broker.config, flights.noted).settings()

    domains_and_seqs = [
        (relayed_mark.domain, relayed_mark.mark.seq) for relayed_mark in flights.list_relayed()
    ]
    assert sorted(domains_and_seqs) == [
        ("default", 1),
        ("default", 2),
        ("default", 3),
        ("ingestion", 1),
    ]
    keys = [record.key for record in flights.broker.records(flights.noted)]
    assert keys == [domain.encode() for domain, _ in domains_and_seqs]
    assert (settings["cleanup.policy"], flights.broker.topics()[flights.noted]) == ("compact", 1)


def test_relay_names_a_mark_that_waits_long(
    flights: RelayedFlights, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the partition, once."""
    monkeypatch.setattr("reader_client.kafka.relay.WARN_AFTER_MS", 0)
    relay = flights.make_relay()
    flights.relay_marks(relay, 1)
    flights.served.note(flights.topic, 20, {"1": 1})
    for _ in range(3):
        relay.look()
    flights.send((1, "a", NOON))
    flights.wait_for_relay(relay, 2)

    (warning,) = (message for message in caplog.messages if "waits:" in message)
    assert "waits: partition 1 of" in warning
    assert "is readable to 0, and the cut has 1" in warning


def test_relay_names_a_foreign_transaction_in_its_topic(flights: RelayedFlights) -> None:
    """It might hide marks of another stream; the relay continues after its end."""
    relay = flights.make_relay()
    flights.relay_marks(relay, 1)
    other = begin_transaction(flights.broker, flights.noted, "hello", key=b"default")
    with pytest.raises(Unreachable, match="has a transaction of another program"):
        relay.look()
    other.abort_transaction()
    flights.write(20)

    def is_relayed() -> bool:
        with suppress(Unreachable):  # a running relay retries later
            relay.look()
        return len(flights.list_relayed()) == 2

    wait_until(is_relayed)


def forge(record: NotedRecord, **changes: Any) -> bytes:  # noqa: ANN401 - fields of a mark
    """Return a record with another mark."""
    return replace(record, mark=replace(record.mark, **changes)).value


Act = Callable[[RelayedFlights, NotedRecord, NotedRecord], object]


def recreate_stream(flights: RelayedFlights, *_: NotedRecord) -> None:
    flights.recreate_stream()


def recreate_topic(flights: RelayedFlights, *_: NotedRecord) -> None:
    flights.broker.create(flights.topic, 1)


def delete_noted_topic(flights: RelayedFlights, *_: NotedRecord) -> None:
    flights.broker.delete(flights.noted)


def write_as_stranger(flights: RelayedFlights, *_: NotedRecord) -> None:
    flights.send_marks(b"hello")


def name_other_stream(flights: RelayedFlights, _: NotedRecord, last: NotedRecord) -> None:
    flights.send_marks(replace(last, stream="other").value)


def forge_seq(flights: RelayedFlights, _: NotedRecord, last: NotedRecord) -> None:
    flights.send_marks(forge(last, seq=7))


def forge_lower(flights: RelayedFlights, _: NotedRecord, last: NotedRecord) -> None:
    flights.send_marks(forge(last, lower=2_000_000))


def forge_cut(flights: RelayedFlights, _: NotedRecord, last: NotedRecord) -> None:
    flights.send_marks(forge(last, cut=StreamCut({0: 1000})))


def forge_first_lower(flights: RelayedFlights, first: NotedRecord, last: NotedRecord) -> None:
    flights.send_marks(forge(first, lower=2_000_000), last.value)


FAULTS_AND_ERRORS: dict[str, tuple[Act, str]] = {
    "stream": (recreate_stream, "was deleted and created again|another relay"),
    "topic": (recreate_topic, "was deleted and created again|this is a mark of .* over topic id"),
    "noted topic": (delete_noted_topic, "was deleted"),
    "stranger": (write_as_stranger, "offset 2: no relay has written b'hello'. Delete Kafka topic"),
    "other stream": (
        name_other_stream,
        "offset 2: this is a mark of stream 'other'.*If another relay writes it",
    ),
    "backup": (forge_seq, "went back to mark 2, as after a restored backup"),
    "lower": (
        forge_lower,
        "offset 2: mark 2 of .* has the lower 2000000 there, and 20 at the controller",
    ),
    "cut": (
        forge_cut,
        r"offset 2: mark 2 .*\{0: 1000\} of its cut there, and \{0: 2\} at the controller",
    ),
    "lower of the past, and the true record": (
        forge_first_lower,
        "offset 2: mark 1 of .* has the lower 2000000 there, and 10 at",
    ),
}
"""What happens after two marks, and the error of the relays."""


@pytest.mark.parametrize("name", FAULTS_AND_ERRORS)
def test_relay_ends_if_it_can_no_longer_be_exact(flights: RelayedFlights, name: str) -> None:
    """A running relay ends, and the next one does not start."""
    act, sentence = FAULTS_AND_ERRORS[name]
    flights.broker.create(flights.topic, 1)
    relay = flights.make_relay()
    second_relay = flights.make_relay()
    act(flights, *flights.relay_marks(relay))

    for ended_relay in (relay,) if name == "noted topic" else (relay, second_relay):
        with pytest.raises(Rejected, match=sentence):
            flights.wait_for_relay(ended_relay, 9)


@pytest.mark.parametrize("is_forged", [False, True], ids=["true", "forged"])
def test_relay_compares_a_dropped_mark_with_its_successor(
    flights: RelayedFlights, monkeypatch: pytest.MonkeyPatch, *, is_forged: bool
) -> None:
    """A relay continues after an absence longer than marks are kept; a forged mark ends it."""
    first, _ = flights.relay_marks(flights.make_relay())
    flights.broker.create(flights.noted, 1)
    flights.send_marks(forge(first, lower=20) if is_forged else first.value)
    monkeypatch.setattr("reader_client.kafka.relay.ask_marks", skip_first_mark)
    relay = flights.make_relay()

    if is_forged:
        with pytest.raises(Rejected, match=r"mark 1 .* the lower 20 there, and below 20 at"):
            relay.look()
    else:
        flights.wait_for_relay(relay, 2)


def skip_first_mark(stream: str, seq: int, *more: Any) -> Question[MarksAnswer]:  # noqa: ANN401 - any
    return ask_marks(stream, max(seq, 1), *more)
