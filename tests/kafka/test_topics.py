"""Looks at topics, on a real broker, also while another one is away."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Producer

from noted_time import Unreachable
from noted_time.kafka.groups import GroupOffsets
from noted_time.kafka.topic import Topic, TopicLook
from tests.kafka.conftest import Flights
from tests.support.transactions import begin_transaction
from tools.trials.kafka import Broker
from tools.trials.waiting import PATIENCE_S, wait_until
from writer_client import KafkaTimes

pytestmark = pytest.mark.acceptance


def test_committed_ends_stop_at_an_open_transaction(flights: Flights) -> None:
    """They continue when it is ended, or when another producer takes its id over."""
    _hanging = begin_transaction(flights.broker, flights.topic, "a", partition=0)
    flights.send((0, "b", 1000))
    end_pairs = flights.look().ends, flights.look(committed=True).ends
    second_producer = Producer({**flights.broker.config, **flights.transactional_config})
    second_producer.init_transactions(60)  # which aborts what its former self began

    assert end_pairs == ({0: 2, 1: 0}, {0: 0, 1: 0})
    wait_until(lambda: flights.look(committed=True).ends[0] == 3)  # with the marker


def test_offsets_are_found_by_time_above_what_was_deleted(flights: Flights) -> None:
    """Records may be out of order, so the largest time so far counts."""
    flights.send(*((0, "a", ms) for ms in (1000, 3000, 2000, 4000)))
    flights.broker.truncate(flights.topic, {0: 1})
    topic = Topic(*flights.place)

    assert topic.begins() == {0: 1, 1: 0}
    assert topic.offsets_at(3500) == {0: 3, 1: 0}
    assert topic.offsets_at(5000) == {0: 4, 1: 0}
    assert topic.largest_times() == {0: 4000}


# Looks while another broker is away; no later test may need exactly one broker


@pytest.fixture(scope="module")
def second(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a second broker; a test that kills it starts it again."""
    broker.create("led")
    broker.commit("led", "led", {0: 0})  # so that what all groups commit is on the first broker
    with Broker(tmp_path_factory.mktemp("second"), beside=broker) as running:
        yield running


def open_topic(node: int, broker: Broker, name: str) -> Topic:
    """Return a topic whose client takes that node for the controller; KRaft names any."""
    looking = iter(lambda: Topic(broker.config, name), None)
    return next(
        topic
        for topic in looking
        if topic._cluster.admin.list_topics(timeout=PATIENCE_S).controller_id == node
    )


def try_look(topic: Topic) -> TopicLook | None:
    """Look at the topic; returns `None` while its client calls the killed broker."""
    with suppress(Unreachable):
        return topic.look()
    return None


def test_only_the_partition_without_leader_is_unknown(broker: Broker, second: Broker) -> None:
    """The same client sees the end again when the broker is back.

    Looks of observers and of consumer groups fail as a whole.
    """
    broker.create("led", leaders=(1, 2))
    broker.send("led", [(0, "a", 1000), (1, "b", 1000)])
    broker.commit("led", "led", {0: 1, 1: 1})
    topic = open_topic(2, broker, "led")
    topic_id = topic.look().id
    second.kill()
    wait_until(lambda: try_look(topic) == TopicLook(topic_id, {0: 1}, frozenset({1})))
    for call in (KafkaTimes(broker.config, "led"), GroupOffsets(broker.config, "led", "led")):
        with pytest.raises(
            Unreachable, match=r"Kafka topic 'led' has no leader for partitions \[1\]"
        ):
            call()
    second.start()
    wait_until(lambda: try_look(topic) == TopicLook(topic_id, {0: 1, 1: 1}))
    broker.delete("led")


def test_replicas_of_a_topic_are_counted(broker: Broker, second: Broker) -> None:
    assert second.address
    broker.create("replicated", replicas=[[1, 2]])
    wait_until(lambda: Topic(broker.config, "replicated").count_replicas() == 2)
    broker.delete("replicated")
