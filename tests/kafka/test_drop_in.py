"""`KafkaNotedProducer` in place of `confluent_kafka.Producer`, on a real broker."""

import re
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from noted_time import DeliveryFailed, InvalidNote, Rejected, UnknownStream, Unreachable
from noted_time.values import format_time
from tests.kafka.conftest import Flights, wait_for_assignment
from tests.support.page import find_yesterday, read_page
from tests.support.processes import run_python
from tools.trials.kafka import Broker
from tools.trials.served import Served
from writer_client import KafkaNotedProducer
from writer_client.sending.clock import unix_ms

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000


@pytest.mark.parametrize("away", ["broker", "served"])
def test_events_wait_for_an_absent_broker_or_controller(flights: Flights, away: str) -> None:
    """The constructor returns at once. A limited number of calls wait, in order."""
    server: Broker | Served = getattr(flights, away)
    topic = flights.topic
    reports = list[KafkaError | None]()

    def keep_report(error: KafkaError | None, _: Message) -> None:
        reports.append(error)

    server.stop()
    producer = flights.start(config={"queue.buffering.max.messages": 4}, wait=0)
    for n in (0, 1, 2):
        producer.produce(topic, "a", "key", -1, None, keep_report, NOON + n)
    producer.note_time(NOON + 3)
    with pytest.raises(BufferError, match="4 calls wait until the producer has begun"):
        producer.produce(topic, "b", event_time=NOON + 3)
    with pytest.raises(Unreachable, match=r"has not begun: .*; waiting: 4 calls"):
        producer.flush(0.1)
    producer.poll(0)
    assert (len(producer), reports) == (4, [])
    if away == "served":
        assert flights.list_records() == []
    server.start()
    flushed_promise = producer.flush(60)

    assert (flushed_promise.lower, len(producer), bool(producer)) == (NOON + 3, 0, True)
    assert (reports, flights.check_marks()) == ([None] * 3, 3)


def test_burst_during_start_is_sent_in_order(flights: Flights) -> None:
    """In each partition, waiting events come before later ones."""
    producer = flights.start(wait=0)
    count = 0
    while not producer._waiting.is_over or count < 2000:
        if len(producer) > 20_000:  # it is slow to begin: far below what may wait
            producer.poll(0.01)
            continue
        producer.produce(value=str(count), partition=count % 2, event_time=NOON + count)
        count += 1
        if count % 100 == 0:
            producer.note_time(NOON + count)
    producer.flush(60)

    records = flights.list_records()
    for partition in (0, 1):
        values = [int(record.value or "") for record in records if record.partition == partition]
        assert values == list(range(partition, count, 2))
    assert flights.check_marks() == count


