"""The command line of the demonstration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from demo import cli, findings
from demo.data import HOUR_MS, Flights
from demo.findings import Findings
from demo.measurement import Outcome


def test_a_loss_of_noted_time_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The demo is a test of the promise: one row is enough."""

    @contextmanager
    def staged(flights: Flights, *_: Any, on_kafka: bool) -> Iterator[SimpleNamespace]:  # noqa: ANN401
        assert not on_kafka
        yield SimpleNamespace(flights=flights)

    def find(_stage: Any, *, run_own: bool) -> Findings:  # noqa: ANN401
        assert run_own
        noted = Outcome(None, rows=831, lost=1, latencies_ms=(HOUR_MS,))
        outcomes = (noted, Outcome(10 * HOUR_MS, rows=831, lost=0, latencies_ms=(11 * HOUR_MS,)))
        return Findings(measured=outcomes, predicted=outcomes)

    monkeypatch.setattr(cli, "staged", staged)
    monkeypatch.setattr(findings, "find", find)
    result = CliRunner().invoke(cli.app, ["--days", "1", "--out", str(tmp_path)])

    assert result.exit_code == 1
