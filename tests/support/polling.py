"""A count of polls in place of a duration, for observers with a short poll."""

import time as clocks

import pytest

from noted_time import Unreachable
from noted_time.client.polling import PollingLoop
from noted_time_cli.observers import noting
from noted_time_cli.terminal.running import run_for
from tools.trials.waiting import wait_until

POLLS = 20
"""Enough to read all records, to find a segment idle and to note that."""


def count_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an observer with `--for` poll 20 times, since a duration depends on the machine."""
    monkeypatch.setattr(noting, "run_for", _poll)


def _poll(
    observer: PollingLoop, lasting_ms: int | None, health_port: int | None, limit_s: float
) -> None:
    if not lasting_ms:
        run_for(observer, lasting_ms, health_port, limit_s)
        return
    for _ in range(POLLS):
        wait_until(lambda: _is_read(observer))
        clocks.sleep(observer.poll_ms / 1000)


def _is_read(observer: PollingLoop) -> bool:
    try:
        observer.look()
    except Unreachable:
        return False
    observer.check_refusals()
    return True
