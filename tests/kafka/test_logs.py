"""Log ids on a real broker: clients of another topic are refused."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import wait_until
from noted_time import AnotherLog
from noted_time.kafka import Topic
from reader_client import KafkaNotedConsumer, KafkaRelay, ReaderClient
from writer_client import (
    EventTimeNoter,
    IngestionNoter,
    KafkaEnds,
    KafkaFields,
    KafkaNotedProducer,
    KafkaTimes,
    WriterClient,
)

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000
ODD = {"-", "_"}
"""Kafka's ids have these in place of + and /, unlike its clients in C and Python."""


@pytest.fixture
def topic(broker: Broker, served: Served, request: pytest.FixtureRequest) -> str:
    """Return a topic with its stream; the topic's id has a `-` or `_`."""
    name = str(request.node.originalname)
    served.stream(name, "default", "ingestion")
    broker.create(name, 2)
    while ODD.isdisjoint(read_id(broker, name)):
        broker.create(name, 2)
    return name


@pytest.fixture
def mirror(broker: Broker, topic: str) -> str:
    """Return a topic with the same records and another id."""
    name = f"{topic}-mirror"
    broker.create(name, 2)
    broker.send(name, [(0, "a", NOON)])
    return name


@pytest.fixture
def producer(broker: Broker, served: Served, topic: str) -> Iterator[KafkaNotedProducer]:
    """Return a producer that has noted."""
    with KafkaNotedProducer(broker.config, topic, served.url, "berlin") as producer:
        producer.produce(value="a", event_time=NOON, partition=0)
        producer.note_time(NOON + 1)
        producer.flush(60)
        yield producer


def read_id(broker: Broker, topic: str) -> str:
    return str(Topic(broker.config, topic).look().id)


@pytest.mark.usefixtures("producer")
def test_producer_and_observers_note_the_same_topic_id(
    broker: Broker, served: Served, topic: str
) -> None:
    """The first client sets the id, and the others agree."""
    known = read_id(broker, topic)
    streams = [f"{topic}-{n}" for n in range(3)]
    for stream in streams:
        served.stream(stream, "default", "ingestion")
    clients = [WriterClient(served.url, each, "observer") for each in (topic, *streams)]
    noters = [
        EventTimeNoter(clients[0], KafkaTimes(broker.config, topic), delay_ms=0),
        IngestionNoter(clients[1], KafkaEnds(broker.config, topic)),
        EventTimeNoter(clients[2], KafkaTimes(broker.config, topic), delay_ms=0),
        EventTimeNoter(clients[3], KafkaFields(broker.config, topic, "x"), delay_ms=0),
    ]
    for noter in noters:
        with closing(noter.client):
            noter.look()
            noter.client.flush(60)

    assert not {"+", "/"} & {*known}
    assert [served.get(each)["logs"] for each in (topic, *streams)] == [[known]] * 4


def test_writer_of_another_topic_is_refused(
    broker: Broker, served: Served, topic: str, mirror: str, producer: KafkaNotedProducer
) -> None:
    """The first note is refused with both ids, as with a second cluster."""
    both = f"of log {read_id(broker, topic)}, and this is log {read_id(broker, mirror)}"
    before = served.get(f"{topic}/writers")["writers"]
    with pytest.raises(AnotherLog, match=both):
        KafkaNotedProducer(broker.config, mirror, served.url, "berlin", stream=topic)
    with WriterClient(served.url, topic, "berlin") as client:
        noter = EventTimeNoter(client, KafkaTimes(broker.config, mirror), delay_ms=0)
        with pytest.raises(AnotherLog, match=both):
            noter.look()
    after = served.get(f"{topic}/writers")["writers"]
    producer.note_time(NOON + 2)
    producer.flush(60)

    assert [each["writer"] for each in after] == [each["writer"] for each in before] == ["berlin"]
    assert after[0]["session"] == before[0]["session"]


@pytest.mark.usefixtures("producer")
def test_readers_and_a_relay_of_a_mirror_are_refused(
    broker: Broker, served: Served, topic: str, mirror: str
) -> None:
    """They are refused before they use a mark."""
    with (
        closing(KafkaRelay(broker.config, mirror, served.url, stream=topic)) as relay,
        pytest.raises(AnotherLog),
    ):
        relay.look()
    config = {**broker.config, "group.id": mirror, "auto.offset.reset": "earliest"}
    reader = ReaderClient(served.url, topic)
    with closing(KafkaNotedConsumer(config, reader, mirror)) as consumer:
        wait_until(lambda: reader.logs != ())
        with pytest.raises(AnotherLog, match="stream 'test_readers_and_a_relay_of"):
            consumer.poll()

    assert f"{mirror}.noted" not in broker.topics()


@pytest.mark.usefixtures("producer")
def test_operator_may_accept_a_log_with_the_same_offsets(
    broker: Broker, served: Served, topic: str, mirror: str
) -> None:
    """Linked and restored topics have the same offsets."""
    body = {"log": read_id(broker, mirror), "same_offsets": True}
    served.call("PUT", f"/{topic}", body)
    with KafkaNotedProducer(broker.config, mirror, served.url, "lima", stream=topic) as producer:
        producer.note_time(NOON + 2)
        producer.flush(60)
    with closing(KafkaRelay(broker.config, mirror, served.url, stream=topic)) as relay:
        relay.look()

    assert served.get(topic)["logs"] == [read_id(broker, topic), read_id(broker, mirror)]
