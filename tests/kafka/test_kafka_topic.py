"""What is seen of a topic, on a real broker."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from noted_time import Rejected, Unreachable
from noted_time.kafka.topic import Topic, TopicLook
from tests.support.kafka import Broker, free_port
from tests.support.waiting import PATIENCE_S, wait_until
from writer_client import KafkaTimes

pytestmark = pytest.mark.acceptance


def test_only_the_id_tells_that_a_topic_was_created_again(broker: Broker) -> None:
    """Its ends may be those of before."""
    looks = []
    for _ in range(2):
        broker.create("again", 2)
        broker.send("again", [(0, "a", 1000)])
        looks.append(Topic(broker.config, "again").look())

    assert [look.ends for look in looks] == [{0: 1, 1: 0}] * 2
    assert looks[0].id != looks[1].id


def test_committed_ends_stop_at_an_open_transaction(broker: Broker) -> None:
    """Until it is ended, or its producer's name is taken over."""
    broker.create("open", 1)
    transactional = {**broker.config, "transactional.id": "open"}
    hanging = Producer(transactional)
    hanging.init_transactions(60)
    hanging.begin_transaction()
    hanging.produce("open", "a")
    hanging.flush(60)
    broker.send("open", [(0, "b", 1000)])
    topic = Topic(broker.config, "open")
    seen = topic.look().ends, topic.look(committed=True).ends
    Producer(transactional).init_transactions(60)  # which aborts what its former self began

    assert seen == ({0: 2}, {0: 0})
    wait_until(lambda: topic.look(committed=True).ends == {0: 3})  # with the marker


def test_offsets_are_found_by_time_above_what_was_deleted(broker: Broker) -> None:
    """By the largest time so far, as records need not be in its order."""
    broker.create("timed", 2)
    broker.send("timed", [(0, "a", ms) for ms in (1000, 3000, 2000, 4000)])
    broker.truncate("timed", {0: 1})
    topic = Topic(broker.config, "timed")

    assert topic.begins() == {0: 1, 1: 0}
    assert topic.offsets_at(3500) == {0: 3, 1: 0}
    assert topic.offsets_at(5000) == {0: 4, 1: 0}
    assert topic.largest_times() == {0: 4000}


def asking(node: int, broker: Broker, name: str) -> Topic:
    """Return a topic whose client has that node for the controller; KRaft names any to each."""
    looking = iter(lambda: Topic(broker.config, name), None)
    return next(
        each
        for each in looking
        if each._admin.list_topics(timeout=PATIENCE_S).controller_id == node
    )


def test_a_partition_without_a_leader_is_unknown_and_the_others_are_not(
    broker: Broker, tmp_path: Path
) -> None:
    """Also for a client that had that broker for the controller; with it the end is back.

    An observer's look fails as a whole.
    """
    with Broker(tmp_path, beside=broker) as second:
        broker.create("led", leaders=(1, 2))
        broker.send("led", [(0, "a", 1000), (1, "b", 1000)])
        topic = asking(2, broker, "led")
        topic_id = topic.look().id
        second.kill()
        wait_until(lambda: topic.look() == TopicLook(topic_id, {0: 1}, frozenset({1})))
        with pytest.raises(Unreachable, match=r"partitions \[1\] of Kafka topic 'led'"):
            KafkaTimes(broker.config, "led")()
        second.start()
        wait_until(lambda: topic.look().ends == {0: 1, 1: 1})
    broker.delete("led")


def test_a_topic_that_may_not_be_described_is_refused(broker: Broker) -> None:
    """With the right that is missing, and not as a topic that is not there."""
    broker.create("hidden", 1)
    broker.hide("hidden")

    with pytest.raises(Rejected, match="topic 'hidden': grant it the operation DESCRIBE"):
        Topic(broker.config, "hidden").look()


def test_what_is_not_there_is_named(broker: Broker) -> None:
    """A topic by its name, a broker by its address, within the time given."""
    with pytest.raises(Rejected, match=r"no Kafka topic 'flihgts' at 127\.0\.0\.1"):
        Topic(broker.config, "flihgts").look()
    nowhere = f"127.0.0.1:{free_port()}"
    begun = time.monotonic()
    with pytest.raises(Unreachable, match=nowhere):
        Topic({"bootstrap.servers": nowhere}, "flights").look(timeout_s=1)
    assert time.monotonic() - begun < 30
    with pytest.raises(Rejected, match=r"names no bootstrap\.servers"):
        Topic({}, "flights")
    with pytest.raises(Rejected, match="refuses its configuration"):
        Topic({**broker.config, "security.protocol": "none"}, "flights")
