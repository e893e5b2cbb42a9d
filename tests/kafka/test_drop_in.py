"""`KafkaNotedProducer` in place of `confluent_kafka.Producer`, on a real broker."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import wait_until
from noted_time import DeliveryFailed, InvalidNote, Rejected, UnknownStream, Unreachable
from noted_time.values import format_time
from tests.kafka.conftest import Start
from tests.support.kafka_judge import judge_marks
from tests.support.page import read_page
from tests.support.processes import environment
from writer_client import KafkaNotedProducer
from writer_client.sending.clock import unix_ms

pytestmark = pytest.mark.acceptance

TEN, NOON = 1_357_034_400_000, 1_357_041_600_000


@pytest.mark.parametrize("away", ["broker", "served"])
def test_events_wait_for_an_absent_broker_or_controller(
    broker: Broker, served: Served, start: Start, away: str
) -> None:
    """The constructor returns at once. A limited number of calls wait, in order."""
    server = broker if away == "broker" else served
    reports: list[KafkaError | None] = []
    server.stop()
    producer = start(config={"queue.buffering.max.messages": 4}, wait=0)
    topic = producer.topic
    for n in (0, 1, 2):
        producer.produce(
            topic, "a", "key", -1, None, lambda error, _: reports.append(error), NOON + n
        )
    producer.note_time(NOON + 3)
    with pytest.raises(BufferError, match="4 calls wait until the producer has begun"):
        producer.produce(topic, "b", event_time=NOON + 3)
    with pytest.raises(Unreachable, match=r"has not begun: .*; waiting: 4 calls"):
        producer.flush(0.1)
    producer.poll(0)
    assert (len(producer), reports) == (4, [])
    if server is served:
        assert broker.records(topic) == []
    server.start()
    flushed = producer.flush(60)

    assert (flushed.lower, len(producer), bool(producer)) == (NOON + 3, 0, True)
    assert reports == [None] * 3
    verdict = judge_marks(broker, topic, controller=served)
    assert (verdict.records, verdict.violations) == (3, ())


def test_burst_during_start_is_sent_in_order(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """In each partition, waiting events come before later ones."""
    producer, count = start(wait=0), 0
    while not producer._waiting.is_over or count < 2000:
        if len(producer) > 20_000:  # it is slow to begin: far below what may wait
            producer.poll(0.01)
            continue
        producer.produce(topic, str(count), partition=count % 2, event_time=NOON + count)
        count += 1
        if count % 100 == 0:
            producer.note_time(NOON + count)
    producer.flush(60)

    records = broker.records(topic)
    for partition in (0, 1):
        values = [int(each.value or "") for each in records if each.partition == partition]
        assert values == list(range(partition, count, 2))
    assert judge_marks(broker, topic, controller=served).violations == ()


def test_waiting_events_are_checked_against_former_notes(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """An event below the former note is late; a note below it is refused by the next call."""
    start().note_time(NOON)
    producer = start(wait=0)
    producer.produce(value="a", event_time=NOON - 1)
    producer.note_time(NOON - 1)
    with pytest.raises(InvalidNote):
        producer.flush(60)
    producer.note_time(NOON + 1)

    assert (producer.time, producer.flush(60).late_rows) == (NOON + 1, 1)
    assert caplog.text.count(f"it noted {format_time(NOON)} before") == 1


def test_event_that_kafka_refuses_spares_its_batch(
    broker: Broker, topic: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka fails the whole batch of an event far ahead, so each waiting event is checked."""
    failed: list[tuple[KafkaError | None, Message]] = []
    broker.stop()
    producer = start(wait=0)
    producer.produce(value="good", partition=0, event_time=unix_ms())
    producer.produce(
        value="far",
        partition=0,
        event_time=unix_ms() + 7_200_000,
        on_delivery=lambda *report: failed.append(report),
    )
    broker.start()
    with pytest.raises(DeliveryFailed, match=r"was not sent: .*after.max.ms=3600000"):
        producer.flush(60)
    producer.forgive()
    producer.flush(60)

    ((error, message),) = failed
    assert error is not None
    assert (error.code(), message.value()) == (KafkaError.INVALID_TIMESTAMP, b"far")
    assert [each.value for each in broker.records(topic)] == [b"good"]
    assert "an event of writer 'berlin' was not sent: " in caplog.text


