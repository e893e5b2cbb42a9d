"""Transactions of Kafka that are open."""

from typing import Any

from confluent_kafka import Producer

from tools.trials.kafka import Broker


def begin_transaction(
    broker: Broker,
    topic: str,
    value: str,
    *,
    name: str = "",
    **record: Any,  # noqa: ANN401 - fields of a record
) -> Producer:
    """Return a producer of that name, by default the topic's, with a record in a transaction."""
    producer = Producer({**broker.config, "transactional.id": name or topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, value, **record)
    assert producer.flush(60) == 0
    return producer
