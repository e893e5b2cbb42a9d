"""The broker for trials, as `./run kafka` starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noted_time.kafka.topic import Topic
from tests.support import kafka
from tests.support.processes import ROOT, environment

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(not kafka.installed(), reason=kafka.MISSING),
]


def run_kafka(data: Path, *options: str) -> subprocess.Popen[str]:
    """Start it in a group of processes of its own, as a terminal does."""
    words = [sys.executable, "-m", "tests.support.run_kafka", "--data", str(data), *options]
    return subprocess.Popen(
        words, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True, process_group=0
    )


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Return its lines up to one that contains the text."""
    assert process.stderr is not None
    lines = [process.stderr.readline()]
    while text not in lines[-1]:
        assert lines[-1], lines
        lines.append(process.stderr.readline())
    return lines


def test_it_listens_until_ctrl_c_and_keeps_its_topics(tmp_path: Path) -> None:
    """Ctrl-C reaches the broker as well; a second one is refused, be it over port or data."""
    port = kafka.free_port()
    with run_kafka(tmp_path, "--port", str(port), "--topic", "flights:4") as first:
        said = read_until(first, "another terminal")
        on_port = run_kafka(tmp_path / "other", "--port", str(port)).communicate()[1]
        on_data = run_kafka(tmp_path, "--port", str(kafka.free_port())).communicate()[1]
        look = Topic({"bootstrap.servers": f"127.0.0.1:{port}"}, "flights").look()
        os.killpg(first.pid, signal.SIGINT)
        first.communicate()
    with run_kafka(tmp_path, "--port", str(port)) as second:
        again = read_until(second, "another terminal")
        second.terminate()
        second.communicate()

    assert said[0].startswith(f"Kafka listens at 127.0.0.1:{port} until Ctrl-C")
    assert look.ends == dict.fromkeys(range(4), 0)
    assert again[1] == "Topics: flights (4 partitions).\n"
    assert f"port {port} is taken" in on_port
    assert f"another ./run kafka runs over {tmp_path}: end it first" in on_data
    assert (first.returncode, second.returncode) == (0, 0)