def test_failed_start_is_logged_once_and_raised_by_every_call(
    broker: Broker, served: Served, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Topic or stream are unknown, and the writer does not join."""
    unknown: list[tuple[str, str, type[Rejected]]] = [
        ("mistyped", topic, Rejected),
        (topic, "other", UnknownStream),
    ]
    for name, stream, error in unknown:
        producer = KafkaNotedProducer(
            broker.config, name, served.url, "berlin", stream=stream, wait=0
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
            with pytest.raises(error):
                call()

    said = [each.getMessage() for each in caplog.records if "cannot begin" in each.getMessage()]
    assert ["'mistyped'" in said[0], "'other'" in said[1]] == [True, True]
    assert len(said) == 2
    assert served.get(f"{topic}/writers")["writers"] == []


def test_waiting_event_that_is_refused_counts_as_failed(
    broker: Broker, topic: str, start: Start, served: Served
) -> None:
    """The topic's settings were unknown when the event was accepted."""
    broker.create(topic, 1, {"max.message.bytes": 3000})
    failed: list[KafkaError | None] = []
    served.stop()
    producer = start(wait=0)
    producer.produce(
        value=b"x" * 5000, event_time=NOON, on_delivery=lambda error, _: failed.append(error)
    )
    producer.note_time(NOON + 1)
    served.start()
    with pytest.raises(DeliveryFailed, match="not delivered: 1"):
        producer.flush(60)
    producer.forgive()

    assert [each.code() for each in failed if each] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert producer.flush(60).lower is None


def test_another_topic_or_timestamp_is_refused(broker: Broker, topic: str, start: Start) -> None:
    """The first argument is the topic, as in Confluent's producer."""
    producer = start()
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: producer.produce("sold", event_time=NOON), f"is the topic, here '{topic}'"),
        (lambda: producer.produce(topic, "a", timestamp=1, event_time=NOON), "timestamp=1 is not"),
        (lambda: producer.produce(topic, "a"), "event_time is missing"),
        (producer.init_transactions, "need a transactional.id"),
        (producer.begin_transaction, "need a transactional.id"),
    ]
    for call, says in refused:
        with pytest.raises(Rejected, match=says):
            call()
    producer.produce(topic, "a", timestamp=NOON, event_time=NOON)
    producer.produce(topic, "b", timestamp=NOON + 1)
    producer.flush()

    assert sorted(each.time - NOON for each in broker.records(topic)) == [0, 1]


def test_poll_without_a_limit_waits_for_a_report(topic: str, start: Start) -> None:
    producer, sent = start(config={"linger.ms": 0}), []

    def deliver(error: KafkaError | None, message: Message) -> None:
        sent.append((error, message.value()))

    producer.produce(topic, "a", None, -1, deliver, event_time=NOON)
    while len(producer):
        producer.poll()
    producer.poll()

    assert sent == [(None, b"a")]


@pytest.fixture
def consumer(broker: Broker, topic: str) -> Iterator[Consumer]:
    """Return a consumer of a second topic with one record."""
    broker.create(f"{topic}-in", 1)
    broker.send(f"{topic}-in", [(0, "a", NOON)])
    reading = {"group.id": topic, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**broker.config, **reading})
    consumer.subscribe([f"{topic}-in"])
    wait_until(lambda: consumer.poll(0.1) is not None)
    yield consumer
    consumer.close()


def test_transform_loop_notes_after_each_commit(
    broker: Broker, served: Served, topic: str, start: Start, consumer: Consumer
) -> None:
    """Aborted events and offsets do not count."""
    producer = start(config={"transactional.id": topic}, wait=0)
    producer.init_transactions()
    for n, commits in enumerate((False, True)):
        producer.begin_transaction()
        producer.produce(topic, "a", event_time=NOON + n)
        producer.note_time(NOON + 10 * n + 1)
        reached = [TopicPartition(f"{topic}-in", 0, n)]
        producer.send_offsets_to_transaction(reached, consumer.consumer_group_metadata())
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
            producer.abort_transaction()
    with pytest.raises(Rejected, match="no transaction is open"):
        producer.commit_transaction()

    assert producer.flush(60).lower == NOON + 11
    assert [each.time for each in broker.records(topic)] == [NOON + 1]
    (committed,) = consumer.committed([TopicPartition(f"{topic}-in", 0)], 60)
    assert committed.offset == 1
    verdict = judge_marks(broker, topic, controller=served)
    assert (verdict.records, verdict.violations) == (1, ())


def test_block_may_raise_after_an_abort_inside_it(topic: str, start: Start) -> None:
    """The next transaction works normally."""
    producer = start(config={"transactional.id": topic})

    def give_up() -> None:
        producer.abort_transaction()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), producer.transaction():
        give_up()
    with producer.transaction():
        producer.produce(topic, "a", event_time=NOON)
        producer.note_time(NOON + 1)

    assert producer.flush(60).lower == NOON + 1


def test_close_aborts_the_transaction_that_is_open(
    broker: Broker, topic: str, start: Start
) -> None:
    """Otherwise readers would wait until the broker aborts it."""
    producer = start(config={"transactional.id": topic})
    producer.begin_transaction()
    producer.produce(topic, "a", event_time=NOON)
    producer.close(60)
    broker.send(topic, [(0, "b", NOON), (1, "b", NOON)])

    assert [each.value for each in broker.records(topic)] == [b"b"] * 2


def test_new_password_applies_to_all_of_the_producers_clients(start: Start) -> None:
    """The looks at the topic use another client of Kafka."""
    producer = start()
    producer.set_sasl_credentials("berlin", "new")
    known = producer._channel._ends.topic.connection

    assert (known["sasl.username"], known["sasl.password"]) == ("berlin", "new")


@pytest.mark.parametrize("sign", ["-", "+"])
def test_page_program_runs_with_both_producers(broker: Broker, served: Served, sign: str) -> None:
    """Only this library's producer notes."""
    (page,) = re.findall(
        r"```diff\n(.*?)```", read_page("docs/guides/kafka-producers.md"), re.DOTALL
    )
    lines = [line[1:] for line in page.splitlines() if not line or line[0] in (" ", sign)]
    topic = f"page-{len(lines)}"
    broker.create(topic, 1)
    served.make(topic)
    program = "\n".join(lines).replace("127.0.0.1:9092", broker.address)
    program = program.replace("http://127.0.0.1:7464", served.url).replace("flights", topic)
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True)

    assert [each.value for each in broker.records(topic)] == [b"B6 1 to FLL"]
    noted = served.get(f"{topic}/writers")["writers"]
    assert [each["times"] for each in noted] == ([{"default": TEN}] if sign == "+" else [])
