from dataclasses import replace

import pytest

from demo import observers
from demo.findings import Plan, find
from demo.replay import STREAM
from demo.stage import Stage
from demo.trials.kafka import Broker
from demo.ways import IN_JAVA

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.fixture
def on_kafka(morning: Stage, broker: Broker) -> Stage:
    """Return the stage with a broker that has no topic of the flights."""
    if STREAM in broker.admin.list_topics(timeout=60).topics:
        broker.delete(STREAM)
    return replace(morning, bootstrap=broker.address)


def test_a_killed_carrier_a_new_partition_and_one_that_is_observed_lose_no_flight(
    on_kafka: Stage,
) -> None:
    """A process for each carrier, transactions, and a query that runs live beside them."""
    findings = find(on_kafka, Plan(delay_hours=(10,), run_own=False))

    grown, killed, price = findings.incidents
    assert (findings.agree, findings.measured[0].lost) == (True, 0)
    assert ("partition was added" in grown, "killed (-9)" in killed) == (True, True)
    in_java = "; EV by configuration, less 4 h" if IN_JAVA else ""
    assert findings.ways.endswith(f"; US observed, exact{in_java}; MQ observed, less 4 h")
    assert "Had all carriers noted themselves" in price


def test_the_maximum_loses_rows_of_an_outage_that_the_observed_minimum_waits_for(
    monkeypatch: pytest.MonkeyPatch, on_kafka: Stage
) -> None:
    """Every row lost and every latency is as simulated, by both and at each delay."""
    monkeypatch.setattr(observers, "DELAY_HOURS", (1, 2))
    monkeypatch.setattr(observers, "ROWS_PER_LOOK", 50)
    result = observers.play(on_kafka)

    assert all([*observers.opening(on_kafka.flights), *result.meaning])
    own, observed = ([each["lost"] for each in rows] for rows in result.figures.values())
    assert (result.broken, own, observed) == ((), [37, 17], [12, 8])
