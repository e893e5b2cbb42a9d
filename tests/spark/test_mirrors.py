"""Queries on a mirror: a topic with records that were noted at another topic."""

from typing import Any

import pytest
from msgspec import structs

from noted_time import AnotherLog, Mark, StreamCut
from noted_time.kafka import Topic
from noted_time.kafka.noted_topic import NotedRecord, name_noted_topic
from spark_integration import KafkaRecords, Noted, read_complete_kafka
from tests.support.clock import START_MS, Clock, MakeClock
from tools.trials.kafka import Broker
from tools.trials.served import Served

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

SOURCE = "l-Nn1Hl_QmqdyIVaRTaVpA"


class Mirror(Clock):
    """A topic with the copied records of another one."""

    @property
    def id(self) -> str:
        """The topic's own id."""
        topic_id = Topic(self.broker.config, self.name).look().id
        assert topic_id is not None
        return topic_id


@pytest.fixture
def mirror(make_clock: MakeClock) -> Mirror:
    """Return a mirror with records."""
    topic = make_clock(Mirror)
    topic.write(0, 1)
    return topic


def test_each_call_refuses_a_topic_of_another_log(mirror: Mirror, broker: Broker) -> None:
    """The error comes before a row is read. `test_asking` has the call for any source."""
    mirror.note(1, log=SOURCE)
    noted_stream = Noted(mirror.name, controller=mirror.url)
    records = KafkaRecords(mirror.name, mirror.broker.address)
    broker.create(name_noted_topic(mirror.name), 1)
    ways: list[dict[str, Any]] = [{"marks": "ahead"}, {"marks": "committed"}, {"relayed": True}]
    for way in ways:
        with pytest.raises(AnotherLog, match=f"of log {SOURCE}, and this is log {mirror.id}"):
            mirror.read(**way)
    with pytest.raises(AnotherLog):
        read_complete_kafka(
            mirror.spark, records, noted_stream, START_MS, START_MS + 1000, event_time="timestamp"
        )


def test_marks_mirrored_with_the_topic_fail_the_query(mirror: Mirror, broker: Broker) -> None:
    """Marks that a relay wrote for this topic count."""
    noted_topic = name_noted_topic(mirror.name)
    broker.create(noted_topic, 1)
    mark = Mark(1, START_MS + 1000, START_MS + 1000, StreamCut(dict(mirror.ends)))
    record = NotedRecord(mirror.name, "9f", "default", mirror.id, mark)
    broker.send(noted_topic, [(0, record.value, 0)], "default")
    options: dict[str, Any] = {"relayed": True, "controller": ""}
    mirror.run(**options)
    counts = mirror.counts
    broker.send(noted_topic, [(0, structs.replace(record, topic_id=SOURCE).value, 0)], "default")

    assert counts == [(0, 4)]
    mirror.fails(
        f"offset 1 of Kafka topic '{noted_topic}' is of a topic with the id {SOURCE}, "
        f"and this one has {mirror.id}",
        **options,
    )


def test_each_topic_is_mapped_to_its_stream(mirror: Mirror, controller: Served) -> None:
    """Topics of one name in two clusters have streams of different names."""
    stream = f"{mirror.name}.lima"
    controller.stream(stream).note("w", START_MS + 1000, mirror.ends)
    mirror.run(stream={mirror.name: stream})

    assert mirror.counts == [(0, 4)]
