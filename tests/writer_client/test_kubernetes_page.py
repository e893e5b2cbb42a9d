"""The program of the page about Kubernetes, as pods run it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from tests.support.page import list_examples, read_page
from tests.support.processes import environment
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S, wait_until

READY = "/tmp/ready"  # noqa: S108 - of the page; the tests' own is elsewhere


class Pod(NamedTuple):
    """A process of the page's program, and its output."""

    process: subprocess.Popen[bytes]
    said: Path

    def stop(self) -> None:
        """Stop it as Kubernetes does; its status must be 0."""
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) == 0, self.said.read_text()

    def wait_until_fenced(self) -> str:
        """Wait until it ends with `Fenced`, and return its output."""
        assert self.process.wait(PATIENCE_S) == 1
        assert "Fenced" in self.said.read_text()
        return self.said.read_text()


class Pods:
    """Processes of the page's program, each in a directory that stands for its container."""

    def __init__(self, directory: Path, url: str, kept: ExitStack) -> None:
        (self._program,) = (
            example.program
            for example in list_examples(read_page("docs/guides/kubernetes.md"))
            if example.language == "python"
        )
        self.log = directory / "log"
        self._directory = directory
        self._url = url
        self._kept = kept
        self._started = 0

    def start(self, name: str) -> Pod:
        """Start a pod of this name, and return when it is ready."""
        self._started += 1
        ready = self._directory / f"{self._started}.ready"
        program = self._program.replace("/data/log", str(self.log)).replace(READY, str(ready))
        log_file = ready.with_suffix(".log")
        with log_file.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                env=environment(NOTED_TIME_URL=self._url, WRITER=name),
                stderr=errors,
            )
        self._kept.callback(process.wait)
        self._kept.callback(process.kill)
        wait_until(lambda: ready.exists() or process.poll() is not None)
        assert ready.exists(), log_file.read_text()
        return Pod(process, log_file)

    def rows(self) -> int:
        """Return how many rows all pods have appended."""
        return sum(pq.read_metadata(file).num_rows for file in self.log.rglob("*.parquet"))


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a controller of one test alone."""
    with Served() as running:
        running.make("orders")
        yield running


@pytest.fixture
def pods(tmp_path: Path, served: Served) -> Iterator[Pods]:
    with ExitStack() as stack:
        yield Pods(tmp_path, served.url, stack)


def states(served: Served) -> dict[str, str]:
    """Return the state of each writer."""
    return {name: row["state"] for name, row in served.writers("orders").items()}


def nothing_is_lost(served: Served, pods: Pods) -> None:
    """No mark advanced without a writer, and the last one covers every row."""
    entries = served.get("orders/ledger")["entries"]
    for entry in entries:
        assert {writer["reason"] for writer in entry["writers"]} <= {"not_joined"}
    assert served.all_marks("orders")[-1]["cut"] == {"0": pods.rows()}


def test_deployment_rollout_holds_no_time(pods: Pods, served: Served) -> None:
    """The new pod has joined when the old one finishes."""
    old_pod = pods.start("orders-7c9f4-x2x8q")
    wait_until(lambda: pods.rows() > 2)
    new_pod = pods.start("orders-5d8b6-kq4zt")
    old_pod.stop()
    until = served.lower("orders")
    wait_until(lambda: served.lower("orders") > until)
    new_pod.stop()

    both = {"orders-7c9f4-x2x8q": "finished", "orders-5d8b6-kq4zt": "finished"}
    assert states(served) == both
    nothing_is_lost(served, pods)


def test_two_replicas_under_one_name_take_turns(pods: Pods, served: Served) -> None:
    """Each new pod ends the one before, which names it."""
    first = pods.start("orders")
    second = pods.start("orders")
    assert f":{second.process.pid} took its name over" in first.wait_until_fenced()
    third = pods.start("orders")
    assert f":{third.process.pid} took its name over" in second.wait_until_fenced()
    (hint,) = served.get("orders/explain")["hints"]
    assert (hint["writer"], hint["hint"]) == ("orders", "fenced")
    assert all(f":{pod.process.pid}" in hint["detail"] for pod in (second, third))
