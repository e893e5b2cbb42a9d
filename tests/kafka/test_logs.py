"""Log ids on a real broker: clients of another topic are refused."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from noted_time import AnotherLog
from noted_time.kafka import Topic
from reader_client import KafkaNotedConsumer, KafkaRelay, ReaderClient
from reader_client.reader import find_logs
from tests.kafka.conftest import Flights
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import wait_until
from writer_client import (
    EventTimeNoter,
    IngestionNoter,
    KafkaEnds,
    KafkaNotedProducer,
    KafkaTimes,
    WriterClient,
)

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000
STREAM = {"domains": ["default", "ingestion"], "max_time_ahead_ms": None}
ODD = {"-", "_"}
"""Kafka's ids have these in place of + and /, unlike its clients in C and Python."""


class MirroredFlights(Flights):
    """Flights that `berlin` noted, and a topic with the same records and another id."""

    def __init__(self, broker: Broker, served: Served, topic: str) -> None:
        super().__init__(broker, served, topic)
        while ODD.isdisjoint(str(self.look().id)):
            broker.create(topic, 2)
        self.mirror = f"{topic}-mirror"
        broker.create(self.mirror, 2)
        broker.send(self.mirror, [(0, "a", NOON)])
        self.id, self.mirror_id = (Topic(broker.config, t).look().id for t in (topic, self.mirror))
        self.berlin = self.start()
        self.berlin.produce(value="a", event_time=NOON, partition=0)
        self.berlin.note_time(NOON + 1)
        self.berlin.flush(60)

    def start_on_mirror(self, writer: str) -> KafkaNotedProducer:
        place = self.broker.config, self.mirror
        return KafkaNotedProducer(*place, writer, controller=self.served.url, stream=self.topic)

    def relay_mirror(self) -> None:
        place = self.broker.config, self.mirror
        with closing(KafkaRelay(*place, controller=self.served.url, stream=self.topic)) as relay:
            relay.look()


@pytest.fixture
def flights(broker: Broker, served: Served, topic: str) -> Iterator[MirroredFlights]:
    """Return the topic with its stream and its mirror."""
    with closing(MirroredFlights(broker, served, topic)) as flights:
        yield flights


def test_producer_and_observers_note_the_same_topic_id(flights: MirroredFlights) -> None:
    """The first client sets the id, and the others agree."""
    streams = [flights.topic, *(f"{flights.topic}-{n}" for n in range(2))]
    for stream in streams[1:]:
        flights.served.stream(stream, "default", "ingestion")
    clients = [
        WriterClient(stream, "observer", controller=flights.served.url) for stream in streams
    ]
    noters = [
        EventTimeNoter(clients[0], KafkaTimes(*flights.place), delay_ms=0),
        IngestionNoter(clients[1], KafkaEnds(*flights.place)),
        EventTimeNoter(clients[2], KafkaTimes(*flights.place), delay_ms=0),
    ]
    for noter in noters:
        with closing(noter.client):
            noter.look()
            noter.client.flush(60)

    assert not {"+", "/"} & {*str(flights.id)}
    assert [flights.served.get(stream)["logs"] for stream in streams] == [[flights.id]] * 3


def test_writer_of_another_topic_is_refused(flights: MirroredFlights) -> None:
    """The first note is refused with both ids, as with a second cluster."""
    both = f"of log {flights.id}, and this is log {flights.mirror_id}"
    before = flights.read_writer()["session"]
    with pytest.raises(AnotherLog, match=both):
        flights.start_on_mirror("berlin")
    with WriterClient(flights.topic, "berlin", controller=flights.served.url) as client:
        times = KafkaTimes(flights.broker.config, flights.mirror)
        with pytest.raises(AnotherLog, match=both):
            EventTimeNoter(client, times, delay_ms=0).look()
    after = flights.read_writer()["session"]
    flights.berlin.note_time(NOON + 2)
    flights.berlin.flush(60)

    assert ([*flights.read_writers()], after) == (["berlin"], before)


def test_readers_and_a_relay_of_a_mirror_are_refused(flights: MirroredFlights) -> None:
    """They are refused before they use a mark."""
    with pytest.raises(AnotherLog):
        flights.relay_mirror()
    config = {"group.id": flights.mirror, "auto.offset.reset": "earliest"}
    reader = ReaderClient(flights.topic, controller=flights.served.url)
    consumer = KafkaNotedConsumer({**flights.broker.config, **config}, reader, flights.mirror)
    with closing(consumer):
        wait_until(lambda: find_logs(reader) != ())
        with pytest.raises(AnotherLog, match="stream 'test_readers_and_a_relay_of"):
            consumer.poll()

    assert f"{flights.mirror}.noted" not in flights.broker.topics()


def test_operator_may_accept_a_log_with_the_same_offsets(flights: MirroredFlights) -> None:
    """Linked and restored topics have the same offsets."""
    body = {"log": flights.mirror_id, "same_offsets": True}
    flights.served.call("PUT", f"/{flights.topic}", body)
    with flights.start_on_mirror("lima") as producer:
        producer.note_time(NOON + 2)
        producer.flush(60)
    flights.relay_mirror()

    assert flights.served.get(flights.topic)["logs"] == [flights.id, flights.mirror_id]
