"""The cluster for trials, as `./run cluster` starts it, and the flights query on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo.trials.cluster import free_ports
from demo.trials.ports import listens
from demo.trials.run_cluster import PORTS, refuse
from noted_time import Rejected
from tests.support.processes import ROOT, environment

pytestmark = pytest.mark.acceptance

ALL_COUNTED = "It counted 831 flights in 20 hours: 0 lost and 0 counts given out twice"


def test_it_runs_the_flights_query_and_stays_until_ctrl_c(tmp_path: Path) -> None:
    """Then nothing of it listens any more; meanwhile a second one is refused by its ports."""
    port = free_ports(len(PORTS))
    options = ["--data", str(tmp_path), "--port", str(port), "--days", "1"]
    words = [sys.executable, "-m", "demo.trials.run_cluster", *options]
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
