"""The command line of the demonstration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from demo import cli, findings, report
from demo.data import HOUR_MS, Flights
from demo.findings import Findings
from demo.measurement import Outcome
from demo.surroundings import require_java
from noted_time import Rejected

MADE = ["flights.db", "flights.json", "flights.png"]


def run(monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: str, lost: int = 0) -> Result:
    """Run the command on one day, with findings in which noted time lost that many rows."""

    @contextmanager
    def staged(
        flights: Flights,
        *_: Any,  # noqa: ANN401
        **where: bool,
    ) -> Iterator[SimpleNamespace]:
        assert not any(where.values())
        yield SimpleNamespace(flights=flights)

    def find(_stage: Any, *, run_own: bool) -> Findings:  # noqa: ANN401
        assert run_own
        noted = Outcome(None, rows=831, lost=lost, latencies_ms=(HOUR_MS,))
        outcomes = (noted, Outcome(10 * HOUR_MS, rows=831, lost=0, latencies_ms=(11 * HOUR_MS,)))
        return Findings(measured=outcomes, predicted=outcomes)

    monkeypatch.setattr(cli, "staged", staged)
    monkeypatch.setattr(findings, "find", find)
    return CliRunner().invoke(cli.app, ["--days", "1", "--out", str(out), *arguments])


def test_a_loss_of_noted_time_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The demo is a test of the promise: one row is enough."""
    result = run(monkeypatch, tmp_path, lost=1)

    assert result.exit_code == 1


def test_a_demo_can_stay_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It serves what it kept until Ctrl-C, which is not a failure and leaves nothing behind."""
    answers, urls = [], list[str]()

    def interrupted(_: float) -> None:
        answers.append(httpx.get(f"{urls[0]}/v1/streams", trust_env=False).json())
        raise KeyboardInterrupt

    def shown(url: str) -> str:
        urls.append(url)
        return "its page"

    monkeypatch.setattr(report, "page", shown)
    monkeypatch.setattr(cli, "time", SimpleNamespace(sleep=interrupted))
    result = run(monkeypatch, tmp_path, "--open")

    made = sorted(path.name for path in tmp_path.iterdir())
    message = "Until Ctrl-C the flights are at its page"
    assert (result.exit_code, result.output.splitlines()[-1], made) == (0, message, MADE)
    assert answers == [{"streams": [], "next": None}]


def test_without_java_the_demo_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own words would be a page of Python."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(Rejected, match=r"Java 17 or newer: install one .* `./run demo`"):
        require_java()