def test_waiting_events_are_checked_against_former_notes(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """An event below the former note is late; a note below it is refused by the next call."""
    flights.start().note_time(NOON)
    producer = flights.start(wait=0)
    producer.produce(value="a", event_time=NOON - 1)
    producer.note_time(NOON - 1)
    with pytest.raises(InvalidNote):
        producer.flush(60)
    producer.note_time(NOON + 1)

    assert (producer.time, producer.flush(60).late_rows) == (NOON + 1, 1)
    assert caplog.text.count(f"it noted {format_time(NOON)} before") == 1


def test_event_that_kafka_refuses_spares_its_batch(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka fails the whole batch of an event far ahead, so each waiting event is checked."""
    reports: list[tuple[KafkaError | None, Message]] = []

    def keep_report(error: KafkaError | None, message: Message) -> None:
        reports.append((error, message))

    flights.broker.stop()
    producer = flights.start(wait=0)
    producer.produce(value="good", partition=0, event_time=unix_ms())
    producer.produce(
        value="far", partition=0, event_time=unix_ms() + 7_200_000, on_delivery=keep_report
    )
    flights.broker.start()
    with pytest.raises(DeliveryFailed, match=r"was not sent: .*after.max.ms=3600000"):
        producer.flush(60)
    producer.forgive()
    producer.flush(60)

    ((error, message),) = reports
    assert error is not None
    assert (error.code(), message.value()) == (KafkaError.INVALID_TIMESTAMP, b"far")
    assert flights.list_values() == [b"good"]
    assert "an event of writer 'berlin' was not sent: " in caplog.text


@pytest.mark.parametrize(
    ("topic_name", "stream", "kind"), [("mistyped", None, Rejected), (None, "other", UnknownStream)]
)
def test_failed_start_is_logged_once_and_raised_by_every_call(
    flights: Flights,
    caplog: pytest.LogCaptureFixture,
    topic_name: str | None,
    stream: str | None,
    kind: type[Rejected],
) -> None:
    """Topic or stream are unknown, and the writer does not join."""
    producer = KafkaNotedProducer(
        flights.broker.config,
        topic_name or flights.topic,
        "berlin",
        controller=flights.served.url,
        stream=stream or flights.topic,
        wait=0,
    )
    calls: list[Callable[[], object]] = [
        producer.flush,
        partial(producer.produce, value="a", event_time=NOON),
        partial(producer.note_time, NOON),
        partial(producer.poll, 0),
        partial(getattr, producer, "time"),
        producer.close,
    ]
    for call in calls:
        with pytest.raises(kind):
            call()

    (message,) = [message for message in caplog.messages if "cannot begin" in message]
    assert repr(topic_name or stream) in message
    assert flights.served.writers(flights.topic) == {}


def test_waiting_event_that_is_refused_counts_as_failed(flights: Flights) -> None:
    """The topic's settings were unknown when the event was accepted."""
    flights.broker.create(flights.topic, 1, {"max.message.bytes": 3000})
    errors: list[KafkaError | None] = []

    def keep_error(error: KafkaError | None, _: Message) -> None:
        errors.append(error)

    flights.served.stop()
    producer = flights.start(wait=0)
    producer.produce(value=b"x" * 5000, event_time=NOON, on_delivery=keep_error)
    producer.note_time(NOON + 1)
    flights.served.start()
    with pytest.raises(DeliveryFailed, match="not delivered: 1"):
        producer.flush(60)
    producer.forgive()

    assert [error.code() for error in errors if error] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert producer.flush(60).lower is None


def test_timestamp_is_the_event_time(flights: Flights) -> None:
    """The first argument is the topic, as in Confluent's producer."""
    producer = flights.start()
    producer.produce(flights.topic, "a", timestamp=NOON, event_time=NOON)
    producer.produce(flights.topic, "b", timestamp=NOON + 1)
    producer.flush()

    assert sorted(record.time - NOON for record in flights.list_records()) == [0, 1]


def test_transactions_need_an_id_in_the_configuration(flights: Flights) -> None:
    producer = flights.start()
    for call in (producer.init_transactions, producer.begin_transaction):
        with pytest.raises(Rejected, match=r"need a transactional\.id"):
            call()


def test_poll_without_a_limit_waits_for_a_report(flights: Flights) -> None:
    producer = flights.start(config={"linger.ms": 0})
    reports = []

    def deliver(error: KafkaError | None, message: Message) -> None:
        reports.append((error, message.value()))

    producer.produce(flights.topic, "a", None, -1, deliver, event_time=NOON)
    while len(producer):
        producer.poll()
    producer.poll()

    assert reports == [(None, b"a")]


def test_transform_loop_notes_after_each_commit(flights: Flights) -> None:
    """Aborted events and offsets do not count."""
    source = f"{flights.topic}-in"
    group = {"group.id": flights.topic, "enable.auto.commit": False}
    flights.broker.create(source, 1)
    flights.broker.send(source, [(0, "a", NOON)])
    producer = flights.start(config=flights.transactional_config, wait=0)
    producer.init_transactions()
    with closing(Consumer({**flights.broker.config, **group})) as consumer:
        consumer.subscribe([source])
        wait_for_assignment(consumer)
        for n, end in enumerate((producer.abort_transaction, producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce(value="a", event_time=NOON + n)
            producer.note_time(NOON + 10 * n + 1)
            source_offsets = [TopicPartition(source, 0, n)]
            producer.send_offsets_to_transaction(source_offsets, consumer.consumer_group_metadata())
            end()
        producer.abort_transaction()
        with pytest.raises(Rejected, match="no transaction is open"):
            producer.commit_transaction()
        (committed_offset,) = consumer.committed([TopicPartition(source, 0)], 60)

    assert producer.flush(60).lower == NOON + 11
    assert [record.time for record in flights.list_records()] == [NOON + 1]
    assert (committed_offset.offset, flights.check_marks()) == (1, 1)


def test_block_may_raise_after_an_abort_inside_it(flights: Flights) -> None:
    """The next transaction works normally."""
    producer = flights.start(config=flights.transactional_config)

    def give_up() -> None:
        producer.abort_transaction()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), producer.transaction():
        give_up()
    with producer.transaction():
        producer.produce(value="a", event_time=NOON)
        producer.note_time(NOON + 1)

    assert producer.flush(60).lower == NOON + 1


def test_close_aborts_the_transaction_that_is_open(flights: Flights) -> None:
    """Otherwise readers would wait until the broker aborts it."""
    producer = flights.start(config=flights.transactional_config)
    producer.begin_transaction()
    producer.produce(value="a", event_time=NOON)
    producer.close(60)
    flights.send((0, "b", NOON), (1, "b", NOON))

    assert flights.list_values() == [b"b"] * 2


def test_new_password_applies_to_all_of_the_producers_clients(flights: Flights) -> None:
    """The looks at the topic use another client of Kafka."""
    producer = flights.start()
    producer.set_sasl_credentials("berlin", "new")
    connection = producer._channel._ends.topic.connection

    assert (connection["sasl.username"], connection["sasl.password"]) == ("berlin", "new")


@pytest.mark.parametrize("sign", ["-", "+"], ids=["confluent", "noted"])
def test_page_program_runs_with_both_producers(flights: Flights, sign: str) -> None:
    """Only this library's producer notes."""
    page = read_page("docs/guides/kafka-producers.md")
    (program,) = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
    program = "\n".join(line[1:] for line in program.splitlines() if line[:1] in ("", " ", sign))
    addresses = {
        "127.0.0.1:9092": flights.broker.address,
        "http://127.0.0.1:7464": flights.served.url,
    }
    for printed_word, ours in {**addresses, "flights": flights.topic}.items():
        program = program.replace(printed_word, ours)
    run_python("-c", program).check_returncode()

    assert flights.list_values() == [b"B6 1 to FLL"]
    times = [writer["times"] for writer in flights.served.writers(flights.topic).values()]
    assert times == ([{"default": find_yesterday(10)}] if sign == "+" else [])
