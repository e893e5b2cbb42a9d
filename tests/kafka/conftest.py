"""What the tests of Kafka share."""

import pytest

from tests.support.kafka import Broker
from tests.support.served import Served


@pytest.fixture
def topic(broker: Broker, served: Served, request: pytest.FixtureRequest) -> str:
    """Return a topic of two partitions, named like the test, with its stream."""
    name = str(request.node.name)
    broker.create(name, 2)
    served.make(name)
    return name
