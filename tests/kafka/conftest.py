"""Fixtures for tests with Kafka."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from demo.trials.kafka import Broker
from demo.trials.secured_kafka import SecuredBroker
from demo.trials.served import Served
from writer_client import KafkaNotedProducer

Start = Callable[..., KafkaNotedProducer]


@pytest.fixture
def topic(broker: Broker, served: Served, request: pytest.FixtureRequest) -> str:
    """Return a topic of two partitions, named like the test, with its stream.

    A module may set their configuration as `TOPIC` and `STREAM`.
    """
    name = re.sub(r"\W", "_", request.node.name)
    broker.create(name, 2, getattr(request.module, "TOPIC", {}))
    served.make(name, **getattr(request.module, "STREAM", {}))
    return name


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Return a secured broker with a topic of two partitions, and a record in the first."""
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as broker:
        broker.create("flights")
        broker.send("flights", [(0, '{"at": 5}', 5)])
        yield broker


@pytest.fixture
def start(broker: Broker, served: Served, topic: str) -> Iterator[Start]:
    """Return a function that starts a producer; open producers are closed at the end."""
    started = []

    def start(
        writer: str = "berlin",
        config: Mapping[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 - any option
    ) -> KafkaNotedProducer:
        producer = KafkaNotedProducer(
            {**broker.config, "linger.ms": 5, **(config or {})},
            topic,
            served.url,
            writer,
            **{"wait": None, **options},
        )
        started.append(producer)
        return producer

    yield start
    for producer in started:
        producer.end(30)
