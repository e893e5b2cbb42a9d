"""The cluster for trials, as `./run cluster` starts it, and the flights query on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.ports import listens
from examples.trials.cluster import Cluster, free_ports
from examples.trials.kafka import Broker
from examples.trials.run_cluster import PORTS, count_flights, refuse
from noted_time import Rejected
from tests.support.processes import ROOT, environment
from tests.support.served import Served

pytestmark = pytest.mark.acceptance

ALL_COUNTED = "It counted 831 flights in 20 hours: 0 lost and 0 counts given out twice"


def test_it_runs_the_flights_query_and_stays_until_ctrl_c(tmp_path: Path) -> None:
    """Then nothing of it listens any more; meanwhile a second one is refused by its ports."""
    port = free_ports(len(PORTS))
    options = ["--data", str(tmp_path), "--port", str(port), "--days", "1"]
    words = [sys.executable, "-m", "examples.trials.run_cluster", *options]
    with subprocess.Popen(
        words, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True, process_group=0
    ) as running:
        assert running.stderr is not None
        said = [running.stderr.readline()]
        while said[-1] and "Ctrl-C" not in said[-1]:
            said.append(running.stderr.readline())
        assert ALL_COUNTED in "".join(said)
        with pytest.raises(
            Rejected, match=f"port {port}, which the master needs, is taken.*--port"
        ):
            refuse(port, 2, None)
        os.killpg(running.pid, signal.SIGINT)
        running.communicate()

    assert f"sc://127.0.0.1:{port + 2}" in "".join(said)
    assert running.returncode == 0
    assert [listens(each) for each in range(port, port + 4)] == [False] * 4


def test_the_flights_query_counts_a_topic_on_the_cluster(
    cluster: Cluster,
    broker: Broker,
    served: Served,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As with `./run cluster --kafka`."""
    asked = {"url": served.url, "checkpoint": str(tmp_path), "bootstrap": broker.address}
    count_flights(cluster, 1, asked)

    assert ALL_COUNTED in capsys.readouterr().err


def test_what_would_not_start_is_refused_with_what_to_change() -> None:
    """Too little memory, no worker at all, and ports that there are not."""
    port = free_ports(1)
    with pytest.raises(Rejected, match=r"2 workers need 2,900 MB .*there are 100: .*--workers"):
        refuse(port, 2, 100)
    with pytest.raises(Rejected, match="at least: choose --workers"):
        refuse(port, 0, None)
    with pytest.raises(Rejected, match="no 5 ports from 65535 on: choose another --port"):
        refuse(65_535, 2, None)
