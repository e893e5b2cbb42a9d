from dataclasses import replace

import pytest

from demo import observers
from demo.findings import find
from demo.stage import Stage
from demo.trials.kafka import Broker

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.fixture
def on_kafka(morning: Stage, broker: Broker) -> Stage:
    """Return the stage with a broker."""
    return replace(morning, broker=broker)


def test_a_killed_carrier_and_a_new_partition_lose_no_flight(on_kafka: Stage) -> None:
    """Transactions, and a query that runs live beside them."""
    findings = find(on_kafka, run_own=False)

    grown, killed = findings.incidents
    assert (findings.agree, findings.measured[0].lost) == (True, 0)
    assert ("partition was added" in grown, "killed (-9)" in killed) == (True, True)


def test_the_maximum_loses_rows_of_an_outage_that_the_observed_minimum_waits_for(
    monkeypatch: pytest.MonkeyPatch, on_kafka: Stage
) -> None:
    """Every row lost and every latency is as simulated, by both and at each delay."""
    monkeypatch.setattr(observers, "DELAY_HOURS", 2)
    monkeypatch.setattr(observers, "ROWS_PER_LOOK", 50)
    result = observers.play(on_kafka)

    assert all([*observers.opening(on_kafka.flights), *result.meaning])
    own, observed = ([each["lost"] for each in rows] for rows in result.figures.values())
    assert (result.broken, own, observed) == ((), [17], [8])
