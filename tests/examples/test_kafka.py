from dataclasses import replace

import pytest

from examples.flights.demo import Plan, find
from examples.flights.replay import STREAM
from examples.flights.stage import Stage
from tests.support.kafka import Broker

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.fixture
def on_kafka(morning: Stage, broker: Broker) -> Stage:
    """Return the stage with a broker that has no topic of the flights."""
    if STREAM in broker.admin.list_topics(timeout=60).topics:
        broker.delete(STREAM)
    return replace(morning, bootstrap=broker.address)


def test_a_killed_carrier_and_a_new_partition_lose_no_flight(on_kafka: Stage) -> None:
    """A process for each carrier, transactions, and a query that runs live beside them."""
    findings = find(on_kafka, Plan(delay_hours=(10,), run_own=False))

    grown, killed = findings.incidents
    assert (findings.agree, findings.measured[0].lost) == (True, 0)
    assert ("partition was added" in grown, "killed (-9)" in killed) == (True, True)
