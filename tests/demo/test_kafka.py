import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from demo.findings import find
from demo.stage import Stage
from tools.trials import broker as brokers
from tools.trials import kafka
from tools.trials.kafka import Broker

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.fixture
def on_kafka(morning: Stage, broker: Broker) -> Stage:
    """Return the stage with a broker."""
    return replace(morning, broker=broker)


def test_a_killed_carrier_and_a_new_partition_lose_no_flight(on_kafka: Stage) -> None:
    """The carriers use transactions, and a query runs at the same time."""
    findings = find(on_kafka, run_own=False)

    growth, kill = findings.incidents
    assert (findings.agree, findings.measured[0].lost) == (True, 0)
    assert ("partition was added" in growth, "killed (-9)" in kill) == (True, True)


@pytest.mark.skipif(not kafka.is_installed(), reason=kafka.MISSING)
def test_frozen_broker_is_killed_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot end in order, and must not be left behind."""
    monkeypatch.setattr(brokers, "STOP_PATIENCE_S", 0.1)
    with Broker(tmp_path) as frozen_broker:
        os.kill(frozen_broker.pid, signal.SIGSTOP)

    assert frozen_broker.poll() == -signal.SIGKILL
