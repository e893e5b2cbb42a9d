"""A consumer reports the position that it has processed."""

import logging
from contextlib import ExitStack, suppress
from itertools import islice

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from noted_time import Recreated, Rejected
from reader_client import KafkaNotedConsumer, ReaderClient
from tests.kafka.conftest import Flights
from tests.support.transactions import begin_transaction
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import wait_until

pytestmark = pytest.mark.acceptance

PARTITIONS = 1


class ReadFlights(Flights):
    """Flights, and consumers that share them."""

    def send_to_each(self, count: int) -> None:
        """Write so many records to every partition."""
        partitions = self.look().partitions
        rows = []
        for number in range(count):
            time = 1000 + number
            rows += [(partition, f"{partition}.{number}", time) for partition in partitions]
        self.send(*rows)

    def consumer(self, name: str, **settings: object) -> KafkaNotedConsumer:
        """Return a consumer whose reader has the name."""
        config = {
            **self.broker.config,
            "group.id": self.topic,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            **settings,
        }
        reader = ReaderClient(self.topic, controller=self.served.url, group="g", reader=name)
        return KafkaNotedConsumer(config, reader)

    def read_group(self) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        """Return the group's position and online readers at the controller."""
        group = self.served.get(f"{self.topic}/reader-groups/g")
        return group["position"], group["readers"]


@pytest.fixture
def flights(broker: Broker, served: Served, topic: str) -> ReadFlights:
    """Return the topic and its stream."""
    return ReadFlights(broker, served, topic)


def values(consumer: KafkaNotedConsumer, number: int) -> list[bytes | None]:
    """Return the values of the next messages, read one by one."""
    return [message.value() for message in islice(consumer, number)]


def test_message_counts_once_the_next_is_requested(flights: ReadFlights) -> None:
    """The last message that was handed out comes again."""
    flights.send_to_each(5)
    flights.served.note(flights.topic, 2000, {"0": 5})
    with flights.consumer("one") as first_consumer:
        first = values(first_consumer, 3)
        position = first_consumer.reader.position
    with flights.consumer("two") as two:
        wait_until(two.reader.last_mark)
        values_again = values(two, 3)
        before = two.get_time_window().lower
        two.consume(1)
        wait_until(lambda: two.get_time_window().lower == 2000)

    assert (first, position, values_again, before) == (
        [b"0.0", b"0.1", b"0.2"],
        {0: 2},
        [b"0.2", b"0.3", b"0.4"],
        None,
    )
    assert flights.read_group() == ({"0": 5}, {})


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_consumers_share_and_hand_over_partitions(flights: ReadFlights, strategy: str) -> None:
    """Each reports its own partitions; no record is skipped when one leaves."""
    settings = {"partition.assignment.strategy": strategy}
    seen_values = set[bytes | None]()
    flights.broker.create(flights.topic, 4)
    flights.send_to_each(50)
    with ExitStack() as stack:
        consumers = [stack.enter_context(flights.consumer("one", **settings))]

        def read_until(last: int) -> None:
            expected = {str(p): last for p in range(4)}

            def is_there() -> bool:
                for consumer in consumers:
                    seen_values.update(message.value() for message in consumer.consume(20, 0.2))
                position, readers = flights.read_group()
                counts = [len(reader) for reader in readers.values()]
                return (
                    position == expected and sum(counts) == 4 and min(counts) == 4 // len(consumers)
                )

            wait_until(is_there)

        read_until(50)
        consumers.append(stack.enter_context(flights.consumer("two", **settings)))
        flights.send_to_each(50)
        read_until(100)
        consumers.pop(0).close()
        flights.send_to_each(50)
        read_until(150)

    assert len(seen_values) == 4 * 50


def test_consumer_does_not_report_revoked_partitions(
    flights: ReadFlights, caplog: pytest.LogCaptureFixture
) -> None:
    """A consumer loses partitions when it exceeds `max.poll.interval.ms`."""
    flights.send_to_each(5)
    with flights.consumer("one") as first_consumer:
        values(first_consumer, 3)
        first_consumer.consumer.unassign()
        with caplog.at_level(logging.WARNING):
            first_consumer.processed()

        assert (first_consumer.reader.position, "[0] were taken" in caplog.text) == ({0: 2}, True)


def test_aborted_records_at_the_end_count_as_read(flights: ReadFlights) -> None:
    """A cut covers an aborted transaction, but no reader gets its records."""
    begin_transaction(flights.broker, flights.topic, "aborted").abort_transaction(60)
    flights.served.note(flights.topic, 2000, {"0": 2})
    with flights.consumer("one") as first_consumer:

        def has_read_all() -> bool:
            if first_consumer.consume(1, 0.1):
                return False
            return first_consumer.get_time_window().lower == 2000

        wait_until(has_read_all)


def test_records_deleted_unread_are_named(
    flights: ReadFlights, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's own consumer silently begins at the first record left."""
    flights.send_to_each(9)
    with flights.consumer("one") as first_consumer:
        values(first_consumer, 3)
        first_consumer.processed()
    flights.broker.truncate(flights.topic, {0: 7})
    with caplog.at_level(logging.WARNING), flights.consumer("two") as two:
        values(two, 1)

    assert "partition 0: the records from 3 to 7 were deleted" in caplog.text


def wait_for_begin(consumer: KafkaNotedConsumer) -> None:
    """Wait until the consumer has a position, if not a record."""
    wait_until(lambda: consumer.consume(1, 0.1) or consumer.reader.position)


BEGINS = [("earliest", 2, None), ("Smallest", 2, 1), ("latest", 5, 99)]
BEGINS += [("largest", 5, None), ("error", 0, 1), ("earliest", 2, 99)]


@pytest.mark.parametrize(("reset", "begin", "committed"), BEGINS)
def test_partition_without_valid_commit_starts_at_its_begin(
    flights: ReadFlights, reset: str, begin: int, committed: int | None
) -> None:
    """The commit is missing, at a deleted record, or beyond the end."""
    flights.send_to_each(5)
    flights.broker.truncate(flights.topic, {0: 2})
    with flights.consumer("earlier") as earlier:
        if committed is not None:
            start = TopicPartition(flights.topic, 0, committed)
            earlier.consumer.commit(offsets=[start], asynchronous=False)
    with flights.consumer("one", **{"auto.offset.reset": reset}) as first_consumer:
        with suppress(KafkaException):
            wait_for_begin(first_consumer)

        assert first_consumer.reader.position == {0: begin}


def test_foreign_consumer_starts_at_kafkas_first_message(flights: ReadFlights) -> None:
    """Its `auto.offset.reset` cannot be read: until the first message the position is 0."""
    flights.send_to_each(5)
    former = flights.consumer("one", **{"enable.auto.commit": False})
    values(former, 5)
    wait_until(lambda: flights.read_group()[1] == {"one": {"0": 4}})
    former.consumer.close()  # without a commit, as if it was killed
    former.reader.close()
    flights.broker.truncate(flights.topic, {0: 2})
    config = {**flights.broker.config, "group.id": flights.topic, "auto.offset.reset": "earliest"}
    own_consumer = Consumer({**config, **KafkaNotedConsumer.SETTINGS})
    reader = ReaderClient(flights.topic, controller=flights.served.url, group="g", reader="two")
    with KafkaNotedConsumer(own_consumer, reader) as two:
        first = values(two, 1)

        assert (first, two.reader.position) == ([b"0.2"], {0: 2})


def test_open_transaction_is_not_skipped_by_latest(flights: ReadFlights) -> None:
    """`latest` begins at the end of committed records."""
    flights.send_to_each(2)
    producer = begin_transaction(flights.broker, flights.topic, "open", partition=0)
    with flights.consumer("one", **{"auto.offset.reset": "latest"}) as first_consumer:
        wait_for_begin(first_consumer)
        begin = first_consumer.reader.position
    producer.abort_transaction(60)

    assert begin == {0: 2}


def test_consumer_with_auto_offset_store_is_refused(flights: ReadFlights) -> None:
    """It would commit messages that are not processed yet."""
    flights.send_to_each(2)
    config = {**flights.broker.config, "group.id": "own", "auto.offset.reset": "earliest"}
    reader = ReaderClient(flights.topic, controller=flights.served.url)
    consumer = KafkaNotedConsumer(Consumer(config), reader)
    with consumer, pytest.raises(Rejected, match=r"enable\.auto\.offset\.store=False"):
        values(consumer, 2)


def test_missing_topic_raises_for_consumers(broker: Broker, served: Served) -> None:
    """A given configuration raises at once, a given consumer at its first poll."""
    broker.create("kept-for-mistakes")
    reader = ReaderClient("nowhere", controller=served.url)
    config = {**broker.config, **KafkaNotedConsumer.SETTINGS, "group.id": "n"}
    with pytest.raises(Rejected, match="there is no Kafka topic 'nowhere'"):
        KafkaNotedConsumer(config, reader)
    with pytest.raises(Rejected, match=r"refuses its configuration.*grop\.id"):
        KafkaNotedConsumer({**config, "grop.id": "n"}, reader, topic="kept-for-mistakes")
    consumer = KafkaNotedConsumer(Consumer(config), reader)
    with consumer, pytest.raises(KafkaException, match="UNKNOWN_TOPIC"):
        wait_until(lambda: consumer.poll(0.1))


def wait_for_records(consumer: KafkaNotedConsumer) -> None:
    wait_until(lambda: consumer.consume(10, 0.1))


def test_topic_recreated_under_a_consumer_is_named(
    flights: ReadFlights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's own consumer would wait forever at an offset of the former topic."""
    monkeypatch.setattr("reader_client.kafka.consumer.CHECK_INTERVAL_S", 0.0)
    flights.send_to_each(3)
    with flights.consumer("a") as consumer:
        wait_for_records(consumer)
        flights.broker.create(flights.topic, 1)

        with pytest.raises(Recreated, match=r"was deleted and .* another group\.id"):
            wait_for_records(consumer)
